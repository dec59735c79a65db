"""Whether a failed episode is the user's fault, as far as a program can prove it.

tau2-bench #392: up to a third of failed runs were the simulated user's. Blamed is a user that kept
back what the agent had to know, told another value than its own, or refused what it wants. What can
be said in other words (small numbers, times, plain words) proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from synth.core.hearing import Hearing, hearing
from synth.core.invented import Known, amounts, plain, squeeze
from synth.core.types import Blueprint, Effect, Fact, Task, Trajectory
from synth.judge.acts import acts_fault
from synth.judge.rules import CODE
from synth.judge.values import Found, number_words, scan

_WORD = re.compile(r"[^\W\d_]{3,}")
COMMON = 12
"""Numbers up to this are told in too many ways."""
_COVERED = 0.8
"""Share of a wish's words that a proposal of it has at least."""
_EXTRAS = 10
"""Words beyond the wish that a proposal may have and still propose nothing else."""


def users_fault(task: Task, trajectory: Trajectory) -> str | None:
    """Return what the user did wrong, in words that follow "the user"; None if nothing is proven.

    Args:
        task: what the user knows and wants.
        trajectory: a failed episode.
    """
    act = acts_fault(task, trajectory)
    if act is not None:
        return act
    words = _Words(task, trajectory)
    for fact in words.kept_back():
        return f"never told the {fact.label}"
    value = words.made_up()
    if value is not None:
        return f"said {value!r}, which it has from nowhere"
    for value in words.unsaid():
        return f"never said {value!r}"
    for unit, said in words.other_amounts():
        return f"said {said} {unit}, which is not what it wants"
    return "refused what it wants" if words.refused() else None


class _Words:
    """What was said in one episode, by whom and in which order."""

    def __init__(self, task: Task, trajectory: Trajectory) -> None:
        self.blueprint: Blueprint = task.blueprint
        self.hears: Hearing = hearing(task.persona.language)
        self.name = task.persona.name
        self.trajectory = trajectory
        self.talk = [
            (m.role, m.content)
            for m in trajectory.messages
            if m.content and m.role in ("user", "assistant")
        ]
        self.user = "\n".join(text for role, text in self.talk if role == "user")
        self.said = _values(self.user)
        self.squeezed = squeeze(self.user)
        self.loose = any(re.search(text, self.user, re.I) for text in self.hears.relative)
        """Dates and sums are said in other words: nothing is proven by them."""

    # --- kept back ---------------------------------------------------------------------------

    def kept_back(self) -> Iterator[Fact]:
        """Yield facts that the agent needed and was never told."""
        for fact in self.blueprint.opening:
            code = squeeze(fact.spoken) == squeeze(str(fact.value)) and CODE.fullmatch(
                str(fact.value)
            )
            if (code or self._needed(fact)) and not self._told(fact):
                yield fact
        for fact in self.blueprint.withheld:
            if self._asked(fact) and not self._told(fact):
                yield fact

    def _needed(self, fact: Fact) -> bool:
        return any(_holds(call.arguments, fact) for call in self.blueprint.solution)

    def _asked(self, fact: Fact) -> bool:
        """Say whether the agent asked for a fact by its name, and the user answered something."""
        label = set(self.hears.words(fact.label))
        for (role, text), (after, _) in zip(self.talk, self.talk[1:], strict=False):
            if role == "assistant" and after == "user":
                asked = (set(self.hears.words(q)) for q in self.hears.questions(text))
                if label and any(label <= words for words in asked):
                    return True
        return False

    def _told(self, fact: Fact) -> bool:
        """Say whether a fact was told in any form, or could have been in one we cannot tell."""
        values = _values(fact.spoken)
        if values:
            return any(self._was_said(value) for value in values)
        for form in (squeeze(fact.spoken), squeeze(str(fact.value))):
            if form in self.squeezed:
                return True
        if CODE.fullmatch(str(fact.value)) and squeeze(fact.spoken) == squeeze(str(fact.value)):
            return False
        names = [word for word in _WORD.findall(fact.spoken) if word[0].isupper()]
        folded = self.user.casefold()
        return not names or any(name.casefold() in folded for name in names)

    def _was_said(self, value: Found) -> bool:
        if value.kind == "time" or (value.kind == "number" and _amount(value) <= COMMON):
            return True
        if self.loose and value.kind in ("date", "money"):
            return True
        return any(_same(value, other) for other in self.said)

    def unsaid(self) -> Iterator[str]:
        """Yield values of the wishes that neither side ever said."""
        if not self.user or not any(c.effect is not Effect.READ for c in self.blueprint.solution):
            return
        heard = [v for role, text in self.talk if role == "assistant" for v in _values(text)]
        if self.blueprint.retracted and sum(role == "user" for role, _ in self.talk) < 2:
            return  # the agent gave them no turn to take their first wish back
        for clause in self.blueprint.clauses:
            for value in _values(clause):
                if not self._was_said(value) and not any(_same(value, v) for v in heard):
                    yield clause[value.start : value.end]

    # --- told wrong --------------------------------------------------------------------------

    def made_up(self) -> str | None:
        """Return a value that the user has from nowhere, unless it was put right afterwards."""
        own = [*self.blueprint.clauses, self.blueprint.retracted, self.name]
        for fact in (*self.blueprint.opening, *self.blueprint.withheld, *self.blueprint.background):
            own += [str(fact.value), fact.spoken]
        own += [step.result.content for step in self.trajectory.steps if step.by == "user"]
        mine = "\n".join(own)
        heard: list[str] = []
        for index, (role, said) in enumerate(self.talk):
            text = plain(said)
            if role == "assistant":
                heard.append(text)
                continue
            for value in Known([*own, *heard]).invented(text):
                later = [text[text.find(value) + len(value) :]]
                later += [t for r, t in self.talk[index + 1 :] if r == "user"]
                if self._matters(value, mine, "\n".join(later)):
                    return value
        return None

    def _matters(self, value: str, own: str, later: str) -> bool:
        """Say whether a value that was made up misled the agent.

        It did where the agent called a tool with it, or where it took the place of a sum or a day
        that the user wanted. The last word counts: who says `500 EUR, no, 50 EUR` has said 50 EUR.
        """
        found = [item for item in scan(value) if item.kind in ("money", "date")]
        kinds = {item.kind for item in found}
        rights = [item for item in scan(own) if item.kind in kinds]
        if any(_same(right, item) for right in rights for item in scan(later)):
            return False
        return bool(rights) or any(
            _acted_on(value, found, argument)
            for step in self.trajectory.steps
            if step.by == "agent"
            for argument in _scalars(step.call.value)
        )

    def other_amounts(self) -> Iterator[tuple[str, str]]:
        """Yield units of which the user's last amount is none that it knows."""
        texts = [*self.blueprint.clauses, self.blueprint.retracted]
        texts += [f.spoken for f in (*self.blueprint.opening, *self.blueprint.withheld)]
        right = amounts("\n".join(texts), self.hears)
        heard = amounts("\n".join(t for r, t in self.talk if r == "assistant"), self.hears)
        wanted = amounts("\n".join(self.blueprint.clauses), self.hears)
        for unit, numbers in amounts(self.user, self.hears).items():
            allowed = {Decimal(n) for n in (*right.get(unit, ()), *heard.get(unit, ()))}
            if unit in wanted and Decimal(numbers[-1]) not in allowed:
                yield unit, numbers[-1]

    # --- refused -----------------------------------------------------------------------------

    def refused(self) -> bool:
        """Say whether the user's last answer to a proposal of what it wants was a no."""
        if not any(call.effect is not Effect.READ for call in self.blueprint.solution):
            return False
        agents = (s for s in self.trajectory.steps if s.by == "agent")
        if any(s.result.ok and s.effect is not Effect.READ for s in agents):
            return False
        for (role, text), (after, answer) in reversed(
            list(zip(self.talk, self.talk[1:], strict=False))
        ):
            asks = any(self.hears.has("consent", q) for q in self.hears.questions(text))
            if role == "assistant" and after == "user" and asks:
                return self.hears.has("declines", answer) and self._proposes(text)
        return False

    def _proposes(self, text: str) -> bool:
        """Say whether a text proposes all wishes, and nothing else, as far as values can tell."""
        proposed, offered = set(self.hears.words(text)), _values(text)
        wanted: set[str] = set()
        for clause in self.blueprint.clauses:
            words = set(self.hears.words(clause))
            wanted |= words
            if len(words & proposed) < _COVERED * len(words):
                return False
            if any(not any(_same(v, o) for o in offered) for v in _values(clause)):
                return False
        facts = (*self.blueprint.opening, *self.blueprint.withheld, *self.blueprint.background)
        spoken = [f.spoken for f in facts]
        own = [v for part in (*self.blueprint.clauses, *spoken) for v in _values(part)]
        foreign = [v for v in offered if not any(_same(v, o) for o in own)]
        return bool(wanted) and not foreign and len(proposed - wanted) <= _EXTRAS


