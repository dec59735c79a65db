"""Each provider takes what is declared to it, and every difference is written down."""

import json
import re

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core.errors import UnknownName
from synth.core.types import Provenance, ToolSpec
from tool_registry import browse
from tool_registry.profiles import PROVIDERS, declaration

NAMES = tuple(PROVIDERS)


def spec(schema, name="do_it", description="Does it."):
    provenance = Provenance(source="x")
    return ToolSpec(name=name, description=description, parameters=schema, provenance=provenance)


# --- what providers refuse, written down apart from the code that makes declarations ----------


def nodes(schema, names=False):
    """Yield every schema within one; within maps of names, keys are names."""
    if isinstance(schema, list):
        for one in schema:
            yield from nodes(one)
    elif isinstance(schema, dict):
        if not names:
            yield schema
        for key, value in schema.items():
            if names or key in ("anyOf", "oneOf", "allOf", "items", "not", "additionalProperties"):
                yield from nodes(value)
            elif key in ("properties", "$defs", "definitions", "patternProperties"):
                yield from nodes(value, names=True)


def refused(provider, body):
    tool = body.get("function", body)
    schema = tool.get("parameters", tool.get("input_schema", {"type": "object"}))
    wrong = []
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool["name"]):
        wrong.append("name")
    if schema.get("type") != "object":
        wrong.append("root type")
    wrong += [key for key in ("anyOf", "oneOf", "allOf", "not", "enum") if key in schema]
    if provider.startswith("openai") and len(tool["description"]) > 1024:
        wrong.append("description")
    for node in nodes(schema):
        wrong += list(CHECKS[provider](node))
        named = str(node.get("$ref", "#")).removeprefix("#").strip("/").split("/")
        if provider != "anthropic" and not isinstance(node.get("items", {}), dict | bool):
            wrong.append("items")
        if provider != "anthropic" and "array" in kinds(node) and "items" not in node:
            wrong.append("no items")
        found = schema
        for part in filter(None, named):
            key = int(part) if isinstance(found, list) else part
            found = found[key] if isinstance(found, list) else (found or {}).get(key)
        if found is None:
            wrong.append(f"dangling {named}")
    if provider == "anthropic":
        draft = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
        wrong += [] if jsonschema_rs.meta.is_valid({**schema, **draft}) else ["draft"]
    return wrong


def kinds(node):
    kind = node.get("type", ())
    return [kind] if isinstance(kind, str) else kind


def anthropic(node):
    yield from (k for k in node.get("properties", {}) if not re.fullmatch(r"[\w.-]{1,64}", k, re.A))


GEMINI = (
    "type|format|title|description|nullable|enum|properties|required|anyOf|items|default|example|"
    "pattern|minimum|maximum|(?:min|max)(?:Items|Length|Properties)"
)


def gemini(node):
    yield from (key for key in node if not re.fullmatch(GEMINI, key))
    if isinstance(node.get("type"), list) or node.get("type") == "null":
        yield "type"
    if not all(isinstance(value, str) and value for value in node.get("enum", ())):
        yield "enum"
    if node.get("type") == "string" and node.get("format", "enum") not in ("enum", "date-time"):
        yield "format"
    if "type" not in node and "anyOf" not in node:
        yield "no type"
    if not set(node.get("required", ())) <= set(node.get("properties", ())):
        yield "required"
    if node.get("type") != "object" and "properties" in node:
        yield "properties of no object"


def kimi(node):
    if "anyOf" in node and "type" in node:
        yield "type beside anyOf"
    if str(node.get("$ref", "#/$defs/")).startswith("#/definitions"):
        yield "$ref"


def strict(node):
    yield from node.keys() & {"allOf", "oneOf", "not", "default", "patternProperties", "if"}
    if "$ref" in node and len(node) > 1:
        yield "beside $ref"
    if not node.keys() & {"type", "anyOf", "$ref"}:
        yield "no type"
    if "properties" in node or "object" in kinds(node):
        if node.get("additionalProperties") is not False:
            yield "additionalProperties"
        if sorted(node.get("required", ())) != sorted(node.get("properties", ())):
            yield "required"


