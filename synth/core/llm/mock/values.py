"""A value that a JSON Schema allows, drawn by a generator: for calls and structured answers.

It covers what tool schemas hold: types, enums, bounds, required and nested members, references,
alternatives, common formats. A `pattern` is met where a default, an example or an enum is given.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

DEPTH = 8
"""Levels below which only what is required is filled in, and references end."""
MOST = 1000
"""Characters and items that a schema may demand; beyond that, its answer is too short."""
_WORDS = ("blue", "harbour", "seven", "paper", "north", "garden", "window", "silver")
_FORMATS = {
    "date": "2026-03-02",
    "date-time": "2026-03-02T09:00:00Z",
    "time": "09:00:00Z",
    "duration": "PT1H",
    "email": "robin@example.org",
    "hostname": "example.org",
    "ipv4": "192.0.2.7",
    "ipv6": "2001:db8::7",
    "uri": "https://example.org/a",
    "uri-reference": "/a",
    "uuid": "3f0c8b1e-5d0a-4c36-9a52-7d1f2b6e8a90",
}
_MISSING = object()


class Values:
    """Draws values of one schema.

    Args:
        root: the whole schema, which references point into.
        rng: decides all choices.
        words: texts that free strings are drawn from, such as names in the conversation.
    """

    def __init__(
        self, root: Mapping[str, Any], rng: random.Random, words: Sequence[str] = ()
    ) -> None:
        self._root, self._rng, self._words = root, rng, words or _WORDS

    def value(self, schema: Any = _MISSING, depth: int = 0) -> Any:
        """Return a value for `schema` (default: the whole)."""
        schema = self._root if schema is _MISSING else schema
        if not isinstance(schema, Mapping) or depth > 2 * DEPTH:
            return None if schema is not True else "anything"
        schema = self._merged(schema, depth)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self._rng.choice(list(schema["enum"]))
        for given in ("default", "examples"):
            if schema.get(given) not in (None, []):
                return schema[given][0] if given == "examples" else schema[given]
        draw = {
            "object": self._object,
            "array": self._array,
            "string": self._string,
            "integer": self._integer,
            "number": self._number,
            "boolean": lambda *_: self._rng.random() < 0.5,
        }.get(_kind(schema))
        return draw(schema, depth) if draw else None

    def _merged(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        """Follow references and choose among alternatives."""
        out = dict(schema)
        for _ in range(DEPTH):
            reference = out.pop("$ref", None)
            parts = [self._target(reference)] if isinstance(reference, str) else []
            parts += out.pop("allOf", None) or []
            for word in ("anyOf", "oneOf"):
                options = out.pop(word, None)
                if options:
                    parts.append(options[-1] if depth > DEPTH else self._rng.choice(options))
            if not parts:
                break
            for part in parts:
                if isinstance(part, Mapping):
                    _merge(out, part)
        return out

    def _target(self, reference: str) -> Any:
        found: Any = self._root
        for step in reference.removeprefix("#").strip("/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name, found) if isinstance(found, Mapping) else {}
        return found

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        members = schema.get("properties") or {}
        required = [name for name in schema.get("required") or () if isinstance(name, str)]
        optional = [name for name in members if name not in required]
        # Optional members at random, unless it is deep or only required ones are filled in.
        chosen = [n for n in optional if depth < DEPTH // 2 and self._rng.random() < 0.3]
        lacking = int(schema.get("minProperties") or 0) - len(required) - len(chosen)
        chosen += [n for n in optional if n not in chosen][: max(0, lacking)]
        return {
            name: self.value(members.get(name, {"type": "string"}), depth + 1)
            for name in (*required, *chosen)
        }

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        least = min(int(schema.get("minItems") or 0), MOST)
        most = int(schema.get("maxItems", max(least, 2)))
        wanted = least if depth >= DEPTH else min(max(least, 1), most)
        first = schema.get("prefixItems") or []
        items: list[Any] = [self.value(part, depth + 1) for part in first[: max(wanted, least)]]
        for _ in range(20 * wanted):
            if len(items) >= wanted:
                break
            item = self.value(schema.get("items", {"type": "string"}), depth + 1)
            if not schema.get("uniqueItems") or item not in items:
                items.append(item)
        return items

    def _string(self, schema: Mapping[str, Any], depth: int) -> str:
        text = _FORMATS.get(schema.get("format", "")) or self._rng.choice(self._words)
        least, most = min(int(schema.get("minLength") or 0), MOST), schema.get("maxLength")
        while len(text) < least:
            text += self._rng.choice(_WORDS)
        return text if most is None else text[: int(most)]

    def _integer(self, schema: Mapping[str, Any], depth: int) -> int:
        step = schema.get("multipleOf") or 1
        low, high = _bounds(schema, 1)
        low = low if low is not None else (1 if high is None or high >= 1 else high)
        first, last = _multiples(low, high, step)
        return int(step * self._rng.randint(first, last))

    def _number(self, schema: Mapping[str, Any], depth: int) -> float:
        low, high = _bounds(schema, 0)
        strict = "exclusiveMinimum" in schema or "exclusiveMaximum" in schema
        if "multipleOf" in schema:
            first, last = _multiples(low or 0, high, schema["multipleOf"])
            return float(schema["multipleOf"] * self._rng.randint(first + strict, last))
        if low is None and high is None:
            return float(self._rng.randint(1, 10))
        low = low if low is not None else (high or 0) - 10
        high = high if high is not None else low + 10
        return low + (high - low) * self._rng.choice((0.25, 0.5, 0.75))


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind is None:
        marks = {"properties": "object", "required": "object", "items": "array"}
        kind = next((marks[word] for word in marks if word in schema), "string")
    return str(kind)


def _merge(out: dict[str, Any], part: Mapping[str, Any]) -> None:
    for name, value in part.items():
        if name == "required":
            out[name] = [*out.get(name, ()), *value]
        elif name == "properties":
            out[name] = {**out.get(name, {}), **value}
        else:
            out.setdefault(name, value)


def _bounds(schema: Mapping[str, Any], gap: int) -> tuple[Any, Any]:
    """Return the smallest and largest value; `gap` is what exclusive bounds are moved by."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if "exclusiveMinimum" in schema:
        low = schema["exclusiveMinimum"] + gap
    if "exclusiveMaximum" in schema:
        high = schema["exclusiveMaximum"] - gap
    return low, high


def _multiples(low: Any, high: Any, step: Any) -> tuple[int, int]:
    """Return the first and last factor of `step` within the bounds."""
    first = int(-(-low // step))
    last = first + 9 if high is None else int(high // step)
    return first, max(first, last)
