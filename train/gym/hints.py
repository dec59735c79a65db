"""Tools as functions: what a JSON schema says, put into a signature and a docstring.

For whoever reads a tool from a function (transformers, and with it TRL). A type hint says less than
a schema; bounds and formats it cannot say are put into words.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union

import orjson

from synth.core.errors import BadInput

_SECTION = re.compile(r"\b(Args|Returns|Raises|choices):", re.I)
_BOUNDS = ("format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems")
_PLAIN: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": type(None),
    "object": dict[str, Any],
}


def dressed(
    function: Callable[..., str], name: str, description: str, schema: Mapping[str, Any]
) -> Callable[..., str]:
    """Put name, words and signature on a method, for those who read a tool from them.

    Args:
        function: takes `self` and any keywords; it is changed.
        name: of the tool.
        description: of the tool.
        schema: JSON Schema of the arguments object.

    Raises:
        BadInput: a parameter has a name that no parameter can have.
    """
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters, told = [own], []
    for parameter, of in schema.get("properties", {}).items():
        if not parameter.isidentifier() or keyword.iskeyword(parameter) or parameter == "self":
            raise BadInput(f"a parameter called {parameter!r} cannot be one", where=name)
        parameters.append(_parameter(parameter, of, parameter in schema.get("required", ())))
        told.append(f"    {parameter}: {_described(of) or parameter}")
    doc = _line(description) or name
    if told:
        doc += "\n\nArgs:\n" + "\n".join(told)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    hints = {parameter.name: parameter.annotation for parameter in parameters[1:]}
    function.__annotations__ = {**hints, "return": str}
    signature = inspect.Signature(parameters, return_annotation=str)
    function.__signature__ = signature  # type: ignore[attr-defined]
    return function


def _parameter(name: str, schema: Mapping[str, Any], required: bool) -> inspect.Parameter:
    # What may be left out may not be null: the hint is the same, and only the default tells.
    default = inspect.Parameter.empty if required else None
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, annotation=python_type(schema), default=default)


def python_type(schema: Mapping[str, Any]) -> Any:
    """Return the type hint that says most of what a JSON schema says; `Any` where none does."""
    choices = schema.get("enum")
    if choices and all(value is None or type(value) in (str, int, bool) for value in choices):
        return Literal.__getitem__(tuple(choices))
    kind = schema.get("type")
    if isinstance(kind, list) and kind:
        return Union.__getitem__(tuple(python_type({**schema, "type": one}) for one in kind))
    if kind == "array":
        items = schema.get("items")
        hint: Any = python_type(items) if isinstance(items, dict) and items else Any
        return list.__class_getitem__(hint)
    return _PLAIN.get(str(kind), Any)


def _described(schema: Mapping[str, Any]) -> str:
    """Return what an argument is, bounds included that a type hint cannot say."""
    bounds = [f"{name} {orjson.dumps(schema[name]).decode()}" for name in _BOUNDS if name in schema]
    words = _line(str(schema.get("description") or ""))
    return f"{words} [{', '.join(bounds)}]".strip() if bounds else words


def _line(text: str) -> str:
    """Return a text in one line, in which nothing looks like a section of a docstring."""
    return _SECTION.sub(r"\1 -", " ".join(text.split()))
