"""The typed vocabulary that applications are composed from: one YAML file for each category.

The vocabulary carries the sense: what an entity is, which attributes and states it has, what may
be done to it and how people say that. The composer only puts together what a file says belongs
together. `docs/extending.md` describes the notation; this module reads it into types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

from synth.core.errors import BadApplication, UnknownName

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_RANGE = re.compile(r"(-?[\d.]+)\.\.(-?[\d.]+)(?:/(\d+))?\s*(.*)")
_ACT = re.compile(r"([\w, *]+?)\s*([-=])>\s*(\w+)(?:\s+with\s+([\w, ]+))?")
RANGED = frozenset({"int", "num", "money", "day"})
PLAIN = frozenset({"city", "street", "person", "company", "phone"})
KINDS = RANGED | PLAIN | {"one", "text", "code", "flag", "time"}


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an entity: what values it has, and how people speak of it."""

    name: str
    kind: str
    """One of `KINDS`."""
    about: str
    """Noun phrase: what the value is."""
    values: tuple[str, ...] = ()
    """Of `one` and `text`; the pattern of `code`; the percentage of `flag`."""
    low: float = 0
    high: float = 0
    step: int = 1
    """Step of whole numbers, decimals of others."""
    unit: str = ""
    say: str = ""
    """How a wish states it; `{}` is the value."""
    ask: str = ""
    """How a person asks for it, after "I would like to know"; `{it}` is the thing."""
    change: bool = False
    """Whether it may be changed by an update."""
    formula: str = ""
    """SQL in terms of `{attribute}` and `{reference.attribute}`: computed, never given."""

    @property
    def label(self) -> str:
        """Return its name as people say it."""
        return self.name.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference of a record to a thing."""

    to: str
    say: str
    """How a wish names it; `{}` is the name of the thing."""
    move: str = ""
    """How a person asks for another one; `{it}` and `{}`. Empty: it is never changed."""


@dataclass(frozen=True, slots=True)
class Act:
    """Something done to a record that has states: from some of them to another."""

    name: str
    sources: tuple[str, ...]
    target: str
    say: str
    about: str
    sets: tuple[str, ...] = ()
    """Attributes that are given along with it."""
    final: bool = False
    """Whether it cannot be undone."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule that the policy states and no tool enforces."""

    act: str
    """`create`, or the name of an act."""
    when: str
    """SQL condition on the record's columns; of `create`, on `:attributes` and the owner's."""
    text: str
    numbers: tuple[str, ...] = ()
    """What `{n}` may be."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A kind of row: a `thing` that all see, or a `record` that belongs to an owner."""

    name: str
    plural: str
    about: str
    attributes: Mapping[str, Attribute]
    thing: bool = False
    names: tuple[str, ...] = ()
    """Of things: what they are called."""
    of: str = ""
    """Of records: the record that they are part of; empty: they belong to the owner."""
    references: Mapping[str, Reference] = field(default_factory=dict)
    mention: str = ""
    """How their owner speaks of one: `my parcel[ to {city}]`; brackets can be left out."""
    live: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    ahead: frozenset[str] = frozenset()
    behind: frozenset[str] = frozenset()
    """States in which the record's day lies ahead of the clock, or behind it."""
    create: tuple[str, str, str] = ("", "", "")
    """Verb of the tool's name, how the wish is said, description."""
    remove: tuple[str, str, str] = ("", "", "")
    acts: Mapping[str, Act] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    once: str = ""
    """A reference: no owner has two live records with the same thing."""
    fills: str = ""
    """`thing.attribute`: as many live records as that number may refer to the thing."""
    needs: str = ""
    """`thing.flag`: what the thing must be for a record to refer to it."""
    saved: str = ""
    """Of things: what people do who keep one in mind: `follow`, `bookmark`."""

    @property
    def noun(self) -> str:
        """Return what people call one of them."""
        return self.name.replace("_", " ")

    @property
    def nouns(self) -> str:
        """Return what people call several of them."""
        return self.plural.replace("_", " ")

    @property
    def states(self) -> tuple[str, ...]:
        """Return all states, those that end it last."""
        return self.live + self.ended

    @property
    def day(self) -> Attribute | None:
        """Return its first date, by which it is sorted."""
        return next((a for a in self.attributes.values() if a.kind == "day"), None)


