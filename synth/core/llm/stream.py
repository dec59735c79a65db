"""Replies that come in pieces: server-sent events, read by hand, and the deltas they carry.

Nothing here is shown while it arrives, so that the pieces are collected first and read once: how
the network cut them cannot matter. A stream costs about 100 µs a piece through the typed classes of
the `openai` package, 2 µs here.

Calls are the difficult part. Servers leave out ids, send a new id with every piece, use index 0 for
every call, or give neither: the rules of `Calls` tell a new call from the next piece of one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from synth.core.llm.reply import BadReply, load_json, said_by, usage_of
from synth.core.types import Usage

DONE = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\][ \t]*[\r\n]")
"""The mark that ends a stream; a connection may stay open behind it."""


def parse_stream(body: bytes, where: str) -> dict[str, Any]:
    """Put the pieces of a streamed reply together.

    Args:
        body: everything that came, whole or cut off.
        where: who it came from, for messages.

    Returns:
        The reply as if it had come in one piece; `read_reply` says whether it is one.

    Raises:
        BadReply: no stream, a broken event, an error event, or two replies in one stream.
    """
    whole = _Whole(where)
    try:
        for event in _events(body):
            if event.strip() == b"[DONE]":
                break
            whole.add(load_json(event, where))
    except BadReply as error:
        error.usage = _told(body)
        raise
    if not whole.events:  # servers that cannot stream send all at once
        return _unstreamed(body, where)
    return whole.reply()


def _events(body: bytes) -> Iterator[bytes]:
    """Yield the data of each event; comments, names and ids are of no use here."""
    data: list[bytes] = []
    for line in body.removeprefix(b"\xef\xbb\xbf").splitlines():
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []
    if data:  # the last line break was cut off: what it says is whole or no JSON
        yield b"\n".join(data)


def _told(body: bytes) -> Usage:
    """Return the tokens that any event tells: a reply of no use may cost all the same."""
    usage = Usage()
    for event in _events(body):
        if b'"usage"' in event:
            with suppress(BadReply):
                data = load_json(event, "")
                if isinstance(data, dict) and isinstance(data.get("usage"), dict):
                    usage = usage_of(data)
    return usage


def _unstreamed(body: bytes, where: str) -> dict[str, Any]:
    data = load_json(body, where)
    if not isinstance(data, dict):
        raise BadReply("the reply is no stream", where=where)
    return data


class _Whole:
    """A reply that grows."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.events = 0
        self.answered = False
        """Whether any event was a piece of a reply."""
        self.head: dict[str, Any] = {}
        self.identifier = ""
        self.finish: Any = None
        self.texts: dict[str, list[str]] = {}
        self.calls = Calls()
        self.logprobs: list[Any] = []

    def add(self, event: Any) -> None:
        """Take one event.

        Raises:
            BadReply: it is an error, no piece of a reply, or one of another reply.
        """
        self.events += 1
        if not isinstance(event, dict):
            raise BadReply("an event of the stream is not an object", where=self.where)
        if event.get("error"):
            what = f"the stream broke off with an error: {said_by(event['error'])}"
            raise BadReply(what, where=self.where, outcome="incomplete")
        for name in ("model", "usage"):  # the last one counts: some report usage as it grows
            if event.get(name):
                self.head[name] = event[name]
        choices = event.get("choices")
        if not isinstance(choices, list):
            return
        for choice in choices:
            if isinstance(choice, dict) and choice.get("index") in (0, None):
                self._check_origin(event.get("id"))
                self._add_choice(choice)

    def _check_origin(self, identifier: Any) -> None:
        if isinstance(identifier, str) and identifier:
            if self.identifier and identifier != self.identifier:
                raise BadReply("two replies in one stream", where=self.where)
            self.identifier = identifier

    def _add_choice(self, choice: dict[str, Any]) -> None:
        self.answered = True
        if choice.get("finish_reason"):
            self.finish = choice["finish_reason"]
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict) and isinstance(logprobs.get("content"), list):
            self.logprobs += logprobs["content"]
        delta = choice.get("delta") or choice.get("message")
        if not isinstance(delta, dict):
            return
        for name in ("content", "refusal", "reasoning_content", "reasoning"):
            text = delta.get(name)
            if isinstance(text, str) and text:
                self.texts.setdefault(name, []).append(text)
            elif text and name == "content":
                raise BadReply("the content is not text", where=self.where)
        calls = delta.get("tool_calls") or []
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            raise BadReply("a piece of a call is not an object", where=self.where)
        for call in calls:
            self.calls.add(call)

    def reply(self) -> dict[str, Any]:
        """Return it in the shape of a reply in one piece."""
        message: dict[str, Any] = {name: "".join(texts) for name, texts in self.texts.items()}
        message["tool_calls"] = self.calls.whole()
        choice = {"finish_reason": self.finish, "message": message}
        if self.logprobs:
            choice["logprobs"] = {"content": self.logprobs}
        return {**self.head, "choices": [choice] if self.answered else []}


