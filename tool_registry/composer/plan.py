"""What one application is made of: the part of a vocabulary that was drawn for it."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from tool_registry.composer import phrases
from tool_registry.composer.style import IMPERIAL, Style
from tool_registry.composer.vocabulary import Attribute, Category, Entity, Reference, Rule

_WORD = re.compile(r"[a-z_][a-z0-9_]*")
_TERM = re.compile(r":?([a-z_]+) (=|<>|>|<) ('[^']*'|[\d.]+)")
_NEAR = re.compile(r"days_between\(today\(\), day\) < (\d+)")
LEAST_SHARE = 0.06
"""Of the calls that people want, at least so many have to break a rule; it is dropped otherwise."""
KEPT = 0.75
"""Share of the attributes and acts that could be left out and are there."""


@dataclass(frozen=True)
class Part:
    """One table of an application: an entity with what was drawn of it."""

    entity: Entity
    holder: str
    """Name of what it belongs to: the owner, or the record it is part of. Empty: a thing."""
    prefix: str
    references: Mapping[str, Reference]
    rules: tuple[tuple[Rule, str], ...]
    """With the number that stands for `{n}`."""
    once: str
    fills: str
    needs: str

    @property
    def table(self) -> str:
        """Return the name of its table."""
        return self.entity.plural

    @property
    def name(self) -> str:
        """Return the name of its entity."""
        return self.entity.name

    @cached_property
    def attributes(self) -> Mapping[str, Attribute]:
        """Return the attributes that were drawn."""
        return self.entity.attributes

    @cached_property
    def given(self) -> list[Attribute]:
        """Return the attributes that whoever makes a record gives."""
        return [a for a in self.attributes.values() if not a.formula]

    @cached_property
    def computed(self) -> list[Attribute]:
        """Return the attributes that follow from others."""
        return [a for a in self.attributes.values() if a.formula]

    @cached_property
    def known(self) -> list[str]:
        """Return the columns by which its owner knows a record."""
        if self.entity.thing:
            return ["name"]
        named = [name.split(".")[0] for name in phrases.fields(self.entity.mention)]
        named += [self.entity.of] if self.entity.of else []
        keys = {*self.references, self.entity.of} - {""}
        columns = [f"{name}_id" if name in keys else name for name in dict.fromkeys(named)]
        return columns

    def called(self, path: str) -> str:
        """Return the template by which a person names one of them."""
        if self.entity.thing:
            text = self.entity.mention or "{name}"
            return phrases.mention(text, path, ())
        return phrases.mention(self.entity.mention, path, self.references)


@dataclass(frozen=True)
class Plan:
    """One application before it is written out."""

    category: Category
    style: Style
    desk: str
    owner: Part
    parts: Mapping[str, Part]
    rng: random.Random
    """For choices that concern one tool only."""

    @cached_property
    def things(self) -> list[Part]:
        """Return the things."""
        return [part for part in self.parts.values() if part.entity.thing]

    @cached_property
    def records(self) -> list[Part]:
        """Return the records, each after what it is part of."""
        found = [part for part in self.parts.values() if not part.entity.thing]
        return sorted(found, key=lambda part: part.entity.of != "")

    def part(self, name: str) -> Part:
        """Return the part of an entity."""
        return self.owner if name == self.owner.name else self.parts[name]

    def key(self, part: Part) -> str:
        """Return the parameter that takes the key of a part."""
        return self.style.key(part.name)

    def example(self, part: Part) -> str:
        """Return what keys of a part look like."""
        return f"{part.prefix}{7 + len(part.name):0{self.style.digits}d}"

    def own(self, part: Part, condition: str = "") -> str:
        """Return the SELECT of the keys of the user's own rows of a record."""
        extra = f" AND r.{condition}" if condition else ""
        if part.holder == self.owner.name:
            return f"SELECT r.id FROM {part.table} r WHERE r.{part.holder}_id = :user_id{extra}"
        over = self.parts[part.holder]
        return (
            f"SELECT r.id FROM {part.table} r JOIN {over.table} h ON h.id = r.{over.name}_id "
            f"WHERE h.{over.holder}_id = :user_id{extra}"
        )


def draw(category: Category, style: Style, desk: str, rng: random.Random) -> Plan:
    """Draw the entities of an application, and what of each."""
    entities = category.entities
    roots = [e for e in entities.values() if not e.thing and not e.of]
    wanted = min(len(roots), rng.choice((2, 2, 3)))
    chosen = {e.name: e for e in rng.sample(roots, wanted)}
    for entity in entities.values():
        if entity.of in chosen and rng.random() < 0.6:
            chosen[entity.name] = entity
    kept = {name: _kept_references(entity, rng) for name, entity in chosen.items()}
    for references in kept.values():
        chosen.update((to, entities[to]) for to in references)
    others = [e for e in entities.values() if e.thing and e.name not in chosen]
    if others and rng.random() < 0.35:
        extra = rng.choice(others)
        chosen[extra.name] = extra
    prefixes: set[str] = set()
    names = [name for name in entities if name in chosen]
    owner = _part(category.owner, category.owner, {}, (), prefixes, style)
    parts: dict[str, Part] = {}
    for name in names:
        entity, references = _drawn(chosen[name], chosen, rng), kept.get(name, {})
        rules = _rules(entity, category.owner, rng)
        entity = _in_units(entity, style, rules)
        parts[name] = _part(entity, category.owner, references, rules, prefixes, style)
    return Plan(category, style, desk, owner, parts, rng)


