"""What the mock endpoint says: rows of a dataset, or plausible calls and sentences."""

import json
import math
import random

import jsonschema_rs
import openai
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.sql.engine import Engine
from simulators.sql.load import applications, load_application
from simulators.sql.world import SqlWorld
from simulators.users.model import STOP
from synth import app
from synth.core.errors import BadRow
from synth.core.llm.mock.script import Script
from synth.core.llm.mock.server import MockLLM
from synth.core.llm.mock.threads import serving
from synth.core.llm.mock.values import Values

TALK = [{"role": "user", "content": "How is it in Oslo?"}]


@pytest.fixture(scope="module")
def client():
    with (
        serving() as mock,
        openai.OpenAI(base_url=mock.url, api_key="none", max_retries=0, timeout=20) as client,
    ):
        yield lambda **body: client.chat.completions.create(
            **{"model": "m", "messages": TALK, **body}
        )


# --- the player without a script -------------------------------------------------------------


def test_an_answer_depends_on_seed_and_content_and_on_nothing_else(wire):
    def said(mock, **more):
        body = json.loads(wire.split(wire.exchange(mock, {**wire.ask, "model": "m", **more})[0])[2])
        call = body["choices"][0]["message"]["tool_calls"][0]
        return call["id"], call["function"], body["usage"]

    with serving(seed=1) as one, serving(seed=1) as twin, serving(seed=2) as other:
        assert said(one) == said(one) == said(twin) == said(one, model="another")
        answers = {json.dumps(said(one, seed=n)) for n in range(12)}
        assert len(answers) == 12  # ids differ with the content
        assert answers == {json.dumps(said(twin, seed=n)) for n in reversed(range(12))}
        assert answers.isdisjoint(json.dumps(said(other, seed=n)) for n in range(12))


def test_a_stream_says_what_the_whole_reply_says(wire):
    with serving() as mock:
        for more in ({}, {"tools": []}):
            body = {**wire.ask, "model": "m", **more}
            whole = json.loads(wire.split(wire.exchange(mock, body)[0])[2])
            pieces = wire.split(wire.exchange(mock, {**body, **wire.stream})[0])[2]
            deltas = [choice["delta"] for choice in wire.choices(pieces)]
            message = whole["choices"][0]["message"]
            text = "".join(delta.get("content") or "" for delta in deltas)
            assert text == (message["content"] or "")
            calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
            arguments = "".join(call["function"]["arguments"] for call in calls)
            wanted = [call["function"]["arguments"] for call in message.get("tool_calls", ())]
            assert arguments == "".join(wanted)
            assert wire.choices(pieces)[-1]["finish_reason"] == whole["choices"][0]["finish_reason"]
            assert wire.events(pieces)[-1]["usage"] == whole["usage"]
            assert pieces[-2:] == [b"data: [DONE]\n\n", b""]
        bare = wire.split(wire.exchange(mock, {**body, "stream": True})[0])[2]
        assert b"usage" not in b"".join(bare)


def test_with_tools_it_calls_one_then_says_a_sentence_and_at_last_only_talks(client, wire):
    messages = list(TALK)
    finishes = []
    for _ in range(4):
        choice = client(messages=messages, tools=wire.ask["tools"]).choices[0]
        finishes.append(choice.finish_reason)
        if choice.message.tool_calls:
            (call,) = choice.message.tool_calls
            jsonschema_rs.validate(
                wire.ask["tools"][0]["function"]["parameters"], json.loads(call.function.arguments)
            )
            messages.append(choice.message.model_dump(exclude_none=True))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": '{"sky": "blue"}'})
            closing = client(messages=messages, tools=wire.ask["tools"]).choices[0]
            assert (closing.finish_reason, closing.message.tool_calls) == ("stop", None)
            messages.append({"role": "assistant", "content": closing.message.content})
        messages.append({"role": "user", "content": "And tomorrow?"})
    assert finishes == ["tool_calls", "tool_calls", "tool_calls", "stop"]


def test_tool_choice_is_obeyed(client, wire):
    tools = [
        *wire.ask["tools"],
        {"type": "function", "function": {"name": "wait", "parameters": {"type": "object"}}},
    ]
    named = {"type": "function", "function": {"name": "wait"}}
    for seed in range(6):
        assert client(tools=tools, tool_choice="none", seed=seed).choices[0].finish_reason == "stop"
        call = client(tools=tools, tool_choice=named, seed=seed).choices[0].message.tool_calls[0]
        assert (call.function.name, call.function.arguments) == ("wait", "{}")


