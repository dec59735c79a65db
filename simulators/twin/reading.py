"""What a crawled tool seems to do, read from its name and its schema alone.

Names and schemas are strangers' text. They are matched against lists of ours and cut down to plain
words; nothing of them is run, and no sentence of theirs enters one of ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from synth.core import schemas
from synth.core.errors import NotSuitable
from synth.core.types import ToolSpec

Verb: TypeAlias = Literal["show", "list", "create", "update", "delete"]
VERBS: Mapping[str, Verb] = {
    **dict.fromkeys(("get", "fetch", "read", "show", "describe", "retrieve", "view"), "show"),
    **dict.fromkeys(("list", "search", "find", "query", "browse", "filter", "lookup"), "list"),
    **dict.fromkeys(("create", "add", "new", "insert", "register", "save", "post"), "create"),
    **dict.fromkeys(("update", "edit", "modify", "change", "rename", "set"), "update"),
    **dict.fromkeys(("delete", "remove", "cancel"), "delete"),
}
_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def _set(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


_AFTER = _set("by for in to from with of on as at using via and or per")
_EMPTY = _set("a an the all my me info information detail details data multiple batch")
_SECRET = re.compile(r"token|ticket|api_?key|password|secret|credential|auth", re.IGNORECASE)
_LIMIT = re.compile(r"(max_?(results|items)|limit|per_?page|page_?size|top_?k|num_?results)$", re.I)
_SEARCH = _set("query q search keyword keywords text term search_term search_query")
_PLAIN = frozenset({"string", "integer", "number", "boolean"})
_FORMATS = frozenset({"date", "date-time", "email", "uri", "url", "int32", "int64", "float"})
_RESERVED = _set(
    """add all alter and as asc between by case cast check collate column commit constraint create
    cross current default delete desc distinct drop else end escape except exists false for foreign
    from full group having if import in index inner insert intersect into is isnull join key left
    like limit natural not notnull null of offset on or order outer primary references regexp
    replace right row rows select set table temp then to true union unique update user_id using
    values view when where with self loop block macro call include extends raw none"""
)
MOST_PARAMETERS = 12

Role: TypeAlias = Literal["column", "search", "limit"]


@dataclass(frozen=True, slots=True)
class Read:
    """One parameter that a twin can give a meaning."""

    crawled: str
    """Its name in the crawled schema."""
    name: str
    """Its name here: lower case, and no word of SQL or of templates."""
    type: str
    required: bool
    role: Role
    schema: Mapping[str, Any]

    @property
    def is_key(self) -> bool:
        """Say whether it names something by a key that nobody knows by heart."""
        return self.type == "string" and re.search(r"(^|_)(id|uuid|guid)_?$", self.name) is not None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a tool seems to do."""

    spec: ToolSpec
    verb: Verb
    noun: str
    """Of what it is about, in the singular: `pull_request`."""
    parameters: tuple[Read, ...]
    refused: tuple[str, ...]
    """Optional parameters, by their crawled names, that have no meaning here."""


def read_tool(spec: ToolSpec) -> Reading:
    """Read a tool.

    Raises:
        NotSuitable: no twin of it can be made: `verb`, `noun`, `schema`, `parameters` or `secret`.
    """
    verb, noun = _meaning(spec.name)
    schema = spec.parameters
    try:
        schemas.validator(schema)
    except schemas.BROKEN:
        raise NotSuitable("schema") from None
    properties = schema.get("properties", {})
    if not isinstance(properties, dict) or set(schema) & {"anyOf", "oneOf", "allOf", "$ref", "not"}:
        raise NotSuitable("schema")
    required = set(schema.get("required") or ())
    if required - set(properties) or len(properties) > MOST_PARAMETERS:
        raise NotSuitable("parameters")
    found: list[Read] = []
    refused: list[str] = []
    for name, inner in properties.items():
        one = _parameter(name, inner, name in required, verb)
        if one is None or any(one.name == other.name for other in found):
            if name in required:
                raise NotSuitable("secret" if _SECRET.search(name) else "parameters")
            refused.append(name)
        else:
            found.append(one)
    return Reading(spec, verb, noun, tuple(found), tuple(refused))


def words_of(name: str) -> list[str]:
    """Return the words of a name, in lower case: `getPullRequest` is get, pull, request."""
    return [token.lower() for token in _TOKEN.findall(name)]


def snake(words: list[str]) -> str:
    """Return words as a name of ours; empty where nothing is left of them."""
    text = "_".join(words).strip("_")[:48].lstrip("0123456789_")
    return f"{text}_" if text in _RESERVED else text


def singular(word: str) -> str:
    """Return a plural's singular, roughly."""
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith(("sses", "xes", "ches", "shes")):
        return word[:-2]
    many = len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    return word[:-1] if many else word


def _meaning(name: str) -> tuple[Verb, str]:
    words = words_of(name)
    place = next((i for i, word in enumerate(words) if word in VERBS), None)
    if place is None or place > 2:
        raise NotSuitable("verb")
    after = list(_until(words[place + 1 :]))
    before = [word for word in words[:place] if word not in _EMPTY]
    about = [word for word in after if word not in _EMPTY] or before
    if not about:
        raise NotSuitable("noun")
    about = about[:3]
    verb, plural = VERBS[words[place]], about[-1] != singular(about[-1])
    noun = snake([*about[:-1], singular(about[-1])])
    if not noun:
        raise NotSuitable("noun")
    return ("list" if verb == "show" and plural else verb), noun


def _until(words: list[str]) -> Iterator[str]:
    for word in words:
        if word in _AFTER:
            return
        yield word


def _parameter(name: str, schema: Any, required: bool, verb: Verb) -> Read | None:
    """Return what a parameter means; None where it can have no meaning here."""
    inner = snake(words_of(name))
    if not isinstance(schema, dict) or not inner or _SECRET.search(name):
        return None
    kind, inner = schema.get("type"), "own_id" if inner == "id" else inner
    if not isinstance(kind, str) or kind not in _PLAIN or not _makeable(schema, kind):
        return None
    role: Role = "column"
    if kind in ("integer", "number") and _LIMIT.search(name):
        role = "limit"
    elif kind == "string" and verb == "list" and inner in _SEARCH:
        role = "search"
    if role == "limit" and verb != "list":
        return None
    return Read(name, inner, kind, required, role, schema)


def _makeable(schema: Mapping[str, Any], kind: str) -> bool:
    """Say whether values that we make are values of the schema."""
    if set(schema) & {"pattern", "const", "anyOf", "oneOf", "allOf", "not", "$ref", "multipleOf"}:
        return False
    if schema.get("format", "date") not in _FORMATS:
        return False
    enum = schema.get("enum")
    if enum is not None:
        named = (
            kind == "string" and isinstance(enum, list) and all(isinstance(e, str) for e in enum)
        )
        return named and 1 < len(set(enum)) <= 30 and all(0 < len(e) < 40 for e in enum)
    if kind == "string":
        return bool(schema.get("maxLength", 99) >= 30 and schema.get("minLength", 0) <= 4)
    low, high = schema.get("minimum", 1), schema.get("maximum", 10**6)
    bounds = isinstance(low, int | float) and isinstance(high, int | float)
    strict = {"exclusiveMinimum", "exclusiveMaximum"} & set(schema)
    return kind == "boolean" or bool(bounds and not strict and high - low >= 9)
