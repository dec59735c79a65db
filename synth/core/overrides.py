"""`--set key.path=value`, and what a user is told of a key or value that is wrong.

Words of the validator about types of Python (`tuple`, `dictionary`) become those of TOML, and what
would be right is shown as the argument that a shell hands on whole.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from synth.core.errors import BadConfig

_WORDS = {"tuple": "list", "dictionary": "table", "Tuple": "List", "Dictionary": "Table"}
"""What Python calls it -> what TOML does."""
_PYTHON = re.compile(rf"\b({'|'.join(_WORDS)})\b(?: or instance of \w+)?")
_COMPOUND = {"tuple_type", "list_type", "dict_type", "model_type", "too_long", "missing"}
"""Errors of the validator that an example of the whole value mends."""


def apply(data: dict[str, Any], override: str) -> None:
    """Enter `key.path=value` in parsed TOML.

    Raises:
        BadConfig: it is none, or a list or table that a shell has taken the quotes from.
    """
    key, separator, text = override.partition("=")
    key = key.strip()
    if not separator or not key:
        raise BadConfig(f"not KEY=VALUE: {override!r}", where="--set", remedy="e.g. --set seed=7")
    try:
        value = tomllib.loads(f"v = {text}")["v"]
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        if text.lstrip()[:1] in ("[", "{"):
            what = f"not a {'list' if text.lstrip()[0] == '[' else 'table'} of TOML: {text[:80]}"
            raise BadConfig(what, where="--set", remedy=_quoted(key, text)) from error
        value = text  # a bare word is a string
    *parents, last = key.split(".")
    for parent in parents:
        data = data.setdefault(parent, {})
        if not isinstance(data, dict):
            raise BadConfig(f"{parent!r} is a value, not a table", where=f"--set {override}")
    data[last] = value


def _quoted(key: str, text: str) -> str:
    """Say how to hand on a list or table that does not parse, most likely for want of quotes."""
    words = [word.strip(" '\"") for word in text.strip(" []").split(",")]
    simple = text.lstrip()[0] == "[" and all(re.fullmatch(r"[\w./ -]+", word) for word in words)
    whole = _argument(key, words) if simple else f'--set "{key}={{NAME=VALUE, ...}}"'
    return f"quote the whole argument: {whole}"


def _argument(key: str, value: Any) -> str:
    return f'--set "{key}={_toml(value)}"'


def _toml(value: Any) -> str:
    """Return a value as TOML in one line, with single quotes: the shell's are around it."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={_toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)


def explain(
    error: ValidationError, root: type[BaseModel], file: Path | None, overrides: Sequence[str]
) -> BadConfig:
    """Return the most telling error of several: a misspelt key explains a missing one.

    Args:
        error: what the validator found.
        root: the model of the whole configuration.
        file: where the configuration came from, if from a file.
        overrides: `--set` arguments; the one to blame is named.
    """
    errors = error.errors(include_url=False)
    misspelt = [e for e in errors if e["type"] == "extra_forbidden"]
    first = (misspelt or errors)[0]
    location = first["loc"]
    path = ".".join(map(str, location))
    where = _blamed(path, overrides) or str(file or "--set")
    if first["type"] != "extra_forbidden":
        said = first["msg"].removeprefix("Value error, ")
        what = f"{path}: {_PYTHON.sub(lambda found: _WORDS[found[1]], said)}"
        wanted = _example(root, location) if first["type"] in _COMPOUND else ""
        return BadConfig(what, where=where, remedy=wanted)
    known = _known_keys(root, location[:-1])
    close = difflib.get_close_matches(str(location[-1]), known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(close)}?" if close else f"known: {', '.join(sorted(known))}"
    return BadConfig(f"unknown key {path!r}", where=where, remedy=hint)


def _example(root: type[BaseModel], location: Iterable[int | str]) -> str:
    """Return an argument that sets the list or table at a place; nothing where it is none."""
    model, path = root, []
    for part in location:
        field = model.model_fields.get(str(part))
        if field is None:
            return ""
        path.append(str(part))
        if below := _below(field.annotation):
            model = below
            continue
        value = (field.examples or [field.default])[0]
        if isinstance(value, (list, tuple, Mapping)):
            return f"for instance {_argument('.'.join(path), value)}"
        return f"add --set {'.'.join(path)}=..." if field.is_required() else ""
    return f"for instance --set {'.'.join(path)}.{next(iter(model.model_fields))}=..."


def _below(annotation: Any) -> type[BaseModel] | None:
    """Return the model that a key holds, if it holds one."""
    kinds = [annotation, *getattr(annotation, "__args__", ())]
    return next((k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)), None)


def _blamed(path: str, overrides: Sequence[str]) -> str | None:
    """Return the override that set `path`, a part of it or a table around it; the last one wins."""
    for override in reversed(overrides):
        key = override.partition("=")[0].strip()
        if f"{path}.".startswith(f"{key}.") or f"{key}.".startswith(f"{path}."):
            return f"--set {override}"
    return None


def _known_keys(model: type[BaseModel], path: Iterable[int | str]) -> list[str]:
    for part in path:
        if part == "default" and "agent" in model.model_fields:
            part = "agent"  # takes the same keys
        field = model.model_fields.get(str(part))
        below = _below(field.annotation) if field else None
        if below is None:
            return []
        model = below
    return list(model.model_fields)