def test_a_wanted_schema_is_kept(client):
    schema = {
        "type": "object",
        "properties": {"passed": {"type": "boolean"}, "why": {"type": "string", "minLength": 20}},
        "required": ["passed", "why"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema}}
    found = {client(response_format=wanted, seed=n).choices[0].message.content for n in range(12)}
    for text in found:
        jsonschema_rs.validate(schema, json.loads(text))
    assert {json.loads(text)["passed"] for text in found} == {True, False}
    free = client(response_format={"type": "json_object"}).choices[0].message.content
    assert isinstance(json.loads(free), dict)


def test_a_limit_of_tokens_cuts_a_text(client):
    cut = client(max_tokens=2).choices[0]
    assert cut.finish_reason == "length"
    assert 0 < len(cut.message.content) < 8
    assert client(max_tokens=200).choices[0].finish_reason == "stop"


def test_log_probabilities_are_those_of_the_text(client):
    choice = client(logprobs=True, top_logprobs=3).choices[0]
    tokens = choice.logprobs.content
    assert "".join(token.token for token in tokens) == choice.message.content
    for token in tokens:
        assert len(token.top_logprobs) == 3
        assert max(token.top_logprobs, key=lambda t: t.logprob).token == token.token
        assert sum(math.exp(other.logprob) for other in token.top_logprobs) <= 1
    assert client().choices[0].logprobs is None


def test_it_plays_a_user_who_asks_agrees_and_says_goodbye(client):
    prompt = f"You are Kim.\nWhat you want:\n- to book a room\n- to add breakfast\nEnd with {STOP}."
    system, start = (
        {"role": "system", "content": prompt},
        {"role": "user", "content": "(You first.)"},
    )
    messages, said = [system, start], []
    for _ in range(4):
        text = client(messages=messages).choices[0].message.content
        said.append(text)
        messages += [
            {"role": "assistant", "content": text},
            {"role": "user", "content": "All right?"},
        ]
    assert said[0] == "Hello. I would like to book a room and to add breakfast."
    assert [STOP in text for text in said] in ([False, False, True, True], [False] * 3 + [True])


# --- values of schemas -----------------------------------------------------------------------

SCHEMAS = [
    {"type": ["null", "integer"], "minimum": 5, "exclusiveMaximum": 7},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5},
    {"type": "number", "multipleOf": 0.5, "minimum": 1.2, "maximum": 1.6},
    {"type": "integer", "multipleOf": 7, "minimum": 8},
    {"type": "integer", "maximum": -3},
    {"type": "string", "minLength": 30, "maxLength": 31},
    {"type": "string", "maxLength": 2},
    {"type": "string", "format": "date-time"},
    {"enum": ["a", 1, None]},
    {"const": {"x": [1]}},
    {"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 3, "uniqueItems": True},
    {"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}], "minItems": 2},
    {"anyOf": [{"type": "string"}, {"type": "object", "required": ["a"]}]},
    {
        "type": "object",
        "allOf": [
            {"required": ["a"], "properties": {"a": {"type": "boolean"}}},
            {"required": ["b"]},
        ],
        "properties": {"b": {"type": "integer"}},
    },
    {"type": "object", "properties": {"a": {}, "b": {"type": "null"}}, "minProperties": 2},
    {
        "$ref": "#/$defs/tree",
        "$defs": {
            "tree": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                },
                "required": ["name", "kids"],
                "additionalProperties": False,
            }
        },
    },
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=range(len(SCHEMAS)))
def test_values_are_what_the_schema_allows(schema):
    validator = jsonschema_rs.validator_for(schema)
    for seed in range(30):
        value = Values(schema, random.Random(seed), ["R-1"]).value()
        assert validator.is_valid(value), value


@pytest.mark.parametrize("name", applications())
def test_calls_of_all_shipped_tools_fit_their_schemas(name):
    for tool in SqlWorld(Engine(load_application(name))).tools():
        schema = tool.openai()["function"]["parameters"]
        validator = jsonschema_rs.validator_for(schema)
        for seed in range(5):
            value = Values(schema, random.Random(seed)).value()
            assert validator.is_valid(value) or "pattern" in json.dumps(schema), (tool, value)