class _Call:
    """A call that grows."""

    __slots__ = ("arguments", "identifier", "index", "name")

    def __init__(self, identifier: str, index: int | None) -> None:
        self.identifier, self.index = identifier, index
        self.name = ""
        self.arguments: list[str] = []

    def is_whole(self) -> bool:
        text = "".join(self.arguments).rstrip()
        if not text.endswith("}"):
            return False
        try:
            return isinstance(load_json(text.encode("utf-8", "surrogatepass"), ""), dict)
        except BadReply:
            return False


class Calls:
    """Calls, put together from deltas.

    A piece belongs to the call with its id; failing that, to the last call with its index, or to
    the last one at all if it has no index. It begins a new call where there is none, where it
    brings another name, or where that call's arguments are whole and others begin: so neither a new
    id in every piece nor one id or index for all calls glues or splits anything.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._by_id: dict[str, _Call] = {}
        self._by_index: dict[int, _Call] = {}

    def __len__(self) -> int:
        """Return how many calls there are so far."""
        return len(self._calls)

    def add(self, delta: dict[str, Any]) -> None:
        """Take one delta of `tool_calls`; what is of a wrong type in it is left out."""
        function = delta.get("function")
        function = function if isinstance(function, dict) else {}
        identifier, index = _text(delta.get("id")), delta.get("index")
        name, arguments = _text(function.get("name")), function.get("arguments")
        if isinstance(arguments, dict):  # a whole object at once
            arguments = json.dumps(arguments, ensure_ascii=False)
        arguments = _text(arguments)
        index = index if isinstance(index, int) else None
        call = self._by_id.get(identifier)
        if call is None or (name and index != call.index):  # or one id for all calls
            call = self._last() if index is None else self._by_index.get(index)
        if call is None or _is_new(call, identifier, name, arguments):
            call = _Call(identifier, index)
            self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
        if identifier:
            self._by_id[identifier] = call
            call.identifier = call.identifier or identifier
        if name != call.name:
            call.name += name
        if arguments:
            call.arguments.append(arguments)

    def _last(self) -> _Call | None:
        return self._calls[-1] if self._calls else None

    def whole(self) -> list[dict[str, Any]]:
        """Return the calls in the order in which they began."""
        return [
            {
                "id": call.identifier,
                "function": {"name": call.name, "arguments": "".join(call.arguments)},
            }
            for call in self._calls
        ]


def _is_new(call: _Call, identifier: str, name: str, arguments: str) -> bool:
    """Say whether a piece that would belong to `call` begins another one all the same."""
    opens = arguments.lstrip().startswith("{")
    if not name:  # a call without a name is none: this is the rest of one, under whatever id
        return opens and call.is_whole()
    if not call.name:
        return False
    if identifier and call.identifier and identifier != call.identifier:
        goes_on = name == call.name and arguments and call.arguments and not opens
        return not goes_on or call.is_whole()
    if name == call.name:
        return opens and call.is_whole()
    return bool(call.arguments or arguments)  # pieces of a name come without arguments


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
