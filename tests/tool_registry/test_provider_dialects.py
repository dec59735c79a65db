"""What single providers refuse in schemas of real tools is mended for them, and for them alone."""

import json

import pytest

from synth.core.types import Provenance
from tool_registry.normalize import normalize
from tool_registry.profiles import declaration


def spec(schema):
    raw = {"name": "send", "description": "Send it.", "inputSchema": schema}
    return normalize(raw, Provenance(source="test")).spec


def parameters(made):
    return made.body["function"]["parameters"]


@pytest.mark.claim("c01")
def test_an_array_that_does_not_say_what_it_holds_holds_anything():
    schema = {
        "type": "object",
        "properties": {"rows": {"type": "array", "items": {"type": "array"}}},
    }
    tool = spec(schema)
    made = declaration(tool, "openai")
    assert parameters(made)["properties"]["rows"]["items"] == {"type": "array", "items": {}}
    assert [(c.path, c.what) for c in made.changes] == [
        ("/properties/rows/items", "empty items added")
    ]
    assert tool.parameters == schema


@pytest.mark.claim("c02")
@pytest.mark.parametrize("schema", [{"type": "object"}, {"type": "object", "properties": {}}])
def test_an_object_without_properties_has_none_and_twice_is_once(schema):
    made = declaration(spec(schema), "openai")
    assert parameters(made) == {"type": "object", "properties": {}}
    again = declaration(spec(parameters(made)), "openai")
    assert parameters(again) == parameters(made)
    assert again.changes == ()


@pytest.mark.claim("c02")
def test_an_object_inside_of_another_has_properties_too():
    schema = {"type": "object", "properties": {"where": {"type": ["object", "null"]}}}
    made = declaration(spec(schema), "openai")
    assert parameters(made)["properties"]["where"] == {"type": ["object", "null"], "properties": {}}
    assert len(made.changes) == 1


@pytest.mark.claim("c04")
def test_keywords_that_a_provider_refuses_are_gone_for_it_and_still_hold_for_arguments():
    schema = {
        "type": "object",
        "properties": {"n": {"type": ["integer", "null"], "exclusiveMinimum": 0, "multipleOf": 5}},
        "required": ["n"],
    }
    tool = spec(schema)
    made = declaration(tool, "gemini")
    text = json.dumps(made.body)
    assert "exclusiveMinimum" not in text
    assert "multipleOf" not in text
    assert made.body["parameters"]["properties"]["n"] == {"type": "integer", "nullable": True}
    assert len(made.changes) >= 2
    from synth.core.schemas import validator

    assert validator(tool.parameters).is_valid({"n": 5})
    assert not validator(tool.parameters).is_valid({"n": 3})
    assert not validator(tool.parameters).is_valid({"n": -5})
