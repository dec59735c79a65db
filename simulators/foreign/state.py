"""The state of any object as rows of text, so that two states can be compared by content."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator, Mapping
from typing import Any

from synth.core.canonical import canonical
from synth.core.types import Diff

Parts = dict[str, bytes]
"""Public attribute -> its value, pickled. What is loaded from here was made here."""


def parts_of(subject: Any) -> Parts:
    """Return the public attributes of an object, each by itself; equal bytes are equal values."""
    return {
        name: pickle.dumps(value)
        for name, value in vars(subject).items()
        if not name.startswith("_")
    }


def changes(before: Parts, after: Parts) -> Diff:
    """Return the net change between two states: one line a value, sorted.

    Dictionaries and objects are walked; a list is one value. An object met inside itself is named,
    not walked. Attributes with an underscore are the author's own affair, inside of objects too.
    """
    found: list[str] = []
    for name in before.keys() | after.keys():
        if before.get(name) != after.get(name):
            found += _lines(name, _rows(before.get(name)), _rows(after.get(name)))
    return tuple(sorted(found))


def _lines(name: str, before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    for place in before.keys() | after.keys():
        old, new = before.get(place), after.get(place)
        if old == new:
            continue
        kind = "insert" if old is None else "delete" if new is None else "update"
        one, two = (f'{{"at":{place},"is":{side}}}' if side else "null" for side in (old, new))
        yield f'[{canonical(name)},"{kind}",{one},{two}]'


def _rows(part: bytes | None) -> dict[str, str]:
    """Return the values of an attribute by their place in it, both as canonical JSON."""
    if part is None:
        return {}
    walk = _walk(pickle.loads(part), (), ())
    return {canonical(place): canonical(value) for place, value in walk}


def _walk(
    value: Any, place: tuple[Any, ...], above: tuple[int, ...]
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    inside = _inside(value)
    if inside is None or id(value) in above:
        yield place, plain(value, above)
        return
    yield place, {} if isinstance(value, Mapping) else {"$class": type(value).__name__}
    for key, one in inside.items():
        yield from _walk(one, (*place, key), (*above, id(value)))


def _inside(value: Any) -> dict[Any, Any] | None:
    """Return what a value consists of by name; None where it is to be taken as a whole."""
    if isinstance(value, Mapping):
        return {_key(key): one for key, one in value.items()}
    if hasattr(value, "isoformat"):
        return None
    members = getattr(value, "__dict__", None)
    if members is None or isinstance(value, type):
        return None
    return {name: one for name, one in members.items() if not name.startswith("_")}


def _key(key: Any) -> str | int:
    return key if type(key) in (str, int) else str(plain(key))


def plain(value: Any, above: tuple[int, ...] = ()) -> Any:
    """Return a value as JSON can hold it; what it cannot hold is named by its class.

    Args:
        value: anything.
        above: identities of the objects that it was reached through.
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if id(value) in above:
        return {"$ref": type(value).__name__}
    above = (*above, id(value))
    if isinstance(value, (list, tuple)):
        return [plain(one, above) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(one, above) for one in value), key=canonical)
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    inside = _inside(value)
    if inside is None:
        return {"$class": type(value).__name__}
    return {str(key): plain(one, above) for key, one in inside.items()}
