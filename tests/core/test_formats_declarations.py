"""Compact tool declarations: short, and nothing an agent needs is lost."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.core.formats import declare


def tool(name, schema, description="Do it."):
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": schema},
    }


def schema(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


@pytest.mark.parametrize(
    ("part", "written"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "date"}, "string(date)"),
        ({"type": "integer", "minimum": 1, "maximum": 6}, "integer(1..6)"),
        ({"type": "number", "minimum": 0}, "number(0..)"),
        ({"type": "boolean"}, "boolean"),
        ({"enum": ["open", "closed"]}, '"open" | "closed"'),
        ({"const": 3}, "3"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer | null"),
        ({"type": "array", "items": {"type": "string"}}, "string[]"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, '("a" | "b")[]'),
        ({"type": "array"}, "any[]"),
        ({"type": "object"}, "object"),
        (
            schema(["street"], street={"type": "string"}, zip={"type": "string"}),
            "{street: string, zip?: string}",
        ),
        ({"$ref": "#/$defs/Place"}, "Place"),
        ({}, "any"),
        ({"type": "strnig"}, "any"),
        (True, "any"),
    ],
)
def test_each_kind_of_parameter_is_shown(part, written):
    assert declare([tool("f", schema(["p"], p=part))]) == f"f(p: {written}) - Do it."


def test_optional_parameters_and_several_tools():
    text = declare(
        [
            tool("find", schema(["email"], email={"type": "string"}, limit={"type": "integer"})),
            tool("stop", {}, "Stop\n  everything."),
            tool("go", schema(), ""),
        ]
    )
    assert text == (
        "find(email: string, limit?: integer) - Do it.\nstop() - Stop everything.\ngo()"
    )


def test_descriptions_of_parameters_on_request():
    one = tool("f", schema(["a"], a={"type": "string", "description": "An\nexample"}))
    assert declare([one], describe_parameters=True) == "f(a: string) - Do it.\n  a: An example"


def test_a_schema_that_contains_itself_ends():
    node = {"type": "object", "properties": {}}
    node["properties"]["next"] = node
    assert declare([tool("f", node)]) == (
        "f(next?: {next?: {next?: {next?: {next?: any}}}}) - Do it."
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "properties", "items", "enum", "anyOf", "required", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_schema_of_a_stranger_is_declared_in_one_line(value):
    assert declare([tool("f", value)]).startswith("f(")
    assert "\n" not in declare([tool("f", {"properties": {"p": value}})])


def test_real_tools_take_a_third_of_the_room():
    folder = Path(__file__).parents[2].parent / "shared" / "data" / "mcp_live"
    if not folder.exists():
        pytest.skip("the recorded servers are not here")
    long = short = 0
    for file in sorted(folder.glob("pypi__*.json"))[:12]:
        recorded = json.loads(file.read_text(encoding="utf-8"))
        tools = recorded["tools"] if isinstance(recorded, dict) else recorded
        listed = [tool(t["name"], t["inputSchema"], t.get("description")) for t in tools]
        lines = declare(listed).splitlines()
        assert [line.split("(")[0] for line in lines] == [t["name"] for t in tools]
        long += sum(len(json.dumps(t["inputSchema"])) for t in tools)
        short += sum(len(line.split(" - ")[0]) for line in lines)
    assert short * 3 < long
