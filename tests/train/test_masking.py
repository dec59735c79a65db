"""Function masking: the same rows with other tool names."""

from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from train.data import Conversation, agent_of, conversation
from train.masking import masked, names


def row(system: str, *, tool: str = "find_customer", n: int = 0) -> Conversation:
    tools = [
        {"type": "function", "function": {"name": name, "description": "x", "parameters": {}}}
        for name in (tool, "search", "cancel_order")
    ]
    call = {"id": "c1", "type": "function", "function": {"name": tool, "arguments": "{}"}}
    messages = [
        {"role": "system", "content": system},
        {"role": "user", "content": f"{n}: do not {tool}, search"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": f'{{"by":"{tool}"}}'},
        {"role": "assistant", "content": f"I used {tool}."},
    ]
    return conversation(
        {"id": str(n), "messages": messages, "tools": json.dumps(tools)}, where="rows:1"
    )


def test_declarations_calls_and_what_agent_and_prompt_say_get_the_same_new_name() -> None:
    before = row("Use `cancel_order`; search well.")
    (after,) = masked([before], every=1, seed=3)
    declared = [tool["function"]["name"] for tool in after.tools]
    assert not set(declared) & {"find_customer", "cancel_order"}
    assert after.messages[2]["tool_calls"][0]["function"]["name"] == declared[0]
    assert after.messages[4]["content"] == f"I used {declared[0]}."
    assert after.messages[0]["content"] == f"Use `{declared[2]}`; search well."


def test_what_the_user_and_the_tools_said_stays() -> None:
    before = row("x")
    (after,) = masked([before], every=1, seed=3)
    assert (after.messages[1], after.messages[3]) == (before.messages[1], before.messages[3])


def test_the_row_it_was_made_from_is_left_alone() -> None:
    before = row("x")
    text = json.dumps([before.messages, before.tools])
    masked([before], every=1, seed=0)
    assert json.dumps([before.messages, before.tools]) == text


def test_so_many_rows_of_one_agent_share_their_prompt_and_the_next_have_another() -> None:
    rows = masked([row("x", n=n) for n in range(6)], every=3, seed=0)
    agents = [agent_of(one.messages, one.tools) for one in rows]
    assert agents[0] == agents[1] == agents[2] != agents[3]
    assert agents[3] == agents[4] == agents[5]


def test_the_same_seed_gives_the_same_names() -> None:
    rows = [row("x", n=n) for n in range(4)]
    assert masked(rows, every=2, seed=5) == masked(rows, every=2, seed=5)
    assert masked(rows, every=2, seed=5) != masked(rows, every=2, seed=6)


def test_a_toolset_of_more_words_than_there_are_nouns_is_renamed_as_far_as_they_go() -> None:
    tools = [f"find_{a}{b}" for a in "abcdefghijklmn" for b in "abcdefghi"]
    other = names([*tools, "search", "look"], random.Random(1))
    assert len(set(other.values())) == len(tools) + 2
    assert (other["search"], other["look"]) == ("search_item", "look_item")


def test_a_tool_that_keeps_its_name_keeps_it_alone() -> None:
    for seed in range(50):
        # What `find_card` would be called is what the other tool is called, whose turn comes later.
        taken = names(["find_card"], random.Random(seed))["find_card"]
        other = names(["find_card", f"{'x' * 70}_card", taken], random.Random(seed))
        assert other["find_card"] == "find_card"
        assert len(set(other.values())) == 3


@given(
    st.lists(st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_-]{0,40}", fullmatch=True), unique=True),
    st.integers(),
)
def test_no_two_tools_get_one_name_and_every_name_is_one_that_endpoints_take(
    tools: list[str], seed: int
) -> None:
    other = names(tools, random.Random(seed))
    assert list(other) == tools
    assert len(set(other.values())) == len(tools)
    assert all(name and len(name) <= 64 and name.isascii() for name in other.values())
    assert all(set(name) <= set(ALLOWED) for name in other.values())


ALLOWED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
