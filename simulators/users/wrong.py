"""What a user must not agree to: a proposal that has other values than theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from synth.core.hearing import Hearing
from synth.core.invented import amounts
from synth.core.types import Fact

_QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”|„([^“]+)“|«\s*([^»]+?)\s*»|《([^》]+)》')
_NOT_CHINESE = r"[^\W\u3400-\u9fff]"
"""A character of a word, where words are parted."""
_VALUE = re.compile(rf"(?:{_NOT_CHINESE}|[.@+:-])*(?:{_NOT_CHINESE}|@)")
_THOUSANDS = re.compile(r"(?<=\d)[\u00a0\u202f](?=\d{3})")


def wrong_fact(
    heard: str, facts: Sequence[Fact], clauses: Sequence[str], hears: Hearing
) -> Fact | None:
    """Return a fact that an agent has wrong: another value stands beside its label.

    Args:
        heard: what the agent says.
        facts: what the user knows.
        clauses: what they want; values in them are no mistakes.
        hears: the language of all of these.
    """
    wished = {
        value.casefold()
        for clause in clauses
        for value in (*_VALUE.findall(clause), *_quotes(clause))
    }
    for fact in facts:
        # Two payees have two IBANs: a value is wrong if it is that of none of them.
        head = hears.head(fact.label)
        alike = [other for other in facts if hears.head(other.label) == head]
        for value in _beside(heard, fact.label, hears):
            if value.casefold() not in wished and not any(_agrees(value, f) for f in alike):
                return fact
    return None


def _beside(heard: str, label: str, hears: Hearing) -> Iterator[str]:
    """Yield the values that are put right behind a label: `the size of the box is L`."""
    if label.lower() not in heard.lower():
        return  # compiling a pattern for each label takes longer than all the rest
    joints = "|".join(rf"[ \u00a0]?{re.escape(word)}" for word in hears.copula)
    pattern = (
        rf"(?<!{_NOT_CHINESE}){re.escape(label)}(?!{_NOT_CHINESE})(?:{joints})?"
        rf"[ \u00a0]?[:：=,，]?[ \u00a0]*(\"[^\"]+\"|“[^”]+”|{_VALUE.pattern})"
    )
    for match in re.finditer(pattern, heard, re.I):
        value = match[1].strip('"“”')
        # A plain word goes on with the sentence; figures, addresses, codes and sizes are values.
        marked = match[1][0] in '"“' or any(c.isdigit() or c in "@+" for c in value)
        if marked or (value.isupper() and len(value) <= 3):
            yield value


def _agrees(value: str, fact: Fact) -> bool:
    said = value.casefold()
    forms = (fact.spoken, str(fact.value))
    for text in (_THOUSANDS.sub("", form.casefold()) for form in forms):
        if said == text.strip('"') or said in _VALUE.findall(text):
            return True
        # 12,50 for 12.50 EUR; 03.03.2026 for 2026-03-03
        if any(c.isdigit() for c in said) and _figures(said) == _figures(text):
            return True
    return False


def _figures(text: str) -> list[int]:
    plain = _THOUSANDS.sub("", text)
    return sorted(int(digits) for digits in re.findall(r"[0-9]{1,15}", plain))


def _quotes(text: str) -> list[str]:
    return [next(filter(None, groups)) for groups in _QUOTED.findall(text)]


def other_values(heard: str, own: Sequence[str], hears: Hearing) -> bool:
    """Return whether quoted names or amounts of a unit are all others than the user's.

    Args:
        heard: what the agent says.
        own: texts that hold the user's values.
        hears: the language of both.
    """
    mine = "\n".join(own)
    quoted, my_quoted = set(_quotes(heard)), set(_quotes(mine))
    if quoted and my_quoted and not quoted & my_quoted:
        return True
    theirs, own_amounts = amounts(heard, hears), amounts(mine, hears)
    return any(
        not set(numbers) & set(own_amounts[unit])
        for unit, numbers in theirs.items()
        if unit in own_amounts
    )