CHECKS = {
    "anthropic": anthropic, "gemini": gemini, "kimi": kimi, "openai": lambda node: (),
    "openai-strict": strict,
}  # fmt: skip

scalars = st.sampled_from(["a", "", 1, 2.5, None, True])
leaves = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", "null",
                                 ["string", "null"], ["integer", "string"]]),
        "enum": st.lists(scalars, min_size=1, max_size=3, unique_by=repr),
        "const": scalars,
        "format": st.sampled_from(["date-time", "uri", "int32", "uuid"]),
        "description": st.just("words"),
        "default": scalars,
        "pattern": st.just("^a"),
        "x-vendor": st.just(1),
    },
)  # fmt: skip
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": st.dictionaries(
                st.sampled_from(["a", "b c", "ü", "d.e"]), inner, max_size=3)},
            optional={"additionalProperties": st.booleans() | inner},
        ),
        st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={"items": inner | st.lists(inner, min_size=1, max_size=2)},
        ),
        st.fixed_dictionaries({"type": st.just("array"), "prefixItems": st.lists(
            inner, min_size=1, max_size=2)}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries({"oneOf": st.lists(inner, min_size=1, max_size=2),
                               "type": st.just("string")}),
        st.just({"$ref": "#/$defs/it"}),
        st.just({"$ref": "#/definitions/old", "description": "words"}),
    ),
    max_leaves=8,
)  # fmt: skip
roots = st.fixed_dictionaries(
    {
        "type": st.just("object"),
        "properties": st.dictionaries(st.sampled_from(["a", "b", "c d"]), schemas, max_size=3),
        "$defs": st.fixed_dictionaries({"it": leaves}),
        "definitions": st.fixed_dictionaries({"old": schemas}),
    },
    optional={"anyOf": st.lists(schemas, max_size=2), "required": st.just(["a"])},
)


@pytest.mark.parametrize("provider", NAMES)
@settings(max_examples=150)
@given(schema=roots)
def test_no_schema_becomes_a_declaration_that_its_provider_refuses(provider, schema):
    made = declaration(spec(schema), provider)
    assert refused(provider, made.body) == []
    json.dumps(made.body)


@pytest.mark.parametrize("provider", NAMES)
def test_real_tools_become_declarations_that_their_provider_takes(real, provider):
    for tool in browse.specs(real)[::4]:
        made = declaration(tool, provider)
        assert refused(provider, made.body) == [], tool.provenance.server


PLAIN = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "where"}},
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.mark.parametrize("provider", [name for name in NAMES if name != "gemini"])
def test_a_plain_tool_is_declared_as_it_is_and_nothing_is_noted(provider):
    made = declaration(spec(PLAIN), provider)
    tool = made.body.get("function", made.body)
    assert tool.get("parameters", tool.get("input_schema")) == PLAIN
    assert made.changes == ()


def test_the_servers_own_schema_is_left_alone():
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "anyOf": [{}]}
    before = json.dumps(schema)
    for provider in NAMES:
        declaration(spec(schema), provider)
    assert json.dumps(schema) == before


def test_every_change_says_where_what_and_why():
    schema = {
        "type": "object",
        "properties": {
            "level": {"type": "integer", "enum": [1, 2], "exclusiveMinimum": 0},
            "who": {"$ref": "#/$defs/person"},
            "note": {"type": ["string", "null"], "format": "uri"},
        },
        "$defs": {"person": {"type": "object", "properties": {"name": {"type": "string"}}}},
    }
    made = declaration(spec(schema), "gemini")
    properties = made.body["parameters"]["properties"]
    assert properties == {
        "level": {"type": "integer", "description": "One of: 1, 2"},
        "who": {"type": "object", "properties": {"name": {"type": "string"}}},
        "note": {"type": "string", "nullable": True},
    }
    told = {(change.path, change.what) for change in made.changes}
    assert ("/properties/level", "enum told in the description") in told
    assert ("/properties/level", "exclusiveMinimum dropped") in told
    assert ("/properties/who", "#/$defs/person put in place") in told
    assert ("/properties/note", "format 'uri' dropped") in told
    assert all(change.why for change in made.changes)


