"""Server-sent events out of a byte stream, bounded (WHATWG HTML, section 9.2.6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from synth.core.mcp.wire import LineBuffer, LineTooLong


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    kind: str
    """`message` where the stream names none."""
    data: bytes
    id: str
    """The last one that the stream named, empty before."""
    retry_s: float | None
    """How long the stream asks to wait before it is opened again."""


class EventBuffer:
    """Cuts a byte stream into events whose data has at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._lines, self._limit = LineBuffer(limit), limit
        self._data: list[bytes] = []
        self._held = 0
        self._kind, self._id = "", ""
        self._retry_s: float | None = None
        self._after_cr, self._begun = False, False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield each event that `chunk` completes.

        Raises:
            LineTooLong: the event under way is longer than the limit.
        """
        if self._after_cr and chunk.startswith(b"\n"):
            chunk, self._after_cr = chunk[1:], False
        if not chunk:
            return
        self._after_cr = chunk.endswith(b"\r")
        for line in self._lines.feed(chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")):
            if not self._begun:
                self._begun, line = True, line.removeprefix(b"\xef\xbb\xbf")
            if line:
                self._field(line)
                continue
            if self._data:
                yield Event(
                    self._kind or "message", b"\n".join(self._data), self._id, self._retry_s
                )
            self._data, self._held, self._kind = [], 0, ""

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._held += len(value) + 1
            if self._held > self._limit:
                raise LineTooLong
            self._data.append(value)
        elif name == b"event":
            self._kind = value[:100].decode("utf-8", errors="replace")
        elif name == b"id" and b"\0" not in value:
            self._id = value[:1000].decode("utf-8", errors="replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self._retry_s = int(value) / 1000
