"""How what an agent states is read: denied, guessed at, claimed as done, answered with a yes.

The patterns of a language are data, `voices/LANGUAGE/judged.yaml`. All languages are read at once:
an agent may fall back into another one, and what one denies none of the others affirms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from synth.core.errors import BadInput
from synth.core.hearing import languages

_FOLDER = Path(__file__).parent / "voices"

STATEMENTS = frozenset({
    "clause", "denies", "bounds", "guesses", "conditions", "denied_after", "or_after", "deeds",
    "no_deeds", "affirms", "negates", "switched_off", "doubts", "nothing",
})  # fmt: skip
"""Kinds of pattern that every language has; `en/judged.yaml` says what each is for."""


@cache
def reading(kind: str) -> re.Pattern[str]:
    """Return what finds a kind of statement in any language.

    Args:
        kind: one of `STATEMENTS`.

    Raises:
        BadInput: a language lacks it.
    """
    texts = [text for name in languages() for text in _data(name)[kind]]
    return re.compile("|".join(f"(?:{text})" for text in texts), re.I | re.M)


@cache
def _data(language: str) -> Mapping[str, list[str]]:
    text = (_FOLDER / language / "judged.yaml").read_text(encoding="utf-8")
    return checked(yaml.safe_load(text), f"{language}/judged.yaml")


def checked(data: Any, where: str) -> Mapping[str, list[str]]:
    """Return the parsed file of a language, which has every kind and nothing else.

    Raises:
        BadInput: it lacks a kind, or has one that nobody asks for.
    """
    kinds = set(data) if isinstance(data, dict) else set()
    if odd := kinds ^ STATEMENTS:
        raise BadInput(f"missing, or nobody's: {', '.join(sorted(odd))}", where=where)
    found: Mapping[str, list[str]] = data
    return found
