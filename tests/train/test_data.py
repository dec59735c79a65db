"""Dataset rows: what is wrong with one is said with file and line."""

import copy
import json

import pytest

from synth.core.errors import BadInput, BadRow
from train.data import conversation, prepare, read_conversations

ROW = {
    "id": "e1",
    "messages": [
        {"role": "system", "content": "Help."},
        {"role": "user", "content": "Find x."},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [
                {
                    "id": "c",
                    "type": "function",
                    "function": {"name": "find", "arguments": '{"q":"x"}'},
                }
            ],
        },
        {"role": "tool", "content": "{}", "tool_call_id": "c"},
        {"role": "assistant", "content": "Done."},
    ],
    "tools": '[{"type": "function", "function": {"name": "find", "parameters": {}}}]',
    "application": "library",
    "kind": "lookup",
    "difficulty": 1,
}


def changed(change):
    row = copy.deepcopy(ROW)
    change(row)
    return row


def write(path, rows):
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_a_dataset_is_read_blank_lines_skipped_and_the_last_line_kept(tmp_path):
    file = tmp_path / "d.jsonl"
    file.write_text(f"{json.dumps(ROW)}\n\n{json.dumps(ROW)}", encoding="utf-8")
    read = read_conversations(file)
    assert [one.where for one in read] == [f"{file}:1", f"{file}:3"]
    assert read[0].application == "library"
    assert read[0].messages[2]["tool_calls"][0]["function"]["arguments"] == '{"q":"x"}'
    assert read[0].tools[0]["function"]["name"] == "find"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r.pop("id"), "id: Field required"),
        (lambda r: r.update(messages=[]), "messages"),
        (lambda r: r["messages"][1].update(role="User"), "messages.1.role"),
        (lambda r: r["messages"][1].update(content=3), "messages.1.content"),
        (lambda r: r["messages"][2]["tool_calls"][0]["function"].pop("name"),
         "messages.2.tool_calls.0.function.name"),
        (lambda r: r["messages"][3].update(tool_call_id="other"),
         "messages.3.tool_call_id: no earlier call has the id 'other'"),
        (lambda r: r["messages"][1].update(tool_calls=r["messages"][2]["tool_calls"]),
         "messages.1: a user message makes tool calls"),
        (lambda r: r.update(messages=r["messages"][:2]), "no assistant message"),
        (lambda r: r["messages"][4].update(weight=-1), "messages.4.weight"),
        (lambda r: r.update(tools="[{]"), "tools: not the JSON text of a list of tools"),
        (lambda r: r.update(tools='{"a": 1}'), "tools: not the JSON text"),
        (lambda r: r.update(tools='[{"function": {}}]'), "function.name: Field required"),
        (lambda r: r.update(tools=[]), "tools"),
    ],
)  # fmt: skip
def test_a_row_that_does_not_validate_names_file_line_and_place(tmp_path, change, said):
    file = write(tmp_path / "d.jsonl", [ROW, changed(change)])
    with pytest.raises(BadRow) as caught:
        read_conversations(file)
    assert str(caught.value).startswith(f"{file}:2: ")
    assert said in str(caught.value)


def test_a_line_that_is_no_json_names_file_and_line(tmp_path):
    file = tmp_path / "d.jsonl"
    file.write_text(f"{json.dumps(ROW)}\n{{", encoding="utf-8")
    with pytest.raises(BadRow, match=r"d\.jsonl:2: not JSON"):
        read_conversations(file)


def test_a_missing_dataset_is_one_clear_line(tmp_path):
    with pytest.raises(BadInput, match="cannot be read: No such file"):
        read_conversations(tmp_path / "none.jsonl")


def test_rows_are_prepared_and_what_is_left_out_is_counted(renderer):
    silent = changed(lambda r: [m.update(weight=0) for m in r["messages"]])
    long = changed(lambda r: r["messages"][1].update(content="x " * 3000))
    read = [conversation(row, where="d:1") for row in (ROW, silent, long, ROW)]
    prepared = prepare(read, renderer, longest=1000)
    assert prepared.left_out == {"nothing_to_learn": 1, "too_long": 1}
    assert len(prepared.rows) == 2
    assert len(set(prepared.agents)) == 1
    text = renderer.decode(
        [
            token
            for token, weight in zip(prepared.rows[0].ids, prepared.rows[0].weights, strict=True)
            if weight
        ]
    )
    assert text == (
        '<tool_call>{"name": "find", "arguments": {"q":"x"}}</tool_call><|im_end|>Done.<|im_end|>'
    )


def test_a_conversation_without_a_text_in_the_format_names_its_row(renderer):
    odd = changed(lambda r: r["messages"][4].update(content="<tool_call>"))
    with pytest.raises(BadRow, match="d:7: message 4 says <tool_call>"):
        prepare([conversation(odd, where="d:7")], renderer)