@dataclass(frozen=True, slots=True)
class Category:
    """The vocabulary of one category."""

    name: str
    desks: Mapping[str, str]
    """Name of an application -> what it is."""
    owner: Entity
    handoff: str
    """Who takes over what the tools cannot do."""
    out_of_scope: tuple[str, ...]
    entities: Mapping[str, Entity]


# --- reading ---------------------------------------------------------------------------------


def file_name(category: str) -> str:
    """Return the name of the file of a category: `real estate` -> `real_estate.yaml`."""
    return category.replace(" ", "_") + ".yaml"


@lru_cache(1)
def names() -> tuple[str, ...]:
    """Return the categories that have a vocabulary, in alphabetical order."""
    folder = files("tool_registry.composer").joinpath("vocabulary")
    stems = sorted(f.name.removesuffix(".yaml") for f in folder.iterdir() if f.name[-5:] == ".yaml")
    return tuple(stem.replace("_", " ") for stem in stems)


@lru_cache(maxsize=100)
def vocabulary(category: str) -> Category:
    """Return the vocabulary of a category.

    Raises:
        UnknownName: it has none.
        BadApplication: its file does not keep to the notation.
    """
    if category not in names():
        raise UnknownName("category", category, names())
    path = files("tool_registry.composer").joinpath("vocabulary", file_name(category))
    return read(category, path.read_text(encoding="utf-8"))


def read(category: str, text: str) -> Category:
    """Read the text of a vocabulary.

    Raises:
        BadApplication: it does not keep to the notation.
    """
    where = file_name(category)
    try:
        data = yaml.safe_load(text)
        owner = _entity(data["owner"]["name"], data["owner"])
        entities = {name: _entity(name, body) for name, body in data["entities"].items()}
        return Category(
            name=category,
            desks=dict(data["desks"]),
            owner=owner,
            handoff=str(data["handoff"]),
            out_of_scope=tuple(data["out_of_scope"]),
            entities=entities,
        )
    except (KeyError, TypeError, ValueError, AttributeError, yaml.YAMLError) as error:
        what = f"not a vocabulary: {error}"
        raise BadApplication(what, where=where, remedy="see docs/extending.md") from error


def _entity(name: str, body: Mapping[str, Any]) -> Entity:
    live, ended, ahead, behind = _states(str(body.get("states", "")))
    references = {key: _reference(key, text) for key, text in body.get("refs", {}).items()}
    attributes = {key: _attribute(key, text) for key, text in body.get("attributes", {}).items()}
    acts = {
        key: _act(key, text, live, (*live, *ended)) for key, text in body.get("acts", {}).items()
    }
    known = {"about", "attributes", "names", "plural", "is", "refs", "mention", "states", "create"}
    known |= {"acts", "rules", "once", "fills", "needs", "saved", "of", "remove", "name"}
    if unknown := set(body) - known:
        raise ValueError(f"{name}: unknown keys {sorted(unknown)}")
    if any(set(act.sources) & set(ended) and act.target in live for act in acts.values()):
        raise ValueError(
            f"{name}: what has ended cannot go on; list that state among the live ones"
        )
    for act in acts.values():
        if missing := {*act.sources, act.target} - {*live, *ended}:
            raise ValueError(f"{name}.{act.name}: no such state {sorted(missing)}")
        if missing := set(act.sets) - set(attributes):
            raise ValueError(f"{name}.{act.name}: no such attribute {sorted(missing)}")
    return Entity(
        name=name,
        plural=str(body.get("plural", plural(name))),
        about=str(body.get("about", "")),
        attributes=attributes,
        thing=body.get("is") == "thing",
        names=tuple(str(body.get("names", "")).split("; ")),
        of=str(body.get("of", "")),
        references=references,
        mention=str(body.get("mention", "")),
        live=live,
        ended=ended,
        ahead=ahead,
        behind=behind,
        create=_three(body.get("create")),
        remove=_three(body.get("remove")),
        acts=acts,
        rules=tuple(_rule(text) for text in body.get("rules", ())),
        once=str(body.get("once", "")),
        fills=str(body.get("fills", "")),
        needs=str(body.get("needs", "")),
        saved=str(body.get("saved", "")),
    )


