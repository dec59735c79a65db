"""Schemas of strangers become small ones of a closed vocabulary."""

import json

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core.llm.local.schema import (
    DEEPEST,
    FREE,
    KEYWORDS,
    MOST_ITEMS,
    MOST_NODES,
    OPEN,
    reduce_arguments,
    reduce_schema,
)
from synth.pipeline.worlds import open_applications

WORDS = st.text(max_size=8)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=3,
)
KINDS = st.sampled_from(
    ["object", "array", "string", "integer", "number", "boolean", "null", "odd", 7]
)


def schemas(inner):
    return st.fixed_dictionaries(
        {},
        optional={
            "type": KINDS | st.lists(KINDS, max_size=3),
            "properties": st.dictionaries(WORDS, inner, max_size=4) | ANYTHING,
            "required": st.lists(WORDS, max_size=3) | ANYTHING,
            "items": inner,
            "anyOf": st.lists(inner, max_size=4) | ANYTHING,
            "oneOf": st.lists(inner, max_size=4),
            "allOf": st.lists(inner, max_size=4) | ANYTHING,
            "$ref": st.sampled_from(["#", "#/properties/a", "#/$defs/x", "other.json", "#/items"]),
            "$defs": st.dictionaries(st.just("x"), inner),
            "enum": st.lists(ANYTHING, max_size=4),
            "const": ANYTHING,
            "pattern": WORDS,
            "format": st.sampled_from(["date", "date-time", "uuid", "email", "zzz"]) | ANYTHING,
            "minimum": SCALARS,
            "maximum": SCALARS,
            "minItems": SCALARS,
            "maxItems": SCALARS,
            "minLength": SCALARS,
            "maxLength": SCALARS,
            "additionalProperties": inner | st.booleans(),
        },
    )


FOREIGN = st.recursive(ANYTHING | schemas(ANYTHING), schemas, max_leaves=5)


def nodes(schema, depth=0):
    """Yield every sub-schema with its depth."""
    yield schema, depth
    for below in schema.get("properties", {}).values():
        yield from nodes(below, depth + 1)
    for below in schema.get("anyOf", ()):
        yield from nodes(below, depth + 1)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], depth + 1)


@given(FOREIGN)
@settings(max_examples=60, deadline=None)
def test_whatever_comes_in_a_small_valid_schema_of_known_words_comes_out(foreign):
    reduced = reduce_schema(foreign)
    found = list(nodes(reduced))
    assert {key for node, _ in found for key in node} <= KEYWORDS
    assert all("anyOf" in node or "enum" in node or "type" in node for node, _ in found)
    assert max(depth for _, depth in found) <= 3 * DEEPEST
    jsonschema_rs.validator_for(reduced)
    text = json.dumps(reduced, allow_nan=False)
    assert json.loads(text) == reduced
    assert reduce_arguments(foreign)["type"] == "object"


def test_a_schema_that_holds_itself_ends_in_scalars():
    tree = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "child": {"$ref": "#"}},
        "required": ["name"],
    }
    reduced = reduce_schema(tree)
    assert reduced["properties"]["child"]["properties"]["child"] == FREE
    assert reduced["required"] == ["name"]


def test_many_references_to_large_parts_stay_within_the_bound():
    wide = {
        "$defs": {
            f"d{i}": {"type": "object", "properties": {
                f"p{j}": {"$ref": f"#/$defs/d{i + 1}"} for j in range(9)}}
            for i in range(9)
        },
        "$ref": "#/$defs/d0",
    }  # fmt: skip
    assert sum(node is not FREE for node, _ in nodes(reduce_schema(wide))) < 9 * MOST_NODES


@pytest.mark.parametrize(
    ("foreign", "reduced"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 3},
         {"type": "integer", "minimum": 1, "maximum": 9}),
        ({"type": "integer", "minimum": 9, "maximum": 1}, {"type": "integer"}),
        ({"type": "string", "format": "date", "pattern": "^2"},
         {"type": "string", "format": "date"}),
        ({"type": "string", "maxLength": 5, "pattern": "^(a+)+$"},
         {"type": "string", "minLength": 0, "maxLength": 5}),
        ({"const": "eur"}, {"enum": ["eur"]}),
        ({"enum": ["a", 2, None, {"x": 1}]}, {"enum": ["a", 2, None]}),
        ({"type": ["string", "null"], "maxLength": 3},
         {"anyOf": [{"type": "string", "minLength": 0, "maxLength": 3}, {"type": "null"}]}),
        ({"oneOf": [{"type": "boolean"}, {"type": "boolean"}]}, {"type": "boolean"}),
        ({"$ref": "#/$defs/no"}, FREE),
        (True, FREE),
        ({"type": "object"}, OPEN),
        ({"allOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]},
                    {"properties": {"b": {"type": "null"}}}]},
         {"type": "object", "properties": {"a": {"type": "null"}, "b": {"type": "null"}},
          "required": ["a"], "additionalProperties": False}),
        ({"type": "array", "items": {"type": "null"}, "minItems": 90},
         {"type": "array", "items": {"type": "null"}, "minItems": MOST_ITEMS,
          "maxItems": MOST_ITEMS}),
    ],
)  # fmt: skip
def test_what_each_word_of_a_schema_becomes(foreign, reduced):
    assert reduce_schema(foreign) == reduced


def test_a_long_list_of_values_is_not_cut_but_left_to_the_real_schema():
    schema = reduce_schema({"type": "string", "enum": [str(i) for i in range(1000)]})
    assert schema == {"type": "string", "minLength": 0, "maxLength": 300}


def test_required_parameters_survive_where_not_all_do():
    many = {f"p{i}": {"type": "integer"} for i in range(300)}
    reduced = reduce_arguments({"type": "object", "properties": many, "required": ["p299"]})
    assert "p299" in reduced["properties"]
    assert reduced["required"] == ["p299"]
    assert len(reduced["properties"]) < 50


def test_arguments_of_a_bundled_application_keep_their_shape():
    for tool in open_applications(["bank"])["bank"].tools():
        reduced = reduce_arguments(tool.parameters)
        assert list(reduced["properties"]) == list(tool.parameters["properties"])
        assert set(reduced["required"]) == set(tool.parameters.get("required", ()))
