"""Whether the agent told the user a value: compared by type, stated once and for all, and known.

A value counts where a sentence affirms it (`synth.judge.wording`) and a result, the user or the
system prompt held it before. Answers that pass by breadth fail: too many other values of the type
in the sentence or message, values that nobody gave, alternatives of the question affirmed side by
side, and two answers told of each other's subject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal

from synth.core.speech import EXPONENT
from synth.core.types import OutputValue
from synth.judge.evidence import Evidence, quote
from synth.judge.values import (
    Found,
    at_token,
    clock,
    kind_of,
    number_words,
    scan,
    tells,
)
from synth.judge.wording import segment, stated
from synth.judge.yesno import nothing, yes_or_no

SENTENCE_EXTRAS = 3
MESSAGE_EXTRAS = 8
"""Other values of the type that a sentence and a message may hold."""
GUESSES = {"number": 2}
"""Values of a type that no source holds which a message may have: an agent may count."""
UNKNOWN = "told, but nothing the agent had read holds it"
COMMON = 12
"""Whole numbers up to this occur in results by chance."""
Span = tuple[int, int]


class Telling:
    """Checks one output criterion.

    Args:
        values: everything the criterion wants told.
        evidence: of the trajectory.
    """

    def __init__(self, values: Sequence[OutputValue], evidence: Evidence) -> None:
        self._values, self._evidence = values, evidence
        self._words: dict[str, list[Found]] = {}

    def problem(self) -> str | None:
        """Return why the criterion is not met, or None."""
        for output in self._values:
            problem = self._missing(output)
            if problem is not None:
                return f"{output.label}: {problem}"
        return self._crossed()

    def told(self) -> str:
        """Return the first sentence that told something, for evidence."""
        for _, text in reversed(self._evidence.told):
            for output in self._values:
                for start, end in self._places(output, text):
                    left, right = segment(text, start, end)
                    return quote(text[left:right])
        return ""

    def _missing(self, output: OutputValue) -> str | None:
        if output.type == "boolean" or output.value is None:
            problem = (nothing if output.value is None else yes_or_no)(output, self._evidence)
            known = problem is None and self._known(output, self._evidence.told[-1][0])
            return UNKNOWN if problem is None and not known else problem
        reason = "not told"
        for index, text in reversed(self._evidence.told):
            for start, end in self._places(output, text):
                if not stated(text, start, end):
                    reason = f"not affirmed in {quote(text)!r}"
                elif not self._known(output, index):
                    return UNKNOWN
                else:
                    return self._broad(output, text, (start, end), index)
        return reason

    def _places(self, output: OutputValue, text: str) -> Iterator[Span]:
        """Yield where a text has the value."""
        if kind_of(output) == "text":
            yield from text_places(text, str(output.value), output.label)
            return
        hidden = _without_label(text, output.label)
        values = self._found(hidden, kind_of(output))
        for found in values:
            if tells(found, output) and (
                output.type != "datetime" or self._time_beside(hidden, found, output)
            ):
                yield found.start, found.end

    def _found(self, text: str, kind: str) -> list[Found]:
        if kind not in ("number", "time"):
            return list(scan(text))
        if text not in self._words:
            found = [*scan(text), *number_words(text)]
            self._words[text] = sorted(found, key=lambda f: f.start)
        return self._words[text]

    def _time_beside(self, text: str, date: Found, output: OutputValue) -> bool:
        left, right = segment(text, date.start, date.end)
        wanted = clock(str(output.value))
        times = [f.value for f in self._found(text, "time") if f.kind == "time"
                 and left <= f.start < right]  # fmt: skip
        return wanted in times or (wanted == (0, 0) and not times)

    def _known(self, output: OutputValue, index: int) -> bool:
        """Return whether something read before message `index` holds the value."""
        value = output.value
        if _is_common(output) and self._evidence.results:
            amount = output.type == "money"
            return self._evidence.named(value, output.label, index, amount=amount)
        if any(self._evidence.holds(form, index, prompt=False) for form in _forms(output)):
            return True
        if kind_of(output) == "text":
            return self._evidence.composed(str(value), index, prompt=False)
        return any(
            tells(found, output)
            for text in self._evidence.before(index, prompt=False)
            for found in self._found(text, kind_of(output))
        )

    def _broad(self, output: OutputValue, text: str, at: Span, index: int) -> str | None:
        """Return why a statement is too broad to be an answer, or None."""
        if kind_of(output) == "text":
            return self._sibling(output, text, at)
        others = self._others(output, _without_label(text, output.label))
        left, right = segment(text, *at)
        inside = {found.value for found in others if left <= found.start < right}
        values = {found.value for found in others}
        if len(inside) > SENTENCE_EXTRAS or len(values) > MESSAGE_EXTRAS:
            return f"one of {len(values) + 1} values of its type in {quote(text)!r}"
        later = [
            (found, told)
            for after, told in self._evidence.told
            if after > index
            for found in self._others(output, _without_label(told, output.label))
        ]
        said = [*((found, text) for found in others), *later]
        guesses = {f.value for f, told in said if not self._read(f, told, index)}
        if len(guesses) > GUESSES.get(kind_of(output), 0):
            return f"beside values that nothing read holds in {quote(text)!r}"
        return None

    def _others(self, output: OutputValue, text: str) -> list[Found]:
        """Return the other values of the type in a text, those also wanted left out."""
        kind = kind_of(output)
        wanted = [other for other in self._values if kind_of(other) == kind]
        return [
            found
            for found in self._found(text, kind)
            if found.kind == kind and not any(tells(found, other) for other in wanted)
        ]

    def _read(self, found: Found, text: str, index: int) -> bool:
        written = text[found.start : found.end]
        if any(self._evidence.holds(form, index) for form in (written, *_written(found))):
            return True
        return any(
            other.kind == found.kind and _alike(found.value, other.value)
            for source in self._evidence.before(index)
            for other in scan(source)
        )

    def _sibling(self, output: OutputValue, text: str, at: Span) -> str | None:
        """Find other texts of the same kind affirmed in the same breath."""
        value = str(output.value)
        wanted = {str(other.value).casefold() for other in self._values}
        asked = _alternatives(value, self._evidence.user) - wanted
        left, right = segment(text, *at)
        others: list[str] = []
        for other in sorted(asked | self._evidence.siblings(value)):
            if other.casefold() in wanted or value.casefold() in other.casefold():
                continue
            places = [p for p in text_places(text, other, output.label) if stated(text, *p)]
            inside = any(left <= start < right for start, _ in places)
            if other in asked and inside:
                return f"{other!r} is affirmed beside it in {quote(text)!r}"
            if places:
                others.append(other)
        if len(others) > SENTENCE_EXTRAS + len(self._values):
            return f"one of {len(others) + 1} values like it in {quote(text)!r}"
        return None

    def _crossed(self) -> str | None:
        """Return which answers were told of each other's subject, or None.

        Within a sentence that names as many subjects as it tells values, their order decides.
        """
        subjects = _subjects(self._values)
        if not subjects:
            return None
        for _, text in self._evidence.told:
            named: dict[Span, list[tuple[int, int]]] = {}
            valued: dict[Span, list[tuple[int, int]]] = {}
            for number, output in enumerate(self._values):
                for start in _named(text, subjects.get(number, ())):
                    named.setdefault(segment(text, start, start + 1), []).append((start, number))
                for place in self._places(output, text):
                    valued.setdefault(segment(text, *place), []).append((place[0], number))
            for bounds in named.keys() & valued.keys():
                problem = self._order(named[bounds], valued[bounds])
                if problem is not None:
                    return f"{problem} in {quote(text[slice(*bounds)])!r}"
        return None

    def _order(self, named: list[tuple[int, int]], valued: list[tuple[int, int]]) -> str | None:
        names = list(dict.fromkeys(number for _, number in sorted(named)))
        values = list(dict.fromkeys(number for _, number in sorted(valued)))
        if len(names) != len(values):
            return None
        for name, value in zip(names, values, strict=True):
            one, two = self._values[name], self._values[value]
            if kind_of(one) == kind_of(two) and one.value != two.value:
                return f"the value of {two.label!r} is told of {one.label!r}"
        return None


# --- texts -----------------------------------------------------------------------------------


def text_places(text: str, value: str, label: str) -> Iterator[Span]:
    """Yield where a text output stands as whole tokens; case counts in one or two letters."""
    hidden = _without_label(text, label)
    plain = " ".join(value.split())
    if len(plain) > 2:
        hidden, plain = hidden.casefold(), plain.casefold()
    if not plain or len(hidden) != len(text):
        return
    for form in dict.fromkeys((plain, plain.replace("_", " "), plain.rstrip("."))):
        places = at_token(hidden, form) if form else []
        yield from ((at, at + len(form)) for at in places)
        if places:
            return
    yield from _list_places(hidden, plain)
    yield from _figure_places(text, value)


def _list_places(text: str, value: str) -> Iterator[Span]:
    """`German, English` is also told as `English and German`."""
    parts = [part.strip() for part in value.split(",")]
    if len(parts) < 2 or any(len(part) < 2 for part in parts):
        return
    spans = [(at[0], at[0] + len(p)) for p in parts if (at := at_token(text, p))]
    if len(spans) == len(parts):
        bounds = {segment(text, *span) for span in spans}
        if len(bounds) == 1:
            yield min(spans)[0], max(spans)[1]


_PHONE = re.compile(r"\+?\d[\d\s()/-]{5,}\d")


def _figure_places(text: str, value: str) -> Iterator[Span]:
    """A telephone number is the same with other spaces."""
    digits = re.sub(r"[\s()/-]", "", value)
    if not _PHONE.fullmatch(value):
        return
    for match in _PHONE.finditer(text):
        if re.sub(r"[\s()/-]", "", match[0]) == digits:
            yield match.span()


def _without_label(text: str, label: str) -> str:
    """Blank the label, whose own figures are no answer (`week 2`), keeping all positions."""
    if not any(c.isdigit() for c in label):
        return text
    return re.sub(re.escape(label), lambda m: " " * len(m[0]), text, flags=re.I)


_CHOICE = re.compile(r"[\w' -]+(?:, [\w' -]+)*,? or [\w' -]+", re.I)


def _alternatives(value: str, texts: Sequence[str]) -> set[str]:
    """Return what else a question offered: `paid` -> open, overdue for "open, paid or overdue"."""
    spoken = value.replace("_", " ").casefold()
    size = len(spoken.split())
    found: set[str] = set()
    for text in map(str.casefold, texts):
        # Without these there is nothing to find, and the pattern takes a millisecond to say so.
        if " or " not in text or spoken not in " ".join(text.split()):
            continue
        for match in _CHOICE.finditer(text):
            items = [item.split() for item in re.split(r", | or |,", match[0]) if item.strip()]
            # The question leads up to the first choice and may go on after the last one.
            choices = {" ".join(item) for item in items[1:]}
            choices |= {" ".join(items[0][-size:]), " ".join(items[-1][:size])}
            if spoken in choices:
                found |= {choice for choice in choices if choice != spoken and len(choice) > 1}
    return found


# --- subjects --------------------------------------------------------------------------------

_TOKEN = re.compile(r"[^\W_]{2,}")


def _subjects(values: Sequence[OutputValue]) -> dict[int, tuple[str, ...]]:
    """Return, for each output, the words of its label that no other label has."""
    labels = [set(_TOKEN.findall(output.label.casefold())) for output in values]
    if len(labels) < 2:
        return {}
    out = {}
    for number, words in enumerate(labels):
        rest = set().union(*(other for i, other in enumerate(labels) if i != number))
        if words - rest:
            out[number] = tuple(sorted(words - rest))
    return out if len(out) == len(labels) else {}


def _named(text: str, words: Sequence[str]) -> list[int]:
    folded = text.casefold()
    return [at for word in words for at in at_token(folded, word)]


def _is_common(output: OutputValue) -> bool:
    """Return whether results hold such a value by chance, so that its name has to fit as well."""
    value = output.value
    if isinstance(value, str):
        return len(value) <= 2
    return value is None or isinstance(value, bool) or abs(value) <= COMMON


# --- forms of a value ------------------------------------------------------------------------


def _forms(output: OutputValue) -> tuple[str, ...]:
    """Return how results and users write the value."""
    value = output.value
    if output.type == "money" and isinstance(value, int):
        exponent = EXPONENT.get(output.currency or "", 2)
        return (str(value), f"{Decimal(value).scaleb(-exponent):f}")
    text = str(value)
    if output.type == "datetime":
        return (text, text.replace("T", " "))
    return (text, text.replace("_", " "))


def _written(found: Found) -> Iterator[str]:
    if found.kind == "money" and isinstance(found.value[1], Decimal):
        yield f"{found.value[1].normalize():f}"
    elif found.kind == "date" and found.value[0] is not None:
        year, month, day = found.value
        yield f"{year}-{month:02}-{day:02}"


def _alike(one: tuple[object, ...], two: tuple[object, ...]) -> bool:
    """Dates without a year agree with those of any year."""
    return one == two or (
        len(one) == 3 and one[1:] == two[1:] and (one[0] is None or two[0] is None)
    )
