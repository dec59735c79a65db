"""The journal of a run: every reply, written before it is used, found again by who asked for it.

A run that was killed asks for nothing twice: each call has an identity, `EPISODE/ROLE/N`, and an
episode that is played again meets the replies it had, in the same order, for as long as it asks the
same. Three kinds of row in `calls-*.jsonl`, one file a writer:

    {"crc": …, "call": …, "request": hash, "reply": {…}}     a reply
    {"crc": …, "asked": {…}}                       a request, before it is sent
    {"crc": …, "spent": {…}}                       what became of it, and its cost

A damaged row is left out and counted: what it held is asked for again. It costs the books nothing:
a request stands there twice, and either row of it counts alone. Only of a request that was under
way when a session was killed there is one row; if that very row is damaged, its cost is in no sum.
None is made up for it, since any other damaged row would then be a request that nobody sent.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zlib
from collections.abc import Container, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, cast

import orjson

from synth.core import jsonl
from synth.core.llm.ledger import UNSENT
from synth.core.protocols import LLM, ChatRequest, Reply
from synth.core.types import Message, ToolCall, Usage

_HEAD = len(b'{"crc":"01234567",')


def request_hash(request: ChatRequest, model: str = "") -> str:
    """Return the hash of everything that decides the reply: what is said, tools, sampler, model."""
    sampler = request.sampler
    whole = (
        model,
        request.messages,
        request.tools,
        (sampler.temperature, sampler.top_p, sampler.max_tokens, sampler.seed),
        request.response_format,
        request.top_logprobs,
    )
    try:
        data = orjson.dumps(whole)
    except TypeError:  # a lone surrogate, an integer beyond 64 bits, a mapping that is no dict
        data = json.dumps(whole, default=dict).encode()
    return hashlib.blake2b(data, digest_size=16).hexdigest()


class Journal:
    """The journal of one run folder.

    Args:
        folder: where the files are; every `calls-*.jsonl` is read, one is written.
        shard: number of the one to write.
        finished: episodes that will not be played again; their replies are not kept in memory.
    """

    def __init__(self, folder: Path, *, shard: int = 0, finished: Container[str] = ()) -> None:
        self.folder = folder
        self.replayed = 0
        """Replies of earlier sessions that were used again."""
        self.differed: dict[str, str] = {}
        """Calls whose reply of an earlier session could not be used -> why."""
        self.damaged = 0
        """Rows that could not be read."""
        self._replies: dict[str, dict[str, tuple[str, Any]]] = {}
        self._spent: list[dict[str, Any]] = []
        asked: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in self._rows():
            if "asked" in row:
                asked.setdefault(_request(row["asked"]), []).append(row["asked"])
            elif "spent" in row:
                if one := asked.get(_request(row["spent"])):
                    one.pop()
                if row["spent"]["status"] != UNSENT:
                    self._spent.append(row["spent"])
            elif (episode := row["call"].partition("/")[0]) not in finished:
                known = self._replies.setdefault(episode, {})
                known[row["call"]] = (row["request"], row["reply"])
        self._spent += chain.from_iterable(asked.values())  # under way when a session was killed
        self._file = jsonl.Appender(folder / f"calls-{shard}.jsonl")

    def _rows(self) -> Iterator[dict[str, Any]]:
        for path in sorted(self.folder.glob("calls-*.jsonl")):
            for _, line in jsonl.lines(path):
                row = _checked(line)
                if row is None:
                    self.damaged += 1
                else:
                    yield row

    def spent(self) -> list[dict[str, Any]]:
        """Return what earlier sessions spent, for `Ledger.restore`; forgets it."""
        spent, self._spent = self._spent, []
        return spent

    def announce(self, entry: Mapping[str, Any]) -> None:
        """Write that a request is about to be sent.

        Raises:
            DiskFull: nothing of it remains in the file.
        """
        self._write({"asked": entry})

    def log(self, entry: Mapping[str, Any]) -> None:
        """Write what a request cost.

        Raises:
            DiskFull: nothing of it remains in the file.
        """
        self._write({"spent": entry})

    def find(self, call: str, request: str) -> Reply | None:
        """Return the reply that an earlier session got to the same call, once; None without one.

        Args:
            call: identity of the call.
            request: hash of what is asked now. A reply to anything else is not used.
        """
        episode = call.partition("/")[0]
        known = self._replies.get(episode)
        found = known.pop(call, None) if known else None
        if found is None:
            return None
        asked, raw = found
        if asked != request:
            self.differed[call] = "another request got this reply: prompts or tools have changed"
            return None
        try:
            reply = _reply(raw)
        except (KeyError, TypeError, ValueError) as error:  # pydantic's is a ValueError
            self.differed[call] = f"written by another version: {type(error).__name__}"
            return None
        self.replayed += 1
        return reply

    def write(self, call: str, request: str, reply: Reply) -> None:
        """Write a reply; it may be used when this returns.

        Raises:
            DiskFull: nothing of it remains in the file.
        """
        self._write({"call": call, "request": request, "reply": _row(reply)})

    def _write(self, row: Mapping[str, Any]) -> None:
        data = orjson.dumps(row)
        self._file.append(b'{"crc":"%08x",' % zlib.crc32(data) + data[1:])

    def recall(self, episodes: Container[str]) -> None:
        """Have the replies of episodes at hand once more that are played again in this session."""
        damaged = self.damaged
        for row in self._rows():
            if "call" in row and (episode := row["call"].partition("/")[0]) in episodes:
                known = self._replies.setdefault(episode, {})
                known[row["call"]] = (row["request"], row["reply"])
        self.damaged = damaged  # they are counted already

    def forget(self, episode: str) -> None:
        """Give back the memory of an episode that is finished."""
        self._replies.pop(episode, None)

    def close(self) -> None:
        """Sync and close. Harmless when called twice."""
        self._file.close()


class Journalled:
    """A model bound to one role of one episode: numbers its calls, and journals their replies.

    Args:
        llm: the model.
        journal: where replies are kept; without one, calls are numbered only.
        episode: identity of the episode.
        role: who asks.
    """

    __slots__ = ("_asked", "_journal", "_llm", "_prefix", "name")

    def __init__(self, llm: LLM, journal: Journal | None, episode: str, role: str) -> None:
        self.name = llm.name
        self._llm, self._journal = llm, journal
        self._prefix = f"{episode}/{role}/"
        self._asked = 0

    async def complete(self, request: ChatRequest) -> Reply:
        """Return the journalled reply to this call, or ask and journal what comes.

        Raises:
            ModelFailed: no usable reply; the next session asks again.
            BudgetSpent: it may not be asked for.
            DiskFull: the reply is not on disk, and must not be used.
        """
        call = f"{self._prefix}{self._asked}"
        self._asked += 1
        if self._journal is None:
            return await self._llm.complete(dataclasses.replace(request, call=call))
        asked = request_hash(request, self.name)
        reply = self._journal.find(call, asked)
        if reply is None:
            reply = await self._llm.complete(dataclasses.replace(request, call=call))
            self._journal.write(call, asked, reply)
        return reply


def _request(entry: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what tells a request from others in this session."""
    return entry["role"], entry["model"], entry["call"], entry["attempt"]


