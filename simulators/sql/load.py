"""Find application files and read them; whatever is wrong with one is said in one line.

A file is YAML 1.2 (see `yaml12`) or JSON. What the format may hold is `synth.core.application`;
what its SQL means is checked by `simulators.sql.engine`.
"""

from __future__ import annotations

import difflib
import json
import types
import typing
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from simulators.sql.yaml12 import MAX_CHARACTERS, YamlError, join, read_yaml
from synth.core.application import Application
from synth.core.errors import BadApplication, UnknownName, why_unreadable

FOLDER = Path(__file__).resolve().parent.parent / "applications"


def applications(*folders: Path) -> dict[str, Path]:
    """Return the application files on offer, by name.

    Args:
        folders: further folders with `NAME.yaml` files.

    Raises:
        BadApplication: two files of one name, or a folder that does not exist.
    """
    found: dict[str, Path] = {}
    for folder in (FOLDER, *folders):
        if not folder.is_dir():
            raise BadApplication("no such folder", where=str(folder))
        for path in sorted(folder.glob("*.yaml")):
            if path.stem in found:
                raise BadApplication(
                    f"application {path.stem!r} exists twice",
                    where=str(path),
                    remedy=f"rename it or remove {found[path.stem]}",
                )
            found[path.stem] = path
    return found


def load_application(name: str | Path, *folders: Path) -> Application:
    """Load an application by name, or from a path.

    Args:
        name: name of a discovered application, or the path of a .yaml or .json file (a `Path`, or
            text with a suffix or a folder in it).
        folders: further folders to look in.

    Raises:
        UnknownName: no application of that name.
        BadApplication: the file is wrong.
    """
    if isinstance(name, Path) or "/" in name or name.endswith((".yaml", ".yml", ".json")):
        path = Path(name)
        return parse_application(_text(path), where=path.name)
    known = applications(*folders)
    if name not in known:
        raise UnknownName("application", name, known)
    path = known[name]
    application = parse_application(_text(path), where=path.name)
    if application.application != name:
        raise BadApplication(
            f"the file is named {path.name} and holds {application.application!r}",
            where=f"{path.name}: application",
            remedy=f"write {name!r}, or rename the file",
        )
    return application


def parse_application(text: str, *, where: str) -> Application:
    """Read an application from YAML or JSON text.

    Args:
        text: the whole file.
        where: what to call it in errors; a name ending in .json is read as JSON.

    Raises:
        BadApplication: file, path inside it, what is wrong, what would be right.
    """
    try:
        value = _json(text) if where.endswith(".json") else read_yaml(text)
    except YamlError as error:
        line = f", line {error.line}" if error.line else ""
        path = f": {error.path}" if error.path else ""
        raise BadApplication(error.what, where=f"{where}{line}{path}") from error
    if not isinstance(value, dict):
        raise BadApplication(
            "the file must hold one mapping", where=where, remedy="start with `application: NAME`"
        )
    try:
        return Application.model_validate(value)
    except ValidationError as error:
        raise _explain(error, where) from error


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(4 * MAX_CHARACTERS + 1)
        return data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        what, remedy = why_unreadable(error)
        raise BadApplication(what, where=str(path), remedy=remedy) from error


def _json(text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in pairs:
            if key in out:
                raise YamlError(f"duplicate key {key!r}")
            out[key] = value
        return out

    if len(text) > MAX_CHARACTERS:
        raise YamlError(f"longer than {MAX_CHARACTERS} characters")
    try:
        return json.loads(text, object_pairs_hook=once)
    except json.JSONDecodeError as error:
        raise YamlError(f"not JSON: {error.msg}", line=error.lineno) from error
    except RecursionError as error:
        raise YamlError("nested too deeply") from error


# --- pydantic's errors in one line -----------------------------------------------------------


def _explain(error: ValidationError, where: str) -> BadApplication:
    """Tell the most telling error of several: a misspelt key explains the missing one."""
    errors = error.errors(include_url=False)
    first = next((item for item in errors if item["type"] == "extra_forbidden"), errors[0])
    loc = _place(first["loc"])
    what, remedy = _words(first, loc)
    more = len({_place(item["loc"]) for item in errors} - {loc})
    if more:
        what += f" (and {more} more)"
    path = join(loc)
    return BadApplication(what, where=f"{where}: {path}" if path else where, remedy=remedy)


def _words(item: Any, loc: tuple[str | int, ...]) -> tuple[str, str]:
    kind, found = item["type"], item.get("input")
    if kind == "extra_forbidden":
        known = _keys(loc[:-1])
        close = difflib.get_close_matches(str(loc[-1]), known, n=3, cutoff=0.5)
        hint = f"did you mean {', '.join(map(repr, close))}?" if close else ""
        return f"unknown key {loc[-1]!r}", hint or f"known: {', '.join(sorted(known))}"
    if kind == "missing":
        return f"key {loc[-1]!r} is missing", ""
    if "[key]" in item["loc"]:
        return f"{found!r} is not a name", "lower-case letters, digits and _, a letter first"
    message = str(item["msg"]).removeprefix("Value error, ")
    shown = repr(found) if isinstance(found, (str, int, float, bool, type(None))) else ""
    return message[:1].lower() + message[1:], f"found {shown[:80]}" if shown else ""


def _keys(loc: tuple[str | int, ...]) -> list[str]:
    """Return the keys allowed at a place of the file, walking the model's types."""
    here: Any = Application
    for part in loc:
        here = _inside(here, part)
    return [field.alias or name for name, field in _arm(here).model_fields.items()]


def _place(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Leave out what pydantic adds to a path: `[key]`, and the arm of a union that it tried."""
    here: Any = Application
    out: list[str | int] = []
    for part in loc:
        if _arm(here) is None or part == "[key]":
            break
        out.append(part)
        here = _inside(here, part)
    return tuple(out)


def _inside(kind: Any, part: str | int) -> Any:
    """Return the type of `part` within a value of type `kind`; None within a plain value."""
    kind = _arm(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        for name, info in kind.model_fields.items():
            if part in (name, info.alias):
                return info.annotation
        return Any
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is dict:
        return arguments[1]
    if origin is tuple and isinstance(part, int):
        return arguments[min(part, len(arguments) - 1) if Ellipsis not in arguments else 0]
    return None


def _arm(kind: Any) -> Any:
    """Unwrap Annotated and Optional."""
    if typing.get_origin(kind) is typing.Annotated:
        return _arm(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        arms = [arm for arm in typing.get_args(kind) if arm is not type(None)]
        return _arm(arms[0]) if len(arms) == 1 else None
    return kind