def plural(name: str) -> str:
    """Return the plural of a name: `copy` -> `copies`, `box` -> `boxes`."""
    if name.endswith("y") and name[-2] not in "aeiou":
        return name[:-1] + "ies"
    return name + ("es" if name.endswith(("s", "x", "ch", "sh")) else "s")


def _parts(text: str, count: int) -> list[str]:
    parts = [part.strip() for part in str(text).split("|")]
    if len(parts) > count:
        raise ValueError(f"more than {count} parts: {text!r}")
    return parts + [""] * (count - len(parts))


def _three(text: Any) -> tuple[str, str, str]:
    if text is None:
        return ("", "", "")
    one, two, three = _parts(text, 3)
    return one, two, three


def _states(text: str) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str], frozenset[str]]:
    """Read `booked>, checked_in; completed<, cancelled`: live ones, then those that end it."""
    ahead: set[str] = set()
    behind: set[str] = set()
    groups: list[tuple[str, ...]] = []
    for group in text.split(";"):
        words = [word.strip() for word in group.split(",") if word.strip()]
        ahead.update(word[:-1] for word in words if word.endswith(">"))
        behind.update(word[:-1] for word in words if word.endswith("<"))
        groups.append(tuple(word.rstrip("<>") for word in words))
    live, ended = (*groups, ())[:2]
    return live, ended, frozenset(ahead), frozenset(behind)


def _reference(to: str, text: str) -> Reference:
    say, move = _parts(text, 2)
    return Reference(to, say, move)


def _act(name: str, text: str, live: tuple[str, ...], states: tuple[str, ...]) -> Act:
    flow, say, about = _parts(text, 3)
    found = _ACT.fullmatch(flow)
    if found is None or not about:
        raise ValueError(f"{name}: expected `state -> state | say | about`, found {text!r}")
    sources = live if found[1] == "*" else tuple(s.strip() for s in found[1].split(","))
    sets = tuple(s.strip() for s in (found[4] or "").split(",") if s.strip())
    return Act(name, sources, found[3], say, about, sets, final=found[2] == "=")


def _rule(text: str) -> Rule:
    act, when, sentence, numbers = _parts(text, 4)
    if not sentence:
        raise ValueError(f"expected `act | condition | sentence | numbers`, found {text!r}")
    return Rule(act, when, sentence, tuple(n.strip() for n in numbers.split(",") if n.strip()))


def _times(text: str) -> tuple[str, ...]:
    """Read `08:00..18:00/30` as times of day, 30 minutes apart."""
    found = re.fullmatch(r"(\d\d):(\d\d)\.\.(\d\d):(\d\d)/(\d+)", text)
    if found is None:
        raise ValueError(f"expected 08:00..18:00/30, found {text!r}")
    first, last, grid = (
        int(found[1]) * 60 + int(found[2]),
        int(found[3]) * 60 + int(found[4]),
        int(found[5]),
    )
    return tuple(f"{m // 60:02d}:{m % 60:02d}" for m in range(first, last + 1, grid))


def _attribute(name: str, text: str) -> Attribute:
    head, about, say, ask = _parts(text, 4)
    change = head.startswith("+")
    kind, _, rest = head.removeprefix("+").partition(" ")
    kind, rest = kind.strip(), rest.strip()
    if kind not in KINDS or not _NAME.fullmatch(name) or not about:
        raise ValueError(f"attribute {name}: expected `kind … | about`, found {text!r}")
    formula, values = "", tuple[str, ...]()
    low, high, step, unit = 0.0, 0.0, 2 if kind == "num" else 1, ""
    if rest.startswith("="):
        formula = rest[1:].strip()
    elif kind in RANGED:
        found = _RANGE.fullmatch(rest)
        if found is None:
            raise ValueError(f"attribute {name}: expected a range, found {rest!r}")
        low, high, unit = float(found[1]), float(found[2]), found[4]
        step = int(found[3]) if found[3] else step
    elif kind in ("one", "text"):
        values = tuple(v.strip() for v in rest.split("," if kind == "one" else ";"))
    elif kind == "time":
        values = _times(rest)
    elif kind == "code":  # 9 and A: YAML takes # for a comment
        values = (rest.replace("9", "#").replace("A", "?"),)
    elif kind not in PLAIN:
        values = (rest,)
    return Attribute(name, kind, about, values, low, high, step, unit, say, ask, change, formula)