def _kept_references(entity: Entity, rng: random.Random) -> dict[str, Reference]:
    """Draw which things a record refers to; some it cannot do without."""
    named = {name.split(".")[0] for name in phrases.fields(entity.mention)}
    for text in (entity.once, entity.fills, entity.needs):
        named.add(text.split(".")[0])
    for attribute in entity.attributes.values():
        named.update(name.split(".")[0] for name in phrases.fields(attribute.formula))
    return {k: r for k, r in entity.references.items() if k in named or rng.random() < KEPT}


def _drawn(
    entity: Entity,
    chosen: Mapping[str, Entity],
    rng: random.Random,
) -> Entity:
    """Leave out some attributes and acts that nothing needs."""
    sure = [act for act in entity.acts.values() if act.final][:1]
    acts = {a.name: a for a in entity.acts.values() if a in sure or rng.random() < KEPT}
    needed = set(phrases.fields(entity.mention))
    for act in acts.values():
        needed.update(act.sets)
    for attribute in entity.attributes.values():
        needed.update(phrases.fields(attribute.formula))
        if attribute.formula or attribute.kind == "day":
            needed.add(attribute.name)
    for other in chosen.values():
        texts = [other.fills, other.needs, other.mention]
        texts += [field for at in other.attributes.values() for field in phrases.fields(at.formula)]
        for text in texts:
            for name in [text, *phrases.fields(text)]:
                head, _, tail = name.partition(".")
                if head == entity.name:
                    needed.add(tail)
    kept = {name for name in entity.attributes if name in needed or rng.random() < KEPT}
    if len(kept) < 2:  # nothing would be left to tell
        kept = set(entity.attributes)
    attributes = {name: a for name, a in entity.attributes.items() if name in kept}
    return replace(entity, attributes=attributes, acts=acts)


def _rules(entity: Entity, owner: Entity, rng: random.Random) -> tuple[tuple[Rule, str], ...]:
    """Draw the rules that fit what is left of an entity."""
    everything = {"status", "id", *entity.attributes, *owner.attributes}
    found = []
    for rule in entity.rules:
        words = set(_WORD.findall(re.sub(r"'[^']*'|\w+\(", "", rule.when.lower())))
        words -= {"and", "or", "not", "in", "is", "null", "like", "n"}
        fits = (rule.act == "create" or rule.act in entity.acts) and words <= everything
        if fits and rng.random() < 0.85:
            n = rng.choice(rule.numbers) if rule.numbers else ""
            if share(rule, n, entity, owner) >= LEAST_SHARE:
                found.append((rule, n))
    return tuple(found)


def share(rule: Rule, n: str, entity: Entity, owner: Entity) -> float:
    """Estimate how often what people want breaks a rule; 0.3 for a term that is not understood."""
    whole = 1.0
    for term in rule.when.replace("{n}", n).split(" AND "):
        whole *= _term(term, rule, entity, owner)
    return whole


def _term(term: str, rule: Rule, entity: Entity, owner: Entity) -> float:
    near = _NEAR.fullmatch(term.strip())
    if near is not None and entity.day is not None:
        return float(near[1]) / max(1.0, entity.day.high)
    found = _TERM.fullmatch(term.strip())
    if found is None:
        return 0.3
    name, sign, value = found.groups()
    if name == "status":
        sources = entity.acts[rule.act].sources
        return 1 / len(sources) if value.strip("'") in sources else 0.0
    attribute = entity.attributes.get(name) or owner.attributes.get(name)
    if attribute is None or attribute.formula:
        return 0.3
    if attribute.kind == "one":
        one = 1 / len(attribute.values)
        return one if sign == "=" else 1 - one
    if attribute.kind == "flag":
        given = int(attribute.values[0]) / 100
        return given if value == "1" else 1 - given
    width = max(1.0, attribute.high - attribute.low)
    above = min(1.0, max(0.0, (attribute.high - float(value)) / width))
    return {">": above, "<": 1 - above}.get(sign, 1 / width)


def _in_units(entity: Entity, style: Style, rules: tuple[tuple[Rule, str], ...]) -> Entity:
    """Convert attributes to other units, where no rule or formula counts on them."""
    if style.metric:
        return entity
    texts = [rule.when for rule, _ in rules] + [a.formula for a in entity.attributes.values()]
    counted = set(_WORD.findall(" ".join(texts)))
    attributes = {
        name: attribute if name in counted else _imperial(attribute)
        for name, attribute in entity.attributes.items()
    }
    return replace(entity, attributes=attributes)


def _imperial(attribute: Attribute) -> Attribute:
    if attribute.unit not in IMPERIAL or attribute.formula:
        return attribute
    unit, factor = IMPERIAL[attribute.unit]

    def told(text: str) -> str:
        return re.sub(rf"\b{attribute.unit}\b", unit, text)

    low, high = attribute.low * factor, attribute.high * factor
    if attribute.kind == "int":
        low, high = max(1, round(low)), max(2, round(high))
    step = 1 if attribute.kind == "int" else attribute.step
    return replace(
        attribute, low=low, high=high, step=step, unit=unit,
        about=told(attribute.about), say=told(attribute.say), ask=told(attribute.ask),
    )  # fmt: skip


def _part(
    entity: Entity,
    owner: Entity,
    references: Mapping[str, Reference],
    rules: tuple[tuple[Rule, str], ...],
    prefixes: set[str],
    style: Style,
) -> Part:
    holder = "" if entity.thing or entity is owner else entity.of or owner.name
    letters = entity.name.replace("_", "").upper()
    prefix = next(p for n in range(1, len(letters)) if (p := letters[:n]) not in prefixes)
    prefixes.add(prefix)
    return Part(
        entity, holder, prefix + style.dash, references, rules,
        entity.once, entity.fills, entity.needs,
    )  # fmt: skip
