"""Answers of a service over HTTP: bounded, asked one after another, kept so as to ask less.

A kept answer is asked for again with its ETag, and a service that says "not modified" counts
nothing. What has a name of its own content (a Git blob) is not asked for again at all. A service
that wants to be left alone is: for a short while it is waited for, for longer it is not asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import orjson

from synth.core.canonical import text_key
from synth.core.jsonl import write_atomic

TIMEOUT_S = 20.0
LONGEST_WAIT_S = 60.0
"""A service that asks for more patience is asked another day."""
UNTOLD_WAIT_S = 60.0
"""How long a service is left alone that refuses without saying for how long."""
_MOVED = (301, 302, 307, 308)


class Refused(Exception):
    """The service gives no answer to this."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status


class Spent(Refused):
    """The service gives no more answers for a while."""


@dataclass(slots=True)
class Pages:
    """Asks one service."""

    client: httpx2.Client
    base: str
    """Address that all paths are below; nothing is sent to another."""
    headers: Mapping[str, str] = field(repr=False)
    folder: Path | None = None
    """Where answers are kept; None keeps none."""
    told: Callable[[str], None] = lambda note: None
    """Called with a line for people before a wait."""
    _free: dict[str, float] = field(default_factory=dict)
    """Kind of request -> when the service allows the next one, in seconds of the epoch."""

    def get(self, path: str, form: str, *, most: int, fixed: bool = False) -> bytes:
        """Return an answer, cut at `most` bytes.

        Args:
            path: below the base, with its query.
            form: the media type to ask for.
            most: bytes.
            fixed: the path names its content, which can never change.

        Raises:
            Spent: the service wants to be left alone; says until when.
            Refused: any status that is no answer, or none at all.
        """
        kept, tag = self._kept(path, form)
        if kept is not None and fixed:
            return kept
        kind = path.split("/")[0]
        while True:
            self._wait(kind)
            status, headers, body = self._ask(path, form, tag, most)
            limited = self._note(kind, status, headers)
            if status == 304 and kept is not None:
                return kept
            if status == 200:
                self._keep(path, form, headers.get("ETag", ""), body)
                return body
            if not limited:
                raise Refused(f"answers with status {status}", status)

    def _ask(
        self, path: str, form: str, tag: str, most: int, hops: int = 2
    ) -> tuple[int, httpx2.Headers, bytes]:
        sent = {**self.headers, "Accept": form} | ({"If-None-Match": tag} if tag else {})
        body = bytearray()
        try:
            with self.client.stream("GET", f"{self.base}/{path}", headers=sent) as response:
                status, headers = response.status_code, response.headers
                for chunk in response.iter_bytes() if status == 200 else ():
                    body += chunk
                    if len(body) >= most:
                        break
        except httpx2.HTTPError as error:
            raise Refused(f"does not answer: {type(error).__name__}") from error
        moved = headers.get("Location", "")
        if status in _MOVED and moved.startswith(f"{self.base}/") and hops:
            return self._ask(moved.removeprefix(f"{self.base}/"), form, tag, most, hops - 1)
        return status, headers, bytes(body[:most])

    def _note(self, kind: str, status: int, headers: httpx2.Headers) -> bool:
        """Note when the next request is allowed; say whether this one was too early."""
        after, reset = headers.get("Retry-After", ""), headers.get("X-RateLimit-Reset", "")
        spent = headers.get("X-RateLimit-Remaining") == "0"
        limited = status == 429 or (status == 403 and (spent or bool(after)))
        if limited and after.isdecimal():
            self._free[kind] = time.time() + int(after[:9])
        elif spent and reset.isdecimal():
            self._free[kind] = float(reset[:12])
        elif limited:
            self._free[kind] = time.time() + UNTOLD_WAIT_S
        return limited

    def _wait(self, kind: str) -> None:
        free = self._free.get(kind, 0.0)
        left = free - time.time()
        if left <= 0:
            return
        until = f"{datetime.fromtimestamp(min(free, 4e9), UTC):%Y-%m-%d %H:%M:%S} UTC"
        if left > LONGEST_WAIT_S:
            raise Spent(f"answers no more before {until}")
        self.told(f"waiting until {until}, as asked")
        time.sleep(left)

    def _file(self, path: str, form: str) -> Path | None:
        name = text_key(f"{self.base} {form} {path}", digits=32)
        return self.folder / name if self.folder else None

    def _kept(self, path: str, form: str) -> tuple[bytes | None, str]:
        """Return a kept answer and its tag; what is damaged was never kept."""
        file = self._file(path, form)
        try:
            head, _, body = file.read_bytes().partition(b"\n") if file else (b"", b"", b"")
            tag, size = orjson.loads(head)
        except (OSError, ValueError, TypeError):
            return None, ""
        usable = isinstance(tag, str) and tag.isascii() and tag.isprintable() and size == len(body)
        return (body, tag) if usable else (None, "")

    def _keep(self, path: str, form: str, tag: str, body: bytes) -> None:
        file = self._file(path, form)
        if file is not None and len(tag) < 200:
            write_atomic(file, orjson.dumps([tag, len(body)]) + b"\n" + body)
