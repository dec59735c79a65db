"""`openapi:FILE`: each operation of an OpenAPI 3 document is a tool.

The document is read, never its servers asked; a reference to anything outside of it is not
followed, and the operation that needs it is rejected. Parameters become properties, the body of a
request becomes the property `body`. What schemas share stays shared in `$defs`, so that a schema
that holds itself ends. The method tells the effect: GET reads, DELETE deletes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

from synth.core.errors import BadInput
from synth.core.inputs import read_input
from synth.core.mcp.wire import parse
from tool_registry.normalize import Unreadable
from tool_registry.schema import resolve
from tool_registry.source import Listing, Target, Written

MAX_OPERATIONS = 5000
MAX_PARTS = 20_000
"""Parts of one operation's schemas; aliases in YAML can make much of little."""
MAX_CHAIN = 16
"""References that lead to references."""
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")
_HINTS = {
    "get": {"readOnlyHint": True},
    "head": {"readOnlyHint": True},
    "options": {"readOnlyHint": True},
    "trace": {"readOnlyHint": True},
    "delete": {"readOnlyHint": False, "destructiveHint": True},
    "put": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": True},
}
_OTHER = {"readOnlyHint": False, "destructiveHint": False}
_NOISE = ("example", "xml", "externalDocs", "discriminator")
_SIMPLE = ("properties", "patternProperties", "$defs", "definitions")


class OpenApi:
    """Operations of a web service, as its document describes them."""

    name = "openapi"
    example = "openapi:FILE"

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source."""
        return text.startswith("openapi:")

    def read(self, text: str) -> Iterable[Written]:
        """Return the one server that stands for the document."""
        path = Path(text.removeprefix("openapi:")).expanduser()
        document = _document(path)
        info = _object(document.get("info"))
        listing = Listing(tools=list(_tools(document)))
        listing.server_info = {"name": str(info.get("title", path.stem))[:200]}
        version = info.get("version")
        listing.package_version = version[:100] if isinstance(version, str) else None
        licence = _object(info.get("license"))
        named = licence.get("identifier", licence.get("name"))
        listing.licence = named if isinstance(named, str) else None
        return [Written(Target(server=f"openapi:{path}", source=self.name), listing)]


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # either base
    """YAML as version 1.2 has it: `on` and `no` are words, dates are text."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if not tag.endswith((":bool", ":timestamp", ":merge"))
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), ["t", "f"])


def _document(path: Path) -> dict[str, Any]:
    data = read_input(path)
    document = parse(data)
    if document is None:
        try:
            document = yaml.load(data, Loader=_Loader)
        except (yaml.YAMLError, RecursionError, ValueError) as error:
            first = (str(error) or type(error).__name__).splitlines()[0]
            raise BadInput(f"neither JSON nor YAML: {first}", where=str(path)) from error
    version = document.get("openapi") if isinstance(document, dict) else None
    if not str(version).startswith("3."):
        raise BadInput(
            "no OpenAPI 3 document",
            where=str(path),
            remedy='it begins with openapi: "3.1.0"; convert Swagger 2 first',
        )
    assert isinstance(document, dict)
    return document


def _tools(document: dict[str, Any]) -> Iterator[Any]:
    count = 0
    for address, item in _object(document.get("paths")).items():
        for method, operation in _object(item).items():
            if method not in _METHODS or not isinstance(operation, dict):
                continue
            count += 1
            if count > MAX_OPERATIONS:
                return
            try:
                yield _Operation(document, str(address), method, operation).tool(_object(item))
            except _CannotUse as error:
                name = _name(str(address), method, operation)
                sketch = {"method": method, "path": str(address)}
                yield Unreadable(error.reason, str(error), sketch, name)


class _CannotUse(ValueError):
    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


