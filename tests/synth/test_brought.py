"""Conversations from elsewhere are judged as far as they tell, and no further."""

import copy
import json
import subprocess
import sys

import pytest

from synth.brought import programs, read_brought
from synth.core.errors import BadRow

TOOL = {
    "type": "function",
    "function": {
        "name": "get_order",
        "description": "Show an order.",
        "parameters": {
            "type": "object",
            "properties": {"order_id": {"type": "string"}},
            "required": ["order_id"],
            "additionalProperties": False,
        },
    },
}


def call(arguments, name="get_order", number=0):
    function = {"name": name, "arguments": arguments}
    return {"id": f"c{number}", "type": "function", "function": function}


GOOD = {
    "tools": [TOOL],
    "messages": [
        {"role": "system", "content": "Help."},
        {"role": "user", "content": "Where is order W77-1?"},
        {"role": "assistant", "content": None, "tool_calls": [call('{"order_id": "W77-1"}')]},
        {"role": "tool", "tool_call_id": "c0", "content": '{"state": "sent"}'},
        {"role": "assistant", "content": "It is on its way."},
    ],
}
SHAREGPT = {
    "system": "Help.",
    "tools": json.dumps([TOOL["function"]]),
    "conversations": [
        {"from": "human", "value": "Where is order W77-1?"},
        {"from": "function_call",
         "value": '{"name": "get_order", "arguments": {"order_id": "W77-1"}}'},
        {"from": "observation", "value": '{"state": "sent"}'},
        {"from": "gpt", "value": "It is on its way."},
    ],
}  # fmt: skip


def found(tmp_path, *rows):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return [programs(one) for one in read_brought(path)]


def changed(place, **values):
    row = copy.deepcopy(GOOD)
    row["messages"][place] |= values
    return row


def test_what_is_sound_is_left_open_in_both_forms(tmp_path):
    text = GOOD | {"tools": json.dumps([TOOL])}
    without_system = GOOD | {"messages": GOOD["messages"][1:]}
    parts = changed(1, content=[{"type": "text", "text": "Where is order W77-1?"}])
    objects = changed(2, tool_calls=[call({"order_id": "W77-1"})])
    for one in found(tmp_path, GOOD, SHAREGPT, text, without_system, parts, objects):
        assert (one.passed, one.reason) == (None, "not_judged:state")


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (changed(2, tool_calls=[call('{"order_id": "W77-2"}')]), "rule:ungrounded"),
        (changed(2, tool_calls=[call('{"order": "W77-1"}')]), "rule:schema"),
        (changed(2, tool_calls=[call('{"order_id": "W77-1"}', "drop")]), "rule:unknown_tool"),
        (changed(2, tool_calls=[call("{nonsense")]), "format:arguments"),
        (changed(3, tool_call_id="c9"), "format:result"),
        (changed(4, role="user"), "format:roles"),
        (changed(4, content=""), "format:empty"),
    ],
)
def test_what_is_wrong_in_itself_is_named(tmp_path, row, reason):
    (one,) = found(tmp_path, row)
    assert (one.passed, one.reason) == (False, reason)
    assert one.evidence


def test_calls_of_unknown_tools_are_open_where_the_file_names_none(tmp_path):
    (one,) = found(tmp_path, {"messages": GOOD["messages"]})
    assert (one.passed, one.reason) == (None, "not_judged:tools")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no conversation"),
        ("{}\n", "rows.jsonl:1: not a conversation"),
        ('{"messages": [{"role": "judge", "content": "x"}]}\n', "rows.jsonl:1: role"),
        ('{"messages": [{"role": "user"}], "tools": "["}\n', "rows.jsonl:1: not a conversation"),
        ('{"conversations": [{"from": "human"}]}\n', "rows.jsonl:1: not a conversation"),
        ("[1]\n", "rows.jsonl:1"),
    ],
)
def test_a_line_that_is_no_conversation_is_one_clear_line(tmp_path, text, told):
    path = tmp_path / "rows.jsonl"
    path.write_text(text)
    with pytest.raises(BadRow) as caught:
        read_brought(path)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_command_says_what_it_cannot_know(tmp_path):
    path = tmp_path / "rows.jsonl"
    bad = changed(2, tool_calls=[call('{"order_id": "W77-2"}')])
    path.write_text("".join(json.dumps(row) + "\n" for row in (GOOD, bad)))
    command = [sys.executable, "-m", "synth", "judge", str(path)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert "2 conversations, 1 of them wrong in themselves" in shown
    assert "rows.jsonl:2: rule:ungrounded" in shown
    told = json.loads(subprocess.check_output([*command, "--json"], timeout=60))
    assert [row["passed"] for row in told["files"][0]["found"]] == [None, False]
