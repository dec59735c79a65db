"""What the endpoint saw: one JSON line a request, written before the reply is sent.

A client's own books must equal it, also after the client was killed. Tokens are what the reply
tells; null where a client cannot learn them (a failure, a cut reply, a stream without usage).
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

from synth.core.jsonl import Appender, read


class Ledger:
    """The ledger of one server.

    Args:
        path: the file, which is appended to; None keeps the sums only.

    Raises:
        BadPlace: the file cannot be written.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.requests = 0
        self.faults: Counter[str] = Counter()
        """Name -> how often it was sent."""
        self.prompt_tokens = self.completion_tokens = 0
        self._started = time.monotonic()
        self._file: Appender | None = None
        if path is not None:
            self._file = Appender(path)

    def write(self, entry: dict[str, Any]) -> None:
        """Add one request. The line has left this process when this returns.

        Raises:
            DiskFull: the line is not in the file.
        """
        row = {"at": round(time.monotonic() - self._started, 6), **entry}
        if self._file is not None:
            self._file.append(row)
        self.requests += 1
        if entry["fault"]:
            self.faults[entry["fault"]] += 1
        self.prompt_tokens += entry["prompt_tokens"] or 0
        self.completion_tokens += entry["completion_tokens"] or 0

    def entries(self) -> list[dict[str, Any]]:
        """Return all lines so far; none where only sums are kept."""
        return [] if self.path is None else list(read(self.path))

    def close(self) -> None:
        """Close the file. Harmless when called twice."""
        if self._file is not None:
            self._file.close()
            self._file = None
