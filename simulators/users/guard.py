"""Which messages no user writes: notes to self, the other side's words, values made up.

Simulated users are a large part of failed episodes (tau2-bench #392). Each kind has a name, which
the report of an episode carries: `leak`, `role`, `invented`, `untold`, `empty`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from synth.core.hearing import Hearing, hearing
from synth.core.invented import Known, squeeze
from synth.core.prompts import prompts
from synth.core.protocols import UserView
from synth.core.types import Persona

PROMPTS = "simulators.users.prompts"
_WORD = re.compile(r"[^\W_]+")
_ITEM = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+(.+)$", re.M)
_RUN = 6
"""Words in a row that nobody has in common with the instructions by chance."""
_LISTED = 2
"""Items of a list in the form of the instructions that are no coincidence."""


def problem(raw: str, text: str, *, done: bool, view: UserView) -> str:
    """Say why a message cannot be delivered, its kind first; empty if it can.

    Args:
        raw: what the model wrote, thoughts and stop token left out.
        text: the same on one line.
        done: whether it wants to end.
        view: what the user may know.
    """
    if not text and not (done and view.messages):
        return "empty: said nothing"
    hears = hearing(view.persona.language)
    if recites(raw, view, hears):
        return "leak: talked about its instructions"
    if _has("agent_like", text, hears):
        return "role: took the agent's role"
    made_up = next(known(view).invented(text), None)
    return f"invented: nobody told it {made_up!r}" if made_up else ""


def _has(kind: str, text: str, hears: Hearing) -> bool:
    """Models fall back into English whatever language they are to speak."""
    return hears.has(kind, text) or (hears.language != "en" and hearing("en").has(kind, text))


def known(view: UserView) -> Known:
    """Return what the user of a view may have from somewhere.

    Args:
        view: their mind, and the words of both sides.
    """
    facts = [str(part) for fact in view.facts for part in (fact.value, fact.spoken)]
    said = [message.content or "" for message in view.messages]
    acts = [act.words for act in view.acts]
    return Known([*facts, *view.clauses, view.retracted, *acts, *said, view.persona.name])


def recites(raw: str, view: UserView, hears: Hearing) -> bool:
    """Say whether a message talks of the role, quotes the instructions or copies their list.

    Args:
        raw: the message with its lines.
        view: what the user may know.
        hears: the language of the persona.
    """
    if _has("leak", raw, hears) or not _runs(raw).isdisjoint(_instructions()):
        return True
    own = {squeeze(clause) for clause in view.clauses}
    own |= {squeeze(f"{fact.label}: {fact.spoken}") for fact in view.facts}
    own |= {squeeze(f"to {clause}") for clause in view.clauses}
    items = [squeeze(item) for item in _ITEM.findall(raw)]
    return sum(item in own for item in items) >= _LISTED


def untold(text: str, view: UserView) -> str:
    """Say what a first message should have stated and does not; empty if it has all.

    Args:
        text: the message.
        view: whose opening is meant.
    """
    if view.messages:
        return ""
    said = squeeze(text)
    for fact in view.opening:
        if not any(squeeze(form) in said for form in (fact.spoken, str(fact.value))):
            return f"untold: left out the {fact.label}"
    return ""


@cache
def _instructions() -> frozenset[tuple[str, ...]]:
    """Return the runs of words of the user's prompt, all that is filled in left out."""
    nobody = Persona(name="", voice="")
    text = prompts(PROMPTS).render(
        "user", persona=nobody, clauses=(), facts=(), opening=(), retracted="", acts=(), stop=""
    )
    return frozenset(_runs(text))


def _runs(text: str) -> set[tuple[str, ...]]:
    words: list[str] = _WORD.findall(text.casefold())
    return set(_grams(words))


def _grams(words: list[str]) -> Iterable[tuple[str, ...]]:
    return (tuple(words[i : i + _RUN]) for i in range(len(words) - _RUN + 1))