def test_a_schema_that_contains_itself_ends():
    schema = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/node"}},
        "$defs": {"node": {"type": "object", "properties": {
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}},
    }  # fmt: skip
    made = declaration(spec(schema), "gemini")
    assert refused("gemini", made.body) == []
    assert any("contains itself" in change.what for change in made.changes)
    assert made.body["parameters"]["properties"]["tree"]["properties"]["children"] == {
        "type": "array", "items": {"type": "object"},
    }  # fmt: skip


def test_definitions_that_name_each_other_twice_do_not_double_with_every_step():
    both = {
        f"d{n}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/$defs/d{n + 1}"} for side in ("left", "right")},
        }
        for n in range(30)
    }
    schema = {"type": "object", "properties": {"top": {"$ref": "#/$defs/d0"}}, "$defs": {
        **both, "d30": {"type": "string"}}}  # fmt: skip
    made = declaration(spec(schema), "gemini")
    assert refused("gemini", made.body) == []
    assert len(json.dumps(made.body)) < 1_000_000
    assert any(change.why == "too large without references" for change in made.changes)


def test_a_reference_at_the_root_is_put_in_place():
    schema = {"type": "object", "properties": {}, "$ref": "#/definitions/Send", "definitions": {
        "Send": {"type": "object", "properties": {"to": {"type": "string"}}}}}  # fmt: skip
    for provider in NAMES:
        tool = declaration(spec(schema), provider).body
        tool = tool.get("function", tool)
        declared = tool.get("parameters", tool.get("input_schema"))
        assert set(declared["properties"]) == {"to"}, provider


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({f"p{n}": {"type": "string"} for n in range(5_001)}, "5001 properties, 5000 at most"),
        ({"e": {"enum": [str(n) for n in range(1_001)]}},
         "1001 values of enums, 1000 at most"),
        ({"e": {"enum": ["x" * 60 + str(n) for n in range(251)]}},
         "an enum of 251 values with 15703 characters"),
    ],
)  # fmt: skip
def test_what_exceeds_a_limit_of_strict_functions_is_declared_without_strict(more, why):
    made = declaration(spec({"type": "object", "properties": more}), "openai-strict")
    assert "strict" not in made.body["function"]
    assert (made.changes[0].what, made.changes[0].why) == ("declared without strict", why)
    assert made.body == declaration(spec({"type": "object", "properties": more}), "openai").body


@pytest.mark.parametrize(("levels", "is_strict"), [(10, True), (11, False)])
def test_ten_levels_are_declared_strictly_and_eleven_are_not(levels, is_strict):
    schema = {"type": "string"}
    for level in range(levels):
        inner = {"type": "object", "properties": {"items": schema}}
        schema = inner if level % 2 else {"type": "array", "items": schema}
    schema = schema if "properties" in schema else {"type": "object", "properties": {"a": schema}}
    made = declaration(spec(schema), "openai-strict")
    assert made.body["function"].get("strict", False) is is_strict


def test_a_name_that_a_provider_refuses_is_changed_reversibly_and_told():
    one, other = (declaration(spec(PLAIN, name=name), "gemini") for name in ("1a", "_1a"))
    assert one.body["name"] == "_x31_a"
    assert [change.what for change in one.changes][-1] == "called _x31_a"
    assert other.body["name"] == "_1a"


def test_strict_arguments_say_nothing_new_once_their_nulls_are_left_out():
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    }
    made = declaration(spec(schema), "openai-strict").body["function"]["parameters"]
    strict_ones, own = (jsonschema_rs.validator_for(one) for one in (made, schema))
    for arguments in ({"city": "x", "days": 2}, {"city": "x", "days": None}):
        assert strict_ones.is_valid(arguments)
        assert own.is_valid({k: v for k, v in arguments.items() if v is not None})
    assert not strict_ones.is_valid({"city": "x"})


def test_an_unknown_provider_gets_near_names():
    with pytest.raises(UnknownName, match="did you mean 'gemini'"):
        declaration(spec(PLAIN), "gemni")


def test_long_descriptions_are_cut_where_they_must_be():
    made = declaration(spec(PLAIN, description="x" * 3000), "openai")
    assert len(made.body["function"]["description"]) == 1024
    assert made.changes[0].what == "description cut from 3000"
    assert declaration(spec(PLAIN, description="x" * 3000), "anthropic").changes == ()