class _Operation:
    """One operation on its way to be a tool."""

    def __init__(
        self, document: dict[str, Any], address: str, method: str, operation: dict[str, Any]
    ) -> None:
        self.document, self.address, self.method = document, address, method
        self.operation = operation
        self.left = MAX_PARTS

    def tool(self, item: dict[str, Any]) -> dict[str, Any]:
        """Return the entry; `item` holds parameters that all operations of the path share."""
        words = [self.operation.get("summary"), self.operation.get("description")]
        entry = {
            "name": _name(self.address, self.method, self.operation),
            "description": "\n\n".join(word.strip() for word in words if isinstance(word, str)),
            "inputSchema": self._arguments(item),
            "annotations": dict(_HINTS.get(self.method, _OTHER)),
        }
        result = self._result()
        return entry | ({} if result is None else {"outputSchema": result})

    def _arguments(self, item: dict[str, Any]) -> dict[str, Any]:
        defs: dict[str, Any] = {}
        properties: dict[str, Any] = {}
        required: list[str] = []
        for place, name, parameter in self._parameters(item):
            key = name if name not in properties else f"{name}_{place}"
            schema = self._schema(parameter.get("schema", _content(parameter)), defs)
            described = parameter.get("description")
            if isinstance(described, str) and isinstance(schema, dict) and "$ref" not in schema:
                schema = {**schema, "description": described}
            properties[key] = schema
            if parameter.get("required") is True:
                required.append(key)
        body = self._followed(self.operation.get("requestBody"))
        if body:
            properties["body"] = self._schema(_content(body), defs)
            if body.get("required") is True:
                required.append("body")
        return _with({"type": "object", "properties": properties, "required": required}, defs)

    def _parameters(self, item: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield the parameters, those of the operation over those of its path."""
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for holder in (item, self.operation):
            listed = holder.get("parameters")
            for raw in listed if isinstance(listed, list) else []:
                parameter = self._followed(raw)
                place, name = parameter.get("in"), parameter.get("name")
                if isinstance(name, str) and isinstance(place, str):
                    found[place, name] = parameter
        for (place, name), parameter in found.items():
            yield place, name, parameter

    def _result(self) -> dict[str, Any] | None:
        responses = _object(self.operation.get("responses"))
        for status in ("200", "201", "202", "2XX", "default"):
            response = responses.get(status, responses.get(int(status) if status.isdigit() else 0))
            content = _content(self._followed(response))
            if isinstance(content, dict) and content:
                defs: dict[str, Any] = {}
                schema = self._schema(content, defs)
                return _with(schema, defs) if isinstance(schema, dict) else None
        return None

    def _followed(self, value: Any) -> dict[str, Any]:
        """Return an object of the document, through references to it."""
        for _ in range(MAX_CHAIN):
            if not isinstance(value, dict):
                return {}
            if not isinstance(value.get("$ref"), str):
                return value
            value = self._target(value["$ref"])
        raise _CannotUse("ref_cycle", "references that lead to references without end")

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise _CannotUse("remote_ref", f"refers to {reference[:200]!r}")
        found = resolve(self.document, reference)
        if found is None:
            raise _CannotUse("dangling_ref", f"{reference[:200]!r} is not there")
        return found

    def _schema(self, value: Any, defs: dict[str, Any], *, names: bool = False) -> Any:
        """Return a schema that refers to nothing but `defs`, which gets what it refers to."""
        self.left -= 1
        if self.left < 0:
            raise _CannotUse("too_large", f"more than {MAX_PARTS} parts")
        if isinstance(value, list):
            return [self._schema(item, defs) for item in value]
        if not isinstance(value, dict):
            return {} if value is None else value
        if not names and isinstance(value.get("$ref"), str):
            return self._shared(value["$ref"], defs)
        out = {
            str(key): self._schema(item, defs, names=not names and key in _SIMPLE)
            for key, item in value.items()
            if names or key not in _NOISE
        }
        return out if names else _modern(out)

    def _shared(self, reference: str, defs: dict[str, Any]) -> dict[str, Any]:
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", reference.removeprefix("#/components/schemas/"))
        if name not in defs:
            target = self._target(reference)
            defs[name] = True  # so that a schema that holds itself finds itself
            defs[name] = self._schema(target, defs)
        return {"$ref": f"#/$defs/{name}"}


def _modern(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema of OpenAPI 3.0 as JSON Schema has it."""
    if schema.pop("nullable", None) is True and isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        if isinstance(schema.get("enum"), list) and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(bound), bool):
            strict = schema.pop(bound)
            if strict and limit in schema:
                schema[bound] = schema.pop(limit)
    return schema


def _with(schema: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    return {**schema, "$defs": defs} if defs else schema


def _content(holder: dict[str, Any]) -> Any:
    """Return the schema of what a body or response holds: JSON where it can be had."""
    content = _object(holder.get("content"))
    kinds = sorted(content, key=lambda kind: ("json" not in str(kind), str(kind)))
    return _object(content[kinds[0]]).get("schema", {}) if kinds else {}


def _name(address: str, method: str, operation: dict[str, Any]) -> str:
    named = operation.get("operationId")
    if isinstance(named, str) and named.strip():
        return named
    return re.sub(r"[^A-Za-z0-9]+", "_", f"{method}_{address}").strip("_")


def _object(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


SOURCE = OpenApi()
