"""What a person types as the agent: words for the user, a call, or a wish to be shown something.

find_guest email=ann@example.org               a call, a value a word
update_note booking_id=B7 note="late arrival"  quoted where a value has spaces
book_rooms rooms=["101","102"] nights=2        JSON where a parameter is no text
find_guest {"email": "ann@example.org"}        or all of it as JSON
{"name": "find_guest", "arguments": {...}}
/tools                                         a wish
Which booking do you mean?                     anything else is said to the user
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from synth.core.canonical import canonical
from synth.core.errors import BadInput
from synth.core.types import ToolSpec

WISHES = {
    "help": "how to play",
    "policy": "what the agent must keep to",
    "tools": "the tools and their parameters; /tools NAME says more of one",
    "said": "the conversation so far",
    "say": "/say TEXT says it to the user, whatever it looks like",
    "done": "end the conversation",
}
_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_KEY = re.compile(r"\s*([A-Za-z_][\w.-]*)=")
_KINDS = {"string": "text", "array": "[...]", "object": "{...}"}
_BARE = re.compile(r"\S*")


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number)


@dataclass(frozen=True, slots=True)
class Say:
    """Words for the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wish:
    """Something to be shown, or done: a key of `WISHES`."""

    name: str
    of: str = ""


Typed: TypeAlias = Say | Call | Wish


def read(line: str, tools: Mapping[str, ToolSpec]) -> Typed:
    """Return what a line means.

    Args:
        line: as it was typed.
        tools: those that may be called, by name.

    Raises:
        BadInput: it looks like a call or a wish and is none; says what would be one.
    """
    line = line.strip()
    if line.startswith("/"):
        return _wish(line)
    if line.startswith("{"):
        return _json_call(line, tools)
    word = _NAME.match(line)
    name, rest = (word[0], line[word.end() :]) if word else ("", line)
    if not name or (rest and not rest[0].isspace()):
        return Say(line)
    rest = rest.strip()
    if name in tools:
        if rest and "_" not in name and not _looks_given(rest):
            return Say(line)
        spec = tools[name]
        given = _object(rest, name) if rest.startswith("{") else dict(_pairs(rest, spec))
        return Call(name, _checked(given, spec))
    if _looks_given(rest) or (not rest and "_" in name):
        raise _unknown(name, tools)
    return Say(line)


def signature(spec: ToolSpec) -> str:
    """Return how a tool is called: `list_bookings guest_id=text [status=confirmed|cancelled]`."""
    required = set(spec.parameters.get("required", ()))
    words = [spec.name]
    for name, schema in _properties(spec).items():
        word = f"{name}={_kind(schema)}"
        words.append(word if name in required else f"[{word}]")
    return " ".join(words)


# --- the parts -------------------------------------------------------------------------------


def _wish(line: str) -> Typed:
    name, _, of = line[1:].partition(" ")
    of = of.strip()
    if name not in WISHES:
        close = difflib.get_close_matches(name, WISHES, n=1)
        hint = f"did you mean /{close[0]}?" if close else f"known: /{', /'.join(WISHES)}"
        raise BadInput(f"there is no /{name}", remedy=hint)
    if name == "say":
        if not of:
            raise BadInput("nothing to say", remedy="/say TEXT")
        return Say(of)
    return Wish(name, of)


def _json_call(line: str, tools: Mapping[str, ToolSpec]) -> Call:
    value = _object(line, "the call")
    name, given = value.get("name"), value.get("arguments", {})
    if (
        not isinstance(name, str)
        or not isinstance(given, dict)
        or set(value) - {"name", "arguments"}
    ):
        raise BadInput("this JSON is no call", remedy='{"name": TOOL, "arguments": {...}}')
    if name not in tools:
        raise _unknown(name, tools)
    return Call(name, _checked(given, tools[name]))


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        said = error.msg if isinstance(error, json.JSONDecodeError) else "it cannot be read"
        raise BadInput(f"{what}: this is no JSON: {said}", remedy='{"key": "value"}') from error
    if not isinstance(value, dict):
        raise BadInput(f"{what}: arguments are an object", remedy='{"key": "value"}')
    return value


def _looks_given(rest: str) -> bool:
    return rest.startswith("{") or _KEY.match(rest) is not None


def _pairs(text: str, spec: ToolSpec) -> Iterator[tuple[str, Any]]:
    """Yield the `key=value` pairs of a text."""
    left = _properties(spec)
    at = 0
    while at < len(text):
        key = _KEY.match(text, at)
        if key is None or (at and not text[at].isspace()):
            what = f"{text[at:].split()[0]!r} is no key=value"
            raise BadInput(what, remedy=signature(spec))
        if left.pop(key[1], None) is None:
            if key[1] in _properties(spec):
                raise BadInput(f"{key[1]} is given twice")
            raise _no_parameter(key[1], spec)
        value, at = _value(text, key.end(), spec, key[1])
        yield key[1], value


def _value(text: str, at: int, spec: ToolSpec, name: str) -> tuple[Any, int]:
    """Return the value that begins at `at`, and where it ends."""
    schema = _properties(spec)[name]
    first = text[at : at + 1]
    if first == "'" and (end := text.find("'", at + 1)) > 0:
        return _typed(text[at + 1 : end], schema, name), end + 1
    if first and first in '"[{':
        try:
            return _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            what = f"{name}: the value does not end" if first == '"' else f"{name}: no JSON"
            raise BadInput(what, remedy=f"{name}={_kind(schema)}") from error
    bare = _BARE.match(text, at)
    word = bare[0] if bare else ""
    return _typed(word, schema, name), at + len(word)


def _typed(word: str, schema: Mapping[str, Any], name: str) -> Any:
    """Return a bare word as its parameter wants it: text stays text, all else is JSON."""
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if "string" in kinds:
        return word
    try:
        return json.loads(word, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        if not kinds:
            return word
        raise BadInput(f"{name} takes {_kind(schema)}, not {word!r}") from error


def _checked(given: dict[str, Any], spec: ToolSpec) -> dict[str, Any]:
    """Return the arguments if their names are right; their values are the tool's to judge."""
    known = _properties(spec)
    open_ended = spec.parameters.get("additionalProperties") not in (False, None)
    unknown = [name for name in given if name not in known]
    if unknown and not open_ended:
        raise _no_parameter(unknown[0], spec)
    missing = [name for name in spec.parameters.get("required", ()) if name not in given]
    if missing:
        raise BadInput(f"{spec.name} needs {', '.join(missing)}", remedy=signature(spec))
    try:
        canonical(given)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{spec.name}: a value cannot be sent", remedy=signature(spec)) from error
    return given


def _properties(spec: ToolSpec) -> dict[str, Any]:
    found = spec.parameters.get("properties", {})
    return {name: s if isinstance(s, dict) else {} for name, s in found.items()}


def _kind(schema: Mapping[str, Any]) -> str:
    if isinstance(schema.get("enum"), list):
        return "|".join(map(str, schema["enum"]))
    kind = schema.get("type", "JSON")
    names = [kind] if isinstance(kind, str) else [str(one) for one in kind]
    return "|".join(_KINDS.get(name, name) for name in names)


def _no_parameter(name: str, spec: ToolSpec) -> BadInput:
    return BadInput(f"{spec.name} has no parameter {name!r}", remedy=signature(spec))


def _unknown(name: str, tools: Mapping[str, ToolSpec]) -> BadInput:
    close = difflib.get_close_matches(name, tools, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else "/tools lists them"
    return BadInput(f"there is no tool {name!r}", remedy=f"{hint}; /say says it to the user")
