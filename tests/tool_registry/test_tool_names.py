"""Function names: valid for every provider, different for different tools, reversible."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tool_registry.names import MAX_LENGTH, function_name

VALID = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAMES = st.text(min_size=1, max_size=80) | st.from_regex(
    r"[a-z_]*_x[0-9a-f]{1,6}_\w*", fullmatch=True
)


def raw_name(function):
    """Turn a function name back as its rule says; None where only a hash is left."""
    if len(function) == MAX_LENGTH and re.search(r"__[0-9a-f]{12}\Z", function):
        return None
    return re.sub(r"_x([0-9a-f]{1,6})_", lambda found: chr(int(found[1], 16)), function)


@pytest.mark.claim("c07")
@settings(max_examples=60, deadline=None)
@given(NAMES)
def test_every_name_becomes_a_valid_function_name(name):
    assert VALID.fullmatch(function_name(name))


@pytest.mark.claim("c07")
@settings(max_examples=60, deadline=None)
@given(NAMES)
def test_a_function_name_leads_back_unless_only_a_hash_is_left(name):
    function = function_name(name)
    back = raw_name(function)
    assert back == name or (back is None and len(function) == 64)


@pytest.mark.claim("c07")
@settings(max_examples=60, deadline=None)
@given(NAMES, NAMES)
def test_different_tools_never_share_a_function_name(one, other):
    assert (function_name(one) == function_name(other)) == (one == other)


@pytest.mark.parametrize(
    ("raw", "function"),
    [
        ("get_order", "get_order"),
        ("get-order", "get-order"),
        ("Get Order", "Get_x20_Order"),
        ("orders.get", "orders_x2e_get"),
        ("a/b", "a_x2f_b"),
        ("größe", "gr_xf6__xdf_e"),
        ("_x20_", "_x5f_x20_"),
        ("n" * 64, "n" * 64),
    ],
)
def test_readable_names_stay_readable(raw, function):
    assert function_name(raw) == function
    assert raw_name(function) == raw


def test_long_names_keep_their_beginning_and_differ_by_hash():
    one, other = function_name("n" * 65), function_name("n" * 66)
    assert one[:50] == other[:50] == "n" * 50
    assert one != other
    assert raw_name(one) is None


def test_a_name_that_looks_like_a_hash_is_hashed_itself():
    long = function_name("n" * 100)
    assert function_name(long) != long
