"""Arguments fitted to a tool's schema: decoded once where text has no place, else left alone."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core.formats import fit_call, fit_parsed, get_format
from synth.core.types import ToolCall

JOBS = {
    "type": "object",
    "properties": {
        "jobs": {"type": "array", "items": {"$ref": "#/$defs/job"}},
        "note": {"type": "string"},
        "any": {},
        "count": {"type": "integer"},
        "flag": {"type": ["boolean", "null"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "array"}]},
        "maybe": {"anyOf": [{"type": "object"}, {"type": "null"}]},
        "level": {"enum": [1, 2]},
        "word": {"enum": ["1", "2"]},
        "map": {"type": "object", "additionalProperties": {"type": "array"}},
        "loop": {"$ref": "#/properties/loop"},
        "remote": {"$ref": "other.json"},
        "mixed": {"type": "array", "allOf": [{"type": "string"}]},
    },
    "$defs": {"job": {"type": "object", "properties": {"t": {"type": "array"}}}},
    "required": ["jobs"],
}


def fit(arguments, schema=JOBS):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call, notes = fit_call(ToolCall(id="c", name="plan", arguments=text), schema)
    assert (call.id, call.name) == ("c", "plan")
    return call.arguments, notes


@pytest.mark.claim("a10")
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"jobs": '[{"t": "mow"}]'}, {"jobs": [{"t": "mow"}]}),
        ({"jobs": [{"t": "[1, [2]]"}]}, {"jobs": [{"t": [1, [2]]}]}),
        ({"jobs": ['{"t": []}'], "note": "[1]"}, {"jobs": [{"t": []}], "note": "[1]"}),
        ({"count": "5", "flag": "null"}, {"count": 5, "flag": None}),
        ({"flag": " true "}, {"flag": True}),
        ({"maybe": "{}", "level": "2"}, {"maybe": {}, "level": 2}),
        ({"map": {"x": "[1]", "y": [2]}}, {"map": {"x": [1], "y": [2]}}),
        ({"jobs": '["[1]"]'}, {"jobs": ["[1]"]}),
    ],
)
def test_a_value_encoded_twice_is_decoded_once(given, meant):
    text, notes = fit(given)
    assert (json.loads(text), notes) == (meant, ("double_encoded",))


@pytest.mark.claim("a10")
@pytest.mark.parametrize(
    "given",
    [
        {"note": "[1]"},
        {"any": "[1]", "unknown": "[1]"},
        {"either": "[1]"},
        {"word": "1"},
        {"count": "5.5"},
        {"count": "five"},
        {"count": "true"},
        {"jobs": '{"t": 1}'},
        {"jobs": "[1] [2]"},
        {"jobs": "[NaN]"},
        {"loop": "[1]", "remote": "[1]", "mixed": "[1]"},
        {"jobs": [], "count": 5},
    ],
)
def test_what_may_be_text_or_does_not_fit_stays_as_it_is(given):
    text = json.dumps(given)
    assert fit(text) == (text, ())


@pytest.mark.parametrize("text", ["", "  ", '""', "null"])
def test_empty_arguments_are_an_empty_object_and_a_missing_field_is_left_to_validation(text):
    assert fit(text, {"type": "object", "properties": {}}) == ("{}", ("no_arguments",))
    assert fit(text) == ("{}", ("no_arguments",))


def test_the_whole_object_as_a_text_is_unwrapped():
    text, notes = fit(json.dumps(json.dumps({"jobs": "[]"})))
    assert (json.loads(text), notes) == ({"jobs": []}, ("arguments_as_text", "double_encoded"))


@pytest.mark.parametrize(
    "text", ["{", "[1]", "{} {}", '{"a": 1, "a": 2}', "[" * 9999, '"[1]"', "7"]
)
def test_what_cannot_be_repaired_comes_back_unchanged(text):
    assert fit(text) == (text, ())


@pytest.mark.parametrize("schema", [{}, {"properties": 7}, {"properties": {"a": "x"}}, {"type": 3}])
def test_a_schema_that_is_wrong_changes_nothing(schema):
    assert fit('{"a": "[1]"}', schema) == ('{"a": "[1]"}', ())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["", "[1]", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=5,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from([*JOBS["properties"], "z"]), json_values), json_values)
def test_every_member_stays_and_nothing_changes_unnoted_whatever_the_schema(given, schema):
    for one in (JOBS, {"type": "object", "properties": dict.fromkeys(given, schema)}):
        text, notes = fit(given, one)
        assert json.loads(text).keys() == given.keys()
        assert notes or text == json.dumps(given)


def test_each_call_of_a_reply_is_fitted_to_its_own_tool():
    tools = [{"type": "function", "function": {"name": "plan", "parameters": JOBS}}]
    read = get_format("json").parse(
        '{"name": "plan", "parameters": {"jobs": "[]"}}\n'
        '{"name": "other", "arguments": {"jobs": "[]"}}'
    )
    fitted = fit_parsed(read, tools)
    assert [call.value for call in fitted.calls] == [{"jobs": []}, {"jobs": "[]"}]
    assert fitted.repairs == ("parameters_key", "double_encoded")
