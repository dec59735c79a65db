"""What every exporter of conversations promises: what is in its file is what the run said."""

import json
import re

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.conversation import call, first_difference, told
from synth.core.formats import Unwritable
from synth.dataset import EXPORTERS
from synth.exporters.hermes import TURN

NAMES = [name for name in EXPORTERS.names() if not name.startswith("preference")]
WRITTEN_EVERYTHING = {"openai", "parquet", "trl"}
TOOL = {
    "name": "find_room",
    "description": "Finds a room.",
    "parameters": {"type": "object", "properties": {"day": {"type": "string"}}},
}
TOOLS = orjson.dumps([{"type": "function", "function": TOOL}]).decode()
ABOUT = {
    "application": "hotel",
    "kind": "single_write",
    "difficulty": 2,
    "voice": "plain",
    "real": False,
    "task": "t",
    "agent": "a",
    "players": "{}",
    "criteria": "[]",
}


def row(*messages, tools=TOOLS, number=0):
    return {"id": f"e{number}", "messages": list(messages), "tools": tools, **ABOUT}


def says(role, content, *calls):
    return {"role": role, "content": content} | ({"tool_calls": list(calls)} if calls else {})


def result(number, content):
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": content}


USUAL = row(
    says("system", "You work at a desk.\n\nBe brief."),
    says("user", "A room, please."),
    says("assistant", "For which day?"),
    says("user", "Tomorrow – 3 März, and a table for “two”."),
    says(
        "assistant",
        "",
        call(0, "find_room", '{"day":"2026-03-03"}'),
        call(1, "find_room", '{ "n": 25.0, "who": {"a": [1, null, "ü"]} }'),
    ),
    result(0, '{"result":[]}'),
    result(1, "line\nline"),
    says("assistant", "", call(2, "find_room", "{}")),
    result(2, ""),
    says("assistant", "It is booked."),
    says("user", "Thank you."),
)


def through(name, path, *rows):
    exporter = EXPORTERS.get(name)
    file = path / f"x{exporter.suffix}"
    assert exporter.write([exporter.encode(one) for one in rows], file) == len(rows)
    return list(exporter.read(file))


@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_with_parallel_calls_is_read_back_as_it_was(name, tmp_path):
    (back,) = through(name, tmp_path, USUAL)
    assert told(back) == told(USUAL)
    assert [m["role"] for m in back["messages"]] == [m["role"] for m in USUAL["messages"]]


@pytest.mark.parametrize("name", NAMES)
def test_rows_whose_tools_and_arguments_share_nothing_do_not_mix(name, tmp_path):
    other = row(
        says("user", "x"),
        says("assistant", "", call(0, "b", '{"other":{"deep":1}}')),
        result(0, "y"),
        says("assistant", "z"),
        tools='[{"type":"function","function":{"name":"b","description":"B.","parameters":{}}}]',
        number=1,
    )
    found = through(name, tmp_path, USUAL, other, USUAL)
    assert [told(back) for back in found] == [told(one) for one in (USUAL, other, USUAL)]


words = st.text(st.characters(codec="utf-8"), max_size=30)
hostile = st.sampled_from(
    ["<|im_end|>", "<tool_call>", "</tool_response>\n<tool_response>", "<|im_start|>user\n",
     "\n\n<tools>\n", "## Return of x\n", "<|tool_calls_section_begin|>", "[EOS]", "\u2028", "\r\n"]
)  # fmt: skip
contents = st.lists(words | hostile, max_size=3).map("".join)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words
arguments = st.dictionaries(words, scalars | st.lists(scalars, max_size=2), max_size=3)


@st.composite
def conversations(draw):
    """Draw a conversation with results for all calls, whatever its order of roles."""
    messages = [says("system", draw(contents))] if draw(st.booleans()) else []
    count = 0
    for _ in range(draw(st.integers(1, 5))):
        role = draw(st.sampled_from(["user", "assistant", "calls"]))
        if role != "calls":
            messages.append(says(role, draw(contents)))
            continue
        wanted = [
            call(count + n, "find_room", json.dumps(draw(arguments)))
            for n in range(draw(st.integers(1, 3)))
        ]
        messages.append(says("assistant", draw(contents), *wanted))
        messages += [result(count + n, draw(contents)) for n in range(len(wanted))]
        count += len(wanted)
    return row(*messages)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=120)
@given(case=conversations())
def test_whatever_is_said_is_read_back_as_it_was_or_refused(name, case, tmp_path_factory):
    exporter = EXPORTERS.get(name)
    try:
        exporter.encode(case)
    except Unwritable:
        assert name not in WRITTEN_EVERYTHING
        return
    (back,) = through(name, tmp_path_factory.mktemp("x"), case)
    assert first_difference(told(case), told(back)) is None


@pytest.mark.parametrize("name", ["hermes", "kimi-k2", "verl"])
def test_nobodys_words_become_control_tokens(name):
    mark = "<|im_end|>"
    for place in range(len(USUAL["messages"])):
        messages = [dict(message) for message in USUAL["messages"]]
        messages[place]["content"] += f"so {mark}"
        with pytest.raises(Unwritable, match=re.escape(mark)):
            EXPORTERS.get(name).encode(row(*messages))
    tools = TOOLS.replace("Finds a room.", f"Finds {mark} a room.")
    with pytest.raises(Unwritable, match=re.escape(mark)):
        EXPORTERS.get(name).encode(row(*USUAL["messages"], tools=tools))


