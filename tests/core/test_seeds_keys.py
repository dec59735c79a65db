import json
import random
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.core.canonical import canonical, content_key
from synth.core.seeds import rng, seed

scalars = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False)
json_values = st.recursive(
    scalars.filter(lambda v: v not in (float("inf"), float("-inf"))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(json_values)
def test_canonical_json_round_trips_and_forgets_key_order(value):
    text = canonical(value)
    assert json.loads(text) == value
    if isinstance(value, dict):
        assert canonical(dict(reversed(value.items()))) == text


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), "\ud800", {1, 2}, {"a": [float("nan")]}]
)
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises(ValueError, match="JSON"):
        canonical(value)


def test_a_value_nested_without_end_is_refused_as_what_it_is():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(ValueError, match="JSON"):
        canonical(deep)


def test_a_float_and_an_integer_have_different_keys():
    assert content_key({"a": 1}) != content_key({"a": 1.5})


def test_seeds_are_the_same_in_every_process_and_tell_types_apart():
    code = "from synth.core.seeds import seed; print(seed('a', 1, 'b'))"
    out = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": str(n)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for n in (1, 2)
    ]
    assert out[0] == out[1] == f"{seed('a', 1, 'b')}\n"
    assert seed("a", 1) != seed("a", "1")
    assert seed("a", "b") != seed("ab")
    assert rng("x").random() == random.Random(seed("x")).random()
