"""What agents and users say of things that the user is to do, and how they understand it.

The words of a language are data, `voices/LANGUAGE/acts.yaml`: a grammar as voices have (`voices`),
and patterns of a request and of an excuse. Which act is meant is told by the words of the act.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from synth.core.errors import BadInput, UnknownName
from synth.core.hearing import Hearing, hearing, languages
from synth.core.types import Act
from synth.core.voices import Voice

_FOLDER = Path(__file__).parent / "voices"
SYMBOLS = frozenset({"ask", "ask_read", "done", "read", "shows", "failed", "missing", "again"})
"""What every language can say."""
NAMED = 0.5
"""Share of an act's own words (its things left out) in which it is recognised."""
_STEM = 4


class Acting:
    """How one language speaks of acts.

    Args:
        language: its name.
        data: the parsed `acts.yaml`.

    Raises:
        BadInput: something is missing.
    """

    def __init__(self, language: str, data: Mapping[str, Any]) -> None:
        where = f"{language}/acts.yaml"
        if missing := {"asks", "excuse", "said"} - set(data):
            raise BadInput(f"parts are missing: {', '.join(sorted(missing))}", where=where)
        if silent := SYMBOLS - set(data["said"]):
            raise BadInput(f"symbols are missing: {', '.join(sorted(silent))}", where=where)
        self._asks, self._excuse = _pattern(data["asks"]), _pattern(data["excuse"])
        self._grammar = Voice(where, data["said"])
        self._hears: Hearing = hearing(language)

    def say(self, symbol: str, rng: random.Random, **fields: str) -> str:
        """Return one way to say `symbol`; every field the alternative uses must be given."""
        return self._grammar.say(symbol, rng, **fields)

    def excuses(self, text: str) -> bool:
        """Say whether a user's words tell that it did not work."""
        return self._excuse.search(text) is not None

    def named(self, act: Act, text: str) -> bool:
        """Say whether a text names an act: half of its own words, and every thing it is done to."""
        stems = self._stems(text)
        own, things = self._parts(act)
        return things <= stems and len(own & stems) >= NAMED * len(own)

    def meant(self, acts: Sequence[Act], heard: str, before: Sequence[str] = ()) -> list[Act]:
        """Return the act that an agent asks for: one, several that it may mean, or none.

        Args:
            acts: what the user can do.
            heard: what the agent said.
            before: what both sides said earlier: a thing may be called `it` by now.
        """
        if not self.asks(heard):
            return []
        stems = self._stems(heard)
        named = [act for act in acts if self.named(act, heard)]
        if named:
            most = max(len(self._stems(act.words) & stems) for act in named)
            return [act for act in named if len(self._stems(act.words) & stems) == most]
        context = stems.union(*map(self._stems, before))
        open_ones = []
        for act in acts:
            own, things = self._parts(act)
            if things and things.isdisjoint(stems) and things <= context:
                open_ones += [act] if len(own & stems) >= NAMED * len(own) else []
        return open_ones

    def asks(self, text: str) -> bool:
        """Say whether a text asks somebody to do something."""
        return self._asks.search(text) is not None

    def touches(self, acts: Iterable[Act], heard: str) -> bool:
        """Say whether a request is for something of the kind of these acts, whatever the thing."""
        stems = self._stems(heard)
        parts = (self._parts(act)[0] for act in acts)
        return self.asks(heard) and any(len(own & stems) >= NAMED * len(own) for own in parts)

    def _parts(self, act: Act) -> tuple[frozenset[str], frozenset[str]]:
        """Return the stems of the act itself, and of the things it is done to."""
        values = (v for v in act.arguments.values() if isinstance(v, str))
        things = frozenset[str]().union(*map(self._stems, values)) & self._stems(act.words)
        return self._stems(act.words) - things, things

    def _stems(self, text: str) -> frozenset[str]:
        # "Plugged in" is "plug in", and "battery" is one of the "batteries".
        return frozenset(word[:_STEM] for word in self._hears.words(text))


def _pattern(alternatives: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{text})" for text in alternatives), re.I)


@cache
def acting(language: str = "en") -> Acting:
    """Return how a language speaks of acts.

    Raises:
        UnknownName: nobody can be asked in it.
        BadInput: its file is broken.
    """
    if language not in languages():
        raise UnknownName("language", language, languages())
    text = (_FOLDER / language / "acts.yaml").read_text(encoding="utf-8")
    return Acting(language, yaml.safe_load(text))
