"""Which facts a question is about, told by the words of their labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from synth.core.hearing import Hearing
from synth.core.types import Fact


def asked(questions: Sequence[str], facts: Sequence[Fact], hears: Hearing) -> list[Fact]:
    """Return the facts that the questions name.

    Args:
        questions: sentences of an agent.
        facts: what the user knows.
        hears: the language they are in.
    """
    found: dict[str, Fact] = {}
    for question in questions:
        alone = meant(question, facts, hears)
        for fact in _named(question, facts, hears) or (alone if len(alone) == 1 else []):
            found[fact.name] = fact
    if not found and hears.has("identity", " ".join(questions)):
        found = {f.name: f for f in facts if _is_identity(f.name)}
    return list(found.values())


def _is_identity(name: str) -> bool:
    """Return whether a fact tells who the user is: their own name or address."""
    return name.startswith("user.") and name.endswith(("name", "email"))


def _named(question: str, facts: Sequence[Fact], hears: Hearing) -> list[Fact]:
    """Return the facts whose whole label is in the question, the longest labels first."""
    left = Counter(hears.words(question))
    found: list[Fact] = []
    for fact in sorted(facts, key=lambda f: -len(hears.words(f.label))):
        label = Counter(hears.words(fact.label))
        if _of_something_else(question, fact, hears):
            continue
        # Words are used up: "name of the box" does not ask for "name" as well.
        if label and label <= left:
            if not any(other.label == fact.label for other in found):
                left -= label
            found.append(fact)
    return found


def _of_something_else(question: str, fact: Fact, hears: Hearing) -> bool:
    """Return whether `name` stands in "the name of the book", which is another fact."""
    words = hears.head(fact.label).split()
    owner = hears.owner(words[-1], question) if words else None
    return owner is not None and owner.lower() not in fact.label.lower().split()


def meant(question: str, facts: Sequence[Fact], hears: Hearing) -> list[Fact]:
    """Return the facts whose head word is in the question: `size` for `size of the box`.

    Args:
        question: a sentence of an agent.
        facts: what the user knows.
        hears: the language it is in.
    """
    said = set(hears.words(question))
    best = 0
    found: list[Fact] = []
    for fact in facts:
        label = hears.words(fact.label)
        head = hears.words(hears.head(fact.label))[-1:]
        if _of_something_else(question, fact, hears):
            continue
        score = len(said.intersection(label))
        if head and head[0] in said and score >= best:
            found = [*found, fact] if score == best else [fact]
            best = score
    return found