def _values(text: str) -> list[Found]:
    return [*scan(text), *number_words(text)]


def _same(one: Found, other: Found) -> bool:
    """Say whether two values may be the same: a year or a currency may be left out."""
    if one.kind != other.kind:
        money = {one.kind, other.kind} == {"money", "number"}
        return money and _minor(one) == _minor(other)
    return len(one.value) == len(other.value) and all(
        a == b or a is None or b is None for a, b in zip(one.value, other.value, strict=True)
    )


def _amount(found: Found) -> Decimal:
    """Return the number of a number or a sum."""
    number = found.value[-1]
    return number if isinstance(number, Decimal) else Decimal(0)


def _minor(found: Found) -> Decimal:
    """Return an amount in minor units; a bare number is one of main units."""
    return _amount(found) * (1 if found.kind == "money" else 100)


def _acted_on(value: str, found: list[Found], argument: Any) -> bool:
    """Say whether an argument of a call is a value that was said."""
    if not found:
        return squeeze(value) in squeeze(str(argument))
    if isinstance(argument, int | float) and not isinstance(argument, bool):
        number = Decimal(str(argument))
        return any(f.kind == "money" and number in (_minor(f), _minor(f) / 100) for f in found)
    return any(_same(one, other) for one in found for other in scan(str(argument)))


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _scalars(item)
    else:
        yield value


def _holds(value: Any, fact: Fact) -> bool:
    if isinstance(value, Mapping):
        return any(_holds(item, fact) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_holds(item, fact) for item in value)
    if isinstance(value, str):
        return isinstance(fact.value, str) and bool(fact.value) and fact.value in value
    return type(value) is type(fact.value) and bool(value == fact.value)
