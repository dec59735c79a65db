"""One's own tools: OpenAI's list, OpenAPI documents, typed functions."""

import json
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core.errors import BadInput
from synth.core.types import Provenance
from tool_registry.crawl import source_of
from tool_registry.normalize import Accepted, normalize_list
from tool_registry.sources import openapi


def read(word):
    (written,) = source_of(word).read(word)
    return written


def tools_of(word):
    """Return name to normalised tool, as the registry would take it."""
    written = read(word)
    found = normalize_list(written.listing.tools, Provenance(source=written.target.server))
    return {tool.name: tool for tool in found}


@pytest.fixture
def file(tmp_path):
    def write(content, name="file.json"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return str(path)

    return write


# --- tools: ----------------------------------------------------------------------------------

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FORMS = {
    "chat": {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}},
    "responses": {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True},
    "anthropic": {"name": "weather", "input_schema": SCHEMA},
    "mcp": {"name": "weather", "inputSchema": SCHEMA},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_list_of_tools_is_read_in_each_providers_form(file, form):
    for document in ([FORMS[form]], {"model": "m", "tools": [FORMS[form]]}):
        assert tools_of(f"tools:{file(document)}")["weather"].spec.parameters == SCHEMA


def test_a_tool_that_is_no_function_is_rejected_and_its_neighbour_kept(file):
    found = tools_of(f"tools:{file([{'type': 'web_search'}, FORMS['chat'], 7])}")
    assert isinstance(found["weather"], Accepted)
    assert found[None].reason in ("not_a_function", "not_an_object")


def test_a_file_without_tools_says_what_it_should_hold(file):
    with pytest.raises(BadInput, match="no list of tools"):
        read(f"tools:{file({'a': 1})}")


# --- openapi: --------------------------------------------------------------------------------

SHOP = """
openapi: 3.0.3
info: {title: Shop, version: 1.2.0, license: {name: Apache 2.0}}
paths:
  /orders/{id}:
    parameters:
      - {name: id, in: path, required: true, schema: {type: integer}, description: number}
    get:
      operationId: getOrder
      summary: Show an order
      parameters: [{$ref: '#/components/parameters/Verbose'}]
      responses:
        '200':
          content: {application/json: {schema: {$ref: '#/components/schemas/Order'}}}
    delete: {summary: Cancel, responses: {'204': {description: gone}}}
  /orders:
    post:
      operationId: placeOrder
      requestBody:
        required: true
        content: {application/json: {schema: {$ref: '#/components/schemas/Order'}}}
      responses: {}
  /far:
    get: {operationId: far, parameters: [{$ref: 'http://127.0.0.1:9/x.yaml#/p'}]}
    post: {operationId: file, requestBody: {content: {a/json: {schema: {$ref: 'file:///etc/passwd'}}}}}
    put: {operationId: gone, parameters: [{$ref: '#/components/parameters/None'}]}
    patch: {operationId: circle, parameters: [{$ref: '#/components/parameters/A'}]}
components:
  parameters:
    Verbose: {name: verbose, in: query, schema: {type: boolean, nullable: true, example: true}}
    A: {$ref: '#/components/parameters/B'}
    B: {$ref: '#/components/parameters/A'}
  schemas:
    Order:
      type: object
      properties:
        on: {type: string, format: date, example: 2024-01-01}
        price: {type: number, minimum: 0, exclusiveMinimum: true}
        parts: {type: array, items: {$ref: '#/components/schemas/Order'}}
"""


def test_each_operation_is_a_tool_with_its_parameters_body_result_and_effect(file):
    word = f"openapi:{file(SHOP, 'shop.yaml')}"
    found = tools_of(word)
    listing = read(word).listing
    assert (listing.server_info, listing.package_version) == ({"name": "Shop"}, "1.2.0")
    get = found["getOrder"].spec
    assert get.description == "Show an order"
    assert get.parameters == {
        "type": "object",
        "properties": {
            "id": {"type": "integer", "description": "number"},
            "verbose": {"type": ["boolean", "null"]},
        },
        "required": ["id"],
    }
    assert get.returns["$ref"] == "#/$defs/Order"
    effects = {name: str(found[name].spec.effect) for name in ("getOrder", "placeOrder")}
    assert effects == {"getOrder": "read", "placeOrder": "write"}
    assert str(found["delete_orders_id"].spec.effect) == "destructive"


def test_a_schema_that_holds_itself_stays_shared_and_validates(file):
    place = tools_of(f"openapi:{file(SHOP, 'shop.yaml')}")["placeOrder"].spec.parameters
    assert place["required"] == ["body"]
    order = place["$defs"]["Order"]
    assert order["properties"]["parts"]["items"] == {"$ref": "#/$defs/Order"}
    assert order["properties"]["price"] == {"type": "number", "exclusiveMinimum": 0}
    assert "on" in order["properties"]  # YAML 1.1 would read `true`


def test_nothing_outside_of_the_document_is_followed(file):
    found = tools_of(f"openapi:{file(SHOP, 'shop.yaml')}")
    reasons = {name: found[name].reason for name in ("far", "file", "gone", "circle")}
    assert reasons == {
        "far": "remote_ref", "file": "remote_ref", "gone": "dangling_ref", "circle": "ref_cycle",
    }  # fmt: skip


def test_a_little_yaml_that_means_very_much_is_refused(file):
    bomb = "\n".join(
        f"a{n}: &a{n} {{type: object, allOf: [{', '.join([f'*a{n - 1}'] * 9)}]}}"
        for n in range(1, 9)
    )
    text = (
        f"openapi: 3.1.0\na0: &a0 {{type: string}}\n{bomb}\n"
        "paths: {/x: {get: {operationId: x, parameters: [{name: p, in: query, schema: *a8}]}}}\n"
    )
    assert tools_of(f"openapi:{file(text, 'bomb.yaml')}")["x"].reason == "too_large"


@pytest.mark.parametrize(
    ("content", "words"),
    [("swagger: '2.0'", "no OpenAPI 3"), ("a: [", "neither JSON nor YAML"), ("[]", "no OpenAPI 3"),
     ("!!python/object/apply:os.system ['true']", "neither JSON nor YAML")],
)  # fmt: skip
def test_what_is_no_document_is_refused(file, content, words):
    with pytest.raises(BadInput, match=words):
        read(f"openapi:{file(content, 'x.yaml')}")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["$ref", "schema", "parameters", "content", "get", "in", "name", "properties",
                 "requestBody", "responses", "200", "type", "nullable", "enum", "required"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(JSON, JSON)
def test_a_document_of_any_shape_gives_tools_or_rejects_and_never_an_error(item, schemas):
    document = {"openapi": "3.1.0", "paths": {"/x": item}, "components": {"schemas": schemas}}
    normalize_list(list(openapi._tools(document)), Provenance(source="openapi:x"))


# --- python: ---------------------------------------------------------------------------------

MODULE = '''
    """Tools of a shop."""
    from os import getcwd
    from typing import Literal

    def find(text: str, limit: int = 10, kind: Literal["new", "old"] | None = None) -> list[str]:
        """Find orders.

        Args:
            text: what to look for,
                in any language.
            limit (int): at most so many.
        """
        raise AssertionError("called")

    def anything(*words: str) -> None:
        """Takes what comes."""

    def _hidden() -> None: ...
'''


@pytest.fixture
def module(tmp_path, monkeypatch):
    name = f"shop_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(MODULE), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return name


def test_typed_functions_are_tools_and_are_not_called(module):
    found = tools_of(f"python:{module}")
    assert set(found) == {"find", "anything"}  # neither what it imports nor what it hides
    spec = found["find"].spec
    assert spec.description == "Find orders."
    assert spec.parameters["required"] == ["text"]
    properties = spec.parameters["properties"]
    assert properties["text"]["description"] == "what to look for, in any language."
    assert properties["limit"]["default"] == 10
    assert spec.returns == {"items": {"type": "string"}, "type": "array"}
    assert found["anything"].reason == "unsupported_signature"


def test_one_function_can_be_named_and_a_wrong_name_tells_the_right_ones(module):
    assert set(tools_of(f"python:{module}:find")) == {"find"}
    with pytest.raises(BadInput, match="find, anything"):
        read(f"python:{module}:fnd")


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ("python:no_such_module_anywhere", "does not import"),
        ("python:a/b.py", "not an import path"),
    ],
)
def test_a_module_that_does_not_import_is_one_line(word, words):
    with pytest.raises(BadInput, match=words):
        read(word)
