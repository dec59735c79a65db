"""From JSON to calls, and from the parts of a reply to its outcome: what all families share.

A deviation is accepted when it has exactly one meaning, and then it is noted:

| repair | what was written |
|---|---|
| `arguments_as_text` | the object of arguments as a JSON string |
| `no_arguments` | no arguments, null or an empty text, for a call without any |
| `parameters_key`, `arguments_key` | the other family's key |
| `openai_wrapper` | the call inside `{"function": …}` or `{"tool_calls": […]}` |
| `list_of_calls`, `calls_in_one_tag`, `separator` | several calls where one is usual |
| `extra_members` | members beside name and arguments; `Parsed.raw` has them |
| `code_fence`, `byte_order_mark` | something around a call that says nothing |
| `several_sections` | Kimi's section of calls, more than once |
| `stop_mark` | Llama's end of a message, after a call |
| `missing_close`, `missing_mark`, `no_prefix` | markup left out where nothing else can follow |
| `text_after_call` | words after a call; they are part of the content |
| `repeated_id` | two calls with one identifier; the second gets its own |
| `trailing_comma`, `unescaped_newline` | see `values.read_value` |
| `lone_surrogate` | in content, where U+FFFD stands for it now |
| `double_encoded` | see `arguments.fit_call` |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from synth.core.formats.base import Parsed, Problem
from synth.core.formats.values import (
    Unreadable,
    Value,
    is_blank,
    items_of,
    members_of,
    read_value,
)
from synth.core.types import ToolCall

MOST_CALLS = 1000
"""In one reply. A model that repeats itself for ever must not cost seconds to be read."""
_KEYS = frozenset({"arguments", "parameters"})
_LONE = re.compile("[\ud800-\udfff]")
_BESIDE = _KEYS | {"name", "id", "type", "index"}


class Broken(Exception):
    """Stops the reading of a reply; becomes its `Parsed.problem`."""

    def __init__(self, problem: Problem, detail: str) -> None:
        super().__init__(detail)
        self.problem, self.detail = problem, detail


@dataclass(frozen=True, slots=True)
class Call:
    """A call as read: `given` is its identifier in the text, empty where the text has none."""

    name: str
    arguments: str
    given: str = ""


def json_at(text: str, start: int, repairs: list[str], *, cut: bool | None = None) -> Value:
    """Read a value that must be there.

    Args:
        text: the reply.
        start: where the value begins, or spaces before it.
        repairs: gets what was mended.
        cut: whether the family's closing mark is missing; None lets the brackets say it.

    Raises:
        Broken: not JSON.
    """
    try:
        return read_value(text, start, repairs)
    except Unreadable as error:
        unclosed = error.cut if cut is None else cut
        raise Broken(Problem.UNCLOSED if unclosed else Problem.BROKEN_JSON, str(error)) from None


def calls_in(value: Value, repairs: list[str], key: str = "arguments") -> list[Call]:
    """Read a value that must be a call or a list of calls.

    Args:
        value: the value.
        repairs: gets what deviates.
        key: what the family calls the arguments.

    Raises:
        Broken: it is something else.
    """
    if isinstance(value.value, dict) and isinstance(value.value.get("tool_calls"), list):
        listed = members_of(value.value, value.text)["tool_calls"]
        repairs.append("openai_wrapper")
        return calls_in(Value(value.value["tool_calls"], listed, value.end), repairs, key)
    if not isinstance(value.value, list):
        return [_call(value.value, value.text, repairs, key)]
    if not value.value:
        raise Broken(Problem.NOT_A_CALL, "an empty list of calls")
    if len(value.value) > MOST_CALLS:
        raise Broken(Problem.TOO_MANY, f"a list of {len(value.value)} calls")
    texts = items_of(value.value, value.text)
    return [_call(*pair, repairs, key) for pair in zip(value.value, texts, strict=True)]


def add_calls(found: list[Call], more: Sequence[Call]) -> None:
    """Add to the calls found so far.

    Raises:
        Broken: there are more than anybody can mean.
    """
    found += more
    if len(found) > MOST_CALLS:
        raise Broken(Problem.TOO_MANY, f"more than {MOST_CALLS} calls")


def is_call(value: Any) -> bool:
    """Say whether a JSON value that stands in prose is meant as a call."""
    if not isinstance(value, dict):
        return False
    if "name" not in value and isinstance(value.get("function"), dict):
        value = value["function"]
    return "name" in value and not value.keys().isdisjoint(_KEYS) and not _declares(value)


def _declares(value: dict[str, Any]) -> bool:
    # A tool's declaration, said again by the model, has a schema where a call has arguments.
    return "description" in value and "arguments" not in value and "parameters" in value


def _call(value: Any, text: str, repairs: list[str], key: str) -> Call:
    if not isinstance(value, dict):
        raise Broken(Problem.NOT_A_CALL, f"an object is wanted, found {type(value).__name__}")
    values, texts = value, members_of(value, text)
    given = values.get("id")
    if "name" not in values and isinstance(values.get("function"), dict):
        repairs.append("openai_wrapper")
        if values.keys() - _BESIDE - {"function"}:
            repairs.append("extra_members")
        values, texts = values["function"], members_of(values["function"], texts["function"])
    name = values.get("name")
    if not isinstance(name, str) or not name.strip():
        raise Broken(Problem.BAD_NAME, f"the name is {str(name)[:80]!r}")
    if _declares(values):
        raise Broken(Problem.NOT_A_CALL, f"the declaration of {name!r}, not a call")
    if values.keys() - _BESIDE:
        repairs.append("extra_members")
    other = "parameters" if key == "arguments" else "arguments"
    if key in values and other in values:
        raise Broken(Problem.NOT_A_CALL, f"{name!r} has both arguments and parameters")
    if other in values:
        key = other
        repairs.append(f"{other}_key")
    arguments = arguments_of(values.get(key), texts.get(key, ""), repairs)
    return Call(name, arguments, given if isinstance(given, str) else "")


def arguments_of(value: Any, text: str, repairs: list[str]) -> str:
    """Return the text of an arguments object, from its value and text in the reply.

    Raises:
        Broken: something other than an object, and not an object written as text.
    """
    if isinstance(value, dict):
        return text
    if value is None or (isinstance(value, str) and is_blank(value)):
        repairs.append("no_arguments")
        return "{}"
    if not isinstance(value, str):
        kind = type(value).__name__
        raise Broken(Problem.NOT_A_CALL, f"arguments are {kind}, not an object")
    try:
        inner = read_value(value, 0, repairs)
    except Unreadable as error:
        raise Broken(Problem.BROKEN_JSON, f"arguments as text: {error}") from None
    if not is_blank(value[inner.end :]):
        raise Broken(Problem.BROKEN_JSON, "arguments as text: text after the object")
    if not isinstance(inner.value, dict):
        kind = type(inner.value).__name__
        raise Broken(Problem.NOT_A_CALL, f"arguments as text are {kind}, not an object")
    repairs.append("arguments_as_text")
    return inner.text


# --- the outcome of a reply ------------------------------------------------------------------

Reading = tuple[Sequence[str], Sequence[Call]]
"""The prose before, between and after the calls; the calls. Markup is in neither."""


def outcome(
    text: str,
    first_call: int,
    read: Callable[[str, list[str]], Reading],
    writable: Callable[[str, Sequence[Call]], bool],
) -> Parsed:
    """Turn one reply into its outcome.

    Args:
        text: what the model wrote.
        first_call: number of calls the conversation already has.
        read: the family's reader; gets the text and the list of repairs, raises `Broken`.
        writable: says whether content and calls, written, would be read as the same again.
    """
    text = _paired(text)
    raw = _escaped(text)
    repairs: list[str] = []
    try:
        said, found = read(text, repairs)
        content = _content(said, repairs) if found else text
        _check(content, found, writable)
    except Broken as broken:
        return Parsed(None, problem=broken.problem, detail=_escaped(broken.detail), raw=raw)
    if _is_odd(content):
        content = _LONE.sub("\ufffd", content)
        repairs.append("lone_surrogate")
    calls = _numbered(found, first_call, repairs)
    return Parsed(content or None, calls, repairs=tuple(dict.fromkeys(repairs)), raw=raw)


def reads_back(
    text: str,
    content: str,
    calls: Sequence[Call],
    read: Callable[[str, list[str]], Reading],
) -> bool:
    """Say whether `text` is read as this content and these calls, without a repair."""
    repairs: list[str] = []
    try:
        said, found = read(text, repairs)
    except Broken:
        return False
    wanted = [(call.name, call.arguments) for call in calls]
    if repairs or [(call.name, call.arguments) for call in found] != wanted:
        return False
    return (_content(said, repairs) if found else text) == content and not repairs


def _check(
    content: str, found: Sequence[Call], writable: Callable[[str, Sequence[Call]], bool]
) -> None:
    if not found and is_blank(content):
        raise Broken(Problem.EMPTY, "neither text nor a call")
    for call in found:
        if _is_odd(call.name + call.given):
            raise Broken(Problem.BAD_NAME, f"a lone surrogate in {call.name!r}")
    if found and content and not writable(content, found):
        raise Broken(Problem.UNCLOSED, "the text around the calls is markup itself")


def _escaped(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()


def _paired(text: str) -> str:
    """Make one character of each pair of surrogates; servers cut pairs in two when streaming."""
    if not _is_odd(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _is_odd(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _content(said: Sequence[str], repairs: list[str]) -> str:
    kept = [part for part in said if not is_blank(part)]
    if any("\ufeff" in part for part in said if is_blank(part)):
        repairs.append("byte_order_mark")
    if any(not is_blank(part) for part in said[1:]):
        repairs.append("text_after_call")
    return "".join(kept)


def _numbered(found: Sequence[Call], first: int, repairs: list[str]) -> tuple[ToolCall, ...]:
    taken = {call.given for call in found}
    used: set[str] = set()
    out = []
    for number, call in enumerate(found, first):
        identifier = call.given
        if identifier in used:
            repairs.append("repeated_id")
            identifier = ""
        if not identifier:
            identifier = f"call_{number}"
            while identifier in taken:
                identifier += "_"
            taken.add(identifier)
        used.add(identifier)
        out.append(ToolCall(id=identifier, name=call.name, arguments=call.arguments))
    return tuple(out)