WORDS = st.sampled_from(
    [
        "type",
        "properties",
        "items",
        "anyOf",
        "$ref",
        "enum",
        "minimum",
        "minItems",
        "required",
        "allOf",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(["object", "array", "#", "x"])


@given(
    st.recursive(
        LEAVES,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
        max_leaves=12,
    )
)
def test_whatever_a_tool_calls_its_schema_there_is_a_call(schema):
    from synth.core.llm.mock.ask import read_ask
    from synth.core.llm.mock.player import play

    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    try:
        raw = orjson.dumps({"model": "m", "messages": TALK, "tools": [tool]})
    except TypeError:  # an integer that the wire cannot hold
        return
    ((name, arguments),) = play(read_ask(raw, {}, 0)).calls
    assert name == "f"
    assert isinstance(json.loads(arguments), dict)


# --- a script --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    """A dataset that the scripted players made."""
    folder = tmp_path_factory.mktemp("made")
    workspace = ["--workspace", str(folder)]
    settings = ["--set", "generate.applications=['clinic','hotel']", "--set", "generate.agents=4"]
    assert app.main([*workspace, "generate", "--accept", "12", *settings]) == 0
    assert app.main([*workspace, "export", "--format", "openai", "--to", str(folder)]) == 0
    return next(folder.glob("*.jsonl"))


def rows(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def functions(message):
    return [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in
            message.get("tool_calls") or ()]  # fmt: skip


def renamed(messages):
    """Return messages as another client might send them: other ids, null for no text, spaces."""
    out = json.loads(json.dumps(messages).replace('"call_', '"other_call_'))
    for message in out:
        if message.get("tool_calls"):
            message["content"] = message["content"] or None
            for call in message["tool_calls"]:
                value = json.loads(call["function"]["arguments"])
                call["function"]["arguments"] = json.dumps(dict(reversed(value.items())), indent=1)
    return out


def test_each_beginning_of_a_row_is_answered_with_its_next_message(dataset, wire):
    asked = 0
    with serving(script=dataset) as mock:
        for row in rows(dataset):
            for index, message in enumerate(row["messages"]):
                if message["role"] != "assistant":
                    continue
                for before in (row["messages"][:index], renamed(row["messages"][:index])):
                    body = {"model": "m", "messages": before, "tools": json.loads(row["tools"])}
                    status, _, raw = wire.split(wire.exchange(mock, body)[0])
                    answer = json.loads(raw)["choices"][0]["message"]
                    assert status == 200
                    assert (answer["content"] or "") == message["content"]
                    assert functions(answer) == functions(message)
                    asked += 1
    assert asked > 60


def test_what_no_row_begins_with_goes_to_the_player(dataset, wire):
    with serving(script=dataset) as mock:
        row = rows(dataset)[0]
        other = [row["messages"][0], {"role": "user", "content": "Something else, please."}]
        body = {"model": "m", "messages": other, "tools": json.loads(row["tools"])}
        answer = json.loads(wire.split(wire.exchange(mock, body)[0])[2])["choices"][0]
    assert answer["finish_reason"] == "tool_calls"
    assert answer["message"]["tool_calls"][0]["function"]["name"] in row["tools"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "no such file"),
        ("", "no row"),
        ('{"messages": 1}\n', "script.jsonl:1: not a row with messages"),
        ('{"messages": []}\n[1]\n', "script.jsonl:2: not a row with messages"),
        (
            '{"messages": [{"role": "user"}, {"role": "assistant", "tool_calls": '
            '[{"function": {"name": "f", "arguments": {}}}]}]}\n',
            "name and arguments of a call are texts",
        ),
        ('{"messages": [{"content": "x"}]}\n', "script.jsonl:1: the messages are not"),
        ("{]\n", "script.jsonl:1: not JSON"),
    ],
)
def test_a_script_that_is_no_dataset_is_named_with_its_line(tmp_path, text, says):
    path = tmp_path / "script.jsonl"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    with pytest.raises(BadRow, match=says):
        MockLLM(script=path)


def test_the_first_of_two_rows_that_begin_alike_is_played(tmp_path):
    path = tmp_path / "script.jsonl"
    talks = [[*TALK, {"role": "assistant", "content": text}] for text in ("first", "second")]
    path.write_text(
        "".join(json.dumps({"messages": talk}) + "\n" for talk in talks), encoding="utf-8"
    )
    script = Script(path)
    assert (script.rows, len(script)) == (2, 1)
    assert script.answer(TALK).content == "first"
    assert script.answer(
        [{"role": "user", "content": [{"type": "text", "text": TALK[0]["content"]}]}]
    )
    assert script.answer([{"role": "user", "content": [1]}]) is None