def _checked(line: bytes) -> dict[str, Any] | None:
    """Return the row of a line whose checksum is right."""
    data = b"{" + line[_HEAD:].rstrip(b"\n")
    if line[:_HEAD] != b'{"crc":"%08x",' % zlib.crc32(data):
        return None
    try:
        row = orjson.loads(data)
    except orjson.JSONDecodeError:
        return None
    return cast(dict[str, Any], row) if _is_row(row) else None


def _is_row(row: Mapping[str, Any]) -> bool:
    """Say whether a row holds what one of the three kinds does; `find` looks at replies."""
    for kind in ("asked", "spent"):
        if kind in row:
            return _is_entry(row[kind])
    texts = isinstance(row.get("call"), str) and isinstance(row.get("request"), str)
    return texts and isinstance(row.get("reply"), dict)


def _is_entry(entry: Any) -> bool:
    """Say whether the books can enter this: names are texts, and what is counted are counts."""
    if not isinstance(entry, dict) or not isinstance(entry.get("status"), int | str):
        return False
    call, most = entry.get("call", 0), entry.get("most")
    texts = [entry.get("role"), entry.get("model"), "" if call is None else call]
    tokens = [entry.get(f"{name}_tokens", "") for name in ("prompt", "completion", "cached")]
    counts = [entry.get("attempt"), *(count for count in tokens if count is not None)]
    if most is not None:
        if not isinstance(most, list) or len(most) != 2:
            return False
        counts += most
    return all(isinstance(text, str) for text in texts) and all(map(_is_count, counts))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _row(reply: Reply) -> dict[str, Any]:
    """Return a reply as JSON: what is absent is left out."""
    message, usage = reply.message, reply.usage
    row: dict[str, Any] = {"finish": reply.finish, "model": reply.model, "content": message.content}
    if message.reasoning is not None:
        row["reasoning"] = message.reasoning
    if message.tool_calls:
        row["calls"] = [[call.id, call.name, call.arguments] for call in message.tool_calls]
    row["usage"] = [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens]
    if reply.repairs:
        row["repairs"] = reply.repairs
    if reply.logprobs is not None:
        row["logprobs"] = reply.logprobs
    return row


def _reply(row: Mapping[str, Any]) -> Reply:
    prompt, completion, cached = row["usage"]
    message = Message(
        role="assistant",
        content=row["content"],
        reasoning=row.get("reasoning"),
        tool_calls=tuple(
            ToolCall(id=identifier, name=name, arguments=arguments)
            for identifier, name, arguments in row.get("calls", ())
        ),
    )
    logprobs = row.get("logprobs")
    return Reply(
        message=message,
        finish=row["finish"],
        model=row["model"],
        usage=Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached),
        repairs=tuple(row.get("repairs", ())),
        logprobs=None if logprobs is None else tuple(logprobs),
    )
