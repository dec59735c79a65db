"""A reply that streams in: joined first, read whole.

There is one reader of calls, and it sees the whole reply, so the outcome cannot depend on where a
server cut it. What the cuts can break is repaired by the reader itself: the two halves of a
surrogate pair, sent in two chunks, are one character again.
"""

from __future__ import annotations

from synth.core.formats.base import Parsed, ToolFormat


class Reader:
    """Collects the chunks of one reply.

    Args:
        tool_format: how the model writes calls.
        first_call: number of calls the conversation already has.
    """

    def __init__(self, tool_format: ToolFormat, *, first_call: int = 0) -> None:
        self._format, self._first = tool_format, first_call
        self._chunks: list[str] = []

    def feed(self, chunk: str) -> None:
        """Add the next chunk; it may be empty and may end anywhere."""
        self._chunks.append(chunk)

    def parsed(self) -> Parsed:
        """Return the outcome of everything fed so far, as if it were the whole reply."""
        return self._format.parse("".join(self._chunks), first_call=self._first)