@pytest.mark.parametrize("name", ["hermes", "kimi-k2"])
def test_labelled_segments_are_what_the_agent_wrote_and_add_up_to_the_text(name):
    line = EXPORTERS.get(name).encode(USUAL)
    assert "".join(one["text"] for one in line["segments"]) == line["text"]
    trained = "".join(one["text"] for one in line["segments"] if one["label"])
    for said in ("For which day?", "It is booked.", '{"day":"2026-03-03"}', "<|im_end|>"):
        assert said in trained
    for not_said in ("A room, please.", "You work at a desk.", "line\nline", "Thank you."):
        assert not_said in line["text"]
        assert not_said not in trained


@pytest.mark.parametrize(
    ("messages", "reason"),
    [
        ([says("assistant", "Hello.")], "alternate"),
        ([says("user", "a"), says("user", "b"), says("assistant", "c")], "alternate"),
        ([says("user", "a")], "agent's"),
        (
            [says("user", "a"), says("assistant", "I look.", call(0, "x", "{}")), result(0, "r")],
            "beside",
        ),
        (
            [
                says("user", "a"),
                says("assistant", "", call(0, "x", "{}"), call(1, "x", "{}")),
                result(1, "r"),
                result(0, "r"),
                says("assistant", "b"),
            ],
            "order",
        ),
    ],
)
def test_sharegpt_refuses_what_its_readers_would_drop_or_bend(messages, reason):
    with pytest.raises(Unwritable, match=reason):
        EXPORTERS.get("sharegpt").encode(row(*messages))


def test_sharegpt_turns_alternate_and_end_with_the_agent():
    line = EXPORTERS.get("sharegpt").encode(USUAL)
    kinds = [turn["from"] for turn in line["conversations"]]
    assert kinds == [
        "human", "gpt", "human", "function_call", "observation", "function_call", "observation",
        "gpt",
    ]  # fmt: skip
    assert line["closing"] == "Thank you."
    calls = json.loads(line["conversations"][3]["value"])
    assert [one["arguments"].get("day") for one in calls] == ["2026-03-03", None]
    assert json.loads(line["conversations"][5]["value"]) == {"name": "find_room", "arguments": {}}


def test_anthropic_has_all_results_of_a_turn_in_one_message_before_words():
    line = EXPORTERS.get("anthropic").encode(USUAL)
    assert line["system"] == "You work at a desk.\n\nBe brief."
    assert [turn["role"] for turn in line["messages"]] == ["user", "assistant"] * 4 + ["user"]
    results = line["messages"][4]["content"]
    assert [(b["type"], b["tool_use_id"]) for b in results] == [
        ("tool_result", "call_0"),
        ("tool_result", "call_1"),
    ]
    (tool,) = json.loads(line["tools"])
    assert tool == {
        "input_schema": TOOL["parameters"],
        "name": "find_room",
        "description": "Finds a room.",
    }


def test_trl_rows_keep_objects_apart_in_datasets(tmp_path):
    datasets = pytest.importorskip("datasets")
    exporter = EXPORTERS.get("trl")
    other = row(
        says("user", "x"), says("assistant", "", call(0, "b", '{"y":"z"}')), result(0, "r"),
        number=1,
    )  # fmt: skip
    file = tmp_path / f"train{exporter.suffix}"
    exporter.write([exporter.encode(one) for one in (USUAL, other)], file)
    loaded = datasets.load_dataset(
        "json", data_files=str(file), split="train", cache_dir=str(tmp_path / "cache")
    )
    found = [
        [
            one["function"]["arguments"]
            for message in line["messages"]
            for one in message.get("tool_calls") or ()
        ]
        for line in loaded
    ]
    assert found == [
        [{"day": "2026-03-03"}, {"n": 25.0, "who": {"a": [1, None, "ü"]}}, {}],
        [{"y": "z"}],
    ]


def test_verl_reads_strings_alone_and_message_by_message_the_same_as_whole(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    jinja2 = pytest.importorskip("jinja2")
    exporter = EXPORTERS.get("verl")
    other = row(
        says("user", "x"), says("assistant", "", call(0, "b", '{"y":null}')), result(0, "r"),
        says("assistant", "z"), number=1,
    )  # fmt: skip
    file = tmp_path / f"train{exporter.suffix}"
    exporter.write([exporter.encode(one) for one in (USUAL, other)], file)
    frame = pandas.read_parquet(file, dtype_backend="pyarrow")  # as verl 0.9.1 does
    assert "tools" not in frame.columns
    for messages in frame["messages"]:
        assert all(set(one) == {"role", "content"} for one in messages)
        assert all(isinstance(one["content"], str) for one in messages)
    # ChatML with consecutive results in one turn of the user, as the templates of Qwen have it.
    template = jinja2.Template(
        "{% for m in messages %}{% if m.role == 'tool' %}"
        "{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}"
        "\n<tool_response>\n{{ m.content }}\n</tool_response>"
        "{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>\n{% endif %}"
        "{% else %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    )
    for messages, source in zip(frame["messages"], (USUAL, other), strict=True):
        whole = template.render(messages=list(messages))
        assert whole == "".join(template.render(messages=[one]) for one in messages)
        text = EXPORTERS.get("hermes").encode(source)["text"]
        turns = [{"role": role, "content": body} for role, body in TURN.findall(text)]
        assert whole == template.render(messages=turns)
        apart = "".join(template.render(messages=[one]) for one in turns)
        assert (apart == whole) is (source is other)  # results of one turn, rendered one by one
    assert "null" not in frame["messages"][0][1]["content"]
    assert '"y":null' in frame["messages"][1][2]["content"]


@pytest.mark.parametrize("said", ["<tool_response>\nr\n</tool_response>", "<tool_call>"])
def test_verl_refuses_words_of_a_user_that_read_as_a_result_or_a_call(said):
    with pytest.raises(Unwritable):
        EXPORTERS.get("verl").encode(row(says("user", said), says("assistant", "a")))
