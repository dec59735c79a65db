"""`python:MODULE` or `python:MODULE:FUNCTION`: one's own typed functions as tools.

This is the one source that runs something on import: the module that the user names is imported,
as `import MODULE` would, from the current folder too. It is the user's own code and never comes
from a catalog. The functions themselves are not called.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from pydantic import Field, TypeAdapter, create_model

from synth.core.errors import BadInput
from tool_registry.normalize import Unreadable
from tool_registry.source import Listing, Target, Written

_NAME = re.compile(r"[A-Za-z_][\w.]*(?::[A-Za-z_]\w*)?")
_ARGUMENT = re.compile(r"^\s+\*{0,2}(\w+)(?:\s*\([^)]*\))?:\s*(.*)$")
_SECTION = re.compile(r"^\s*(\w+):\s*$")
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class PythonFunctions:
    """Functions of a module that the user names."""

    name = "python"
    example = "python:MODULE"

    def claims(self, text: str) -> bool:
        """Say whether `text` is for this source."""
        return text.startswith("python:")

    def read(self, text: str) -> Iterable[Written]:
        """Import the module and return its public functions, or the one that is named."""
        path = text.removeprefix("python:")
        if not _NAME.fullmatch(path):
            raise BadInput(f"not an import path: {path!r}", remedy=f"write it as {self.example}")
        module_name, _, wanted = path.partition(":")
        module = _imported(module_name)
        functions = _functions(module)
        if wanted:
            if wanted not in functions:
                listed = ", ".join(functions) or "none"
                raise BadInput(
                    f"no function {wanted!r} in it", where=text, remedy=f"it has {listed}"
                )
            functions = {wanted: functions[wanted]}
        listing = Listing(tools=[_tool(name, function) for name, function in functions.items()])
        return [Written(Target(server=f"python:{path}", source=self.name), listing)]


def _imported(name: str) -> ModuleType:
    """Import a module, as Python started in the current folder would."""
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except Exception as error:  # a module's own code may raise anything
        what = f"does not import: {type(error).__name__}: {error}"
        raise BadInput(what, where=f"python:{name}", remedy="mend it, or check the name") from error
    finally:
        sys.path.remove(here)


def _functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Return the public functions that the module itself defines, in their order."""
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not name.startswith("_")
    }


def _tool(name: str, function: Callable[..., Any]) -> Any:
    try:
        return _entry(name, function)
    except Exception as error:  # annotations are code too, and pydantic refuses many types
        detail = f"{type(error).__name__}: {error}"
        return Unreadable("unsupported_signature", detail, str(name), name)


def _entry(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    hints = get_type_hints(function, include_extras=True)
    description, arguments = _documented(inspect.getdoc(function) or "")
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in _NAMED:
            raise TypeError(f"{parameter} has no name that a call could use")
        absent = parameter.default is inspect.Parameter.empty
        field = Field(
            ... if absent else parameter.default,
            description=arguments.get(parameter.name),
            alias=parameter.name,  # as it is, where pydantic reserves the name
        )
        fields[f"f_{parameter.name}"] = (hints.get(parameter.name, Any), field)
    model = create_model(name, **fields)
    entry = {"name": name, "description": description, "inputSchema": model.model_json_schema()}
    returns = hints.get("return", Any)
    if returns not in (Any, type(None)):
        entry["outputSchema"] = TypeAdapter(returns).json_schema(mode="serialization")
    return entry


def _documented(text: str) -> tuple[str, dict[str, str]]:
    """Return what a docstring says of the function, and of each argument (Google style)."""
    before: list[str] = []
    arguments: dict[str, str] = {}
    section, last = "", ""
    for line in text.splitlines():
        if found := _SECTION.match(line):
            section = found[1].lower()
        elif not section:
            before.append(line)
        elif section in ("args", "arguments", "parameters"):
            if found := _ARGUMENT.match(line):
                last = found[1]
                arguments[last] = found[2].strip()
            elif last and line.strip():
                arguments[last] += f" {line.strip()}"
    return "\n".join(before).strip(), {name: words for name, words in arguments.items() if words}


SOURCE = PythonFunctions()
