"""JSON as models write it: read strictly, mended only where a fault has exactly one meaning.

Strict means: no NaN, no repeated key, no lone surrogate, nothing nested deeper than `DEEPEST`, no
number that Python could not read back. What is accepted here, every later reader accepts. Time is
linear in the text, whatever the text is.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from json.decoder import JSONDecodeError, JSONDecoder
from typing import Any

DEEPEST = 64
"""Levels of nesting. Python's own limit depends on the caller's stack; validators stop at 900."""
_LONGEST_NUMBER = 4300
"""Digits; Python refuses longer integers, because reading them takes quadratic time."""

SPACE = " \t\n\r"
_BLANK = SPACE + "\ufeff"
# Possessive, and an open string runs to the end: no text is looked at twice.
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'
_LEXEMES = re.compile(rf"{_STRING}|[{{}}\[\]]", re.DOTALL)
_MENDABLE = re.compile(
    rf"(?P<string>{_STRING})|[{{\[:,][ \t\n\r]*+,|(?P<comma>,(?=[ \t\n\r]*+[}}\]]))", re.DOTALL
)
_ESCAPED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_CLOSES = {"}": "{", "]": "["}


class Unreadable(ValueError):
    """Text that is not strict JSON, nor can be mended into it."""

    def __init__(self, what: str, *, cut: bool) -> None:
        super().__init__(what)
        self.cut = cut
        """The text ends before the value does."""


def is_blank(text: str) -> bool:
    """Say whether `text` holds nothing but white space and byte order marks."""
    return not text.replace("\ufeff", "").strip()


def skip_space(text: str, position: int) -> int:
    """Return the first position from `position` on that is no JSON white space."""
    while position < len(text) and text[position] in SPACE:
        position += 1
    return position


# --- strict ----------------------------------------------------------------------------------


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a key is repeated")
    return out


def _integer(text: str) -> int:
    if len(text) > _LONGEST_NUMBER:
        raise ValueError(f"a number of {len(text)} digits")
    return int(text)


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"the number {text[:20]} is out of range")
    return value


_DECODER = JSONDecoder(
    object_pairs_hook=_no_repeats,
    parse_constant=_no_constant,
    parse_int=_integer,
    parse_float=_float,
)
_ANY_JSON = JSONDecoder(strict=False, parse_int=str, parse_float=str, parse_constant=str)


_WINDOW = 4096
_LONGEST_TOKEN = 16


def _decode(decoder: JSONDecoder, text: str, start: int) -> tuple[Any, int]:
    """Decode the value at `start`; return it and where it ends.

    An error of the decoder costs time in proportion to all the text before it (it counts lines),
    so a reply with many errors would take quadratic time. The text is shown to it in small parts,
    and as a whole only where a part may have been too small.
    """
    window = text[start : start + _WINDOW]
    whole = len(window) < _WINDOW
    try:
        value, length = decoder.raw_decode(window)
        if whole or length < _WINDOW:
            return value, start + length
    except JSONDecodeError as error:
        late = error.pos >= _WINDOW - _LONGEST_TOKEN or error.msg.startswith("Unterminated")
        if whole or not late:
            raise
    value, length = decoder.raw_decode(text[start:])
    return value, start + length


def value_at(text: str, start: int) -> tuple[Any, int, int]:
    """Read the JSON value that begins at `start`, spaces skipped.

    Returns:
        The value, where it begins, where it ends.

    Raises:
        ValueError: not strict JSON.
    """
    start = skip_space(text, start)
    try:
        value, end = _decode(_DECODER, text, start)
        written = text[start:end]
        written.encode()
        _check_depth(written)
        if "\\u" in written:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate") from None
    return value, start, end


def _check_depth(text: str) -> None:
    if text.count("{") + text.count("[") <= DEEPEST:
        return
    depth = 0
    for lexeme in _LEXEMES.finditer(text):
        mark = lexeme[0]
        if mark in "{[":
            depth += 1
            if depth > DEEPEST:
                raise ValueError("nested too deeply")
        elif mark in "}]":
            depth -= 1


def members_of(value: Mapping[str, Any], text: str) -> dict[str, str]:
    """Return the exact text of each member of the object `value`, whose strict JSON is `text`."""
    texts: dict[str, str] = {}
    position = text.index("{") + 1
    for key in value:
        _, position = _ANY_JSON.raw_decode(text, skip_space(text, position))
        begin = skip_space(text, text.index(":", position) + 1)
        _, position = _ANY_JSON.raw_decode(text, begin)
        texts[key] = text[begin:position]
        position = skip_space(text, position) + 1
    return texts


def items_of(values: Sequence[Any], text: str) -> list[str]:
    """Return the exact text of each item of the list `values`, whose strict JSON is `text`."""
    out = []
    position = text.index("[") + 1
    for _ in values:
        begin = skip_space(text, position)
        _, position = _ANY_JSON.raw_decode(text, begin)
        out.append(text[begin:position])
        position = skip_space(text, position) + 1
    return out


def foreign_end(text: str, start: int) -> tuple[int | None, int]:
    """Find the end of a JSON value that means nothing to us; NaN and repeated keys may be in it.

    Returns:
        Where it ends (None: it is no JSON) and how many characters were read to find out.

    Raises:
        Unreadable: brackets nested by the hundred.
    """
    try:
        _, end = _decode(_ANY_JSON, text, start)
    except JSONDecodeError as error:
        return None, error.pos
    except RecursionError:
        raise Unreadable("nested too deeply", cut=False) from None
    return end, end - start


# --- mended ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Value:
    """A JSON value of a reply."""

    value: Any
    text: str
    """Strict JSON: as written where it was strict, mended where it was not."""
    end: int
    """Where it ends in the text it was read from."""


def read_value(text: str, start: int, repairs: list[str]) -> Value:
    """Read the JSON value that begins at `start`, spaces skipped.

    Mended, and noted in `repairs`: a comma before a closing bracket (`trailing_comma`), a line
    break or tab inside a string (`unescaped_newline`).

    Raises:
        Unreadable: not JSON.
    """
    start = skip_space(text, start)
    try:
        value, start, stop = value_at(text, start)
        return Value(value, text[start:stop], stop)
    except ValueError as error:
        end = extent(text, start)
        if end is None:
            cut = start >= len(text) or text[start] in "{["
            raise Unreadable(str(error), cut=cut) from None
        mended, notes = _mended(text[start:end])
        try:
            value, _, stop = value_at(mended, 0)
        except ValueError as second:
            raise Unreadable(str(second), cut=False) from None
        if not notes or stop != len(mended):
            raise Unreadable(str(error), cut=False) from None
        repairs += notes
        return Value(value, mended, end)


def extent(text: str, start: int) -> int | None:
    """Return where the bracket at `start` is closed; None if it never is, or is no bracket."""
    if start >= len(text) or text[start] not in "{[":
        return None
    opened: list[str] = []
    for lexeme in _LEXEMES.finditer(text, start):
        mark = lexeme[0]
        if mark in "{[":
            opened.append(mark)
        elif mark in _CLOSES:
            if opened.pop() != _CLOSES[mark]:
                return lexeme.end()
            if not opened:
                return lexeme.end()
    return None


def _mended(text: str) -> tuple[str, list[str]]:
    notes: list[str] = []

    def mend(match: re.Match[str]) -> str:
        if match["comma"]:
            notes.append("trailing_comma")
            return ""
        string = match[0]
        if match["string"] and not string.isprintable():
            escaped = "".join(_ESCAPED.get(character, character) for character in string)
            if escaped != string:
                notes.append("unescaped_newline")
            return escaped
        return string

    return _MENDABLE.sub(mend, text), notes
