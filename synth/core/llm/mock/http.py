"""HTTP/1.1 as far as an endpoint on loopback needs it: requests in, framed replies out.

Written for speed (a request costs a few microseconds here) and bounded in all that it reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

MAX_HEAD = 1 << 16
MAX_BODY = 64 << 20
CHUNKS_END = b"0\r\n\r\n"
_READ = re.compile(
    rb"\r\n(content-length|transfer-encoding|connection|expect|x-toolloom-call|"
    rb"x-toolloom-attempt|x-stainless-retry-count):[ \t]*([^\r\n]*)",
    re.I,
)
"""The headers that matter here; clients send twenty others."""
_REASONS = {status.value: status.phrase for status in HTTPStatus} | {529: "Site is overloaded"}


class BadRequest(Exception):
    """A request that cannot be read; the connection is closed after the reply.

    Args:
        status: of the reply.
        message: one line.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass(slots=True)
class Received:
    """One request, with the headers that matter; their names are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""
    keep: bool = True
    """Whether the client wants to use the connection again."""


class Reader:
    """Cuts what arrives on one connection into requests."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self._head: Received | None = None
        self._length = 0
        self.expects = False
        """The client waits for leave to send its body (`Expect: 100-continue`)."""

    def take(self) -> Received | None:
        """Return the next whole request, or None until more arrives.

        Raises:
            BadRequest: what arrived is no request, or too large.
        """
        if self._head is None and not self._read_head():
            return None
        head, length = self._head, self._length
        if head is None or len(self.buffer) < length:
            return None
        self.expects = False
        head.body = bytes(memoryview(self.buffer)[:length])
        del self.buffer[:length]
        self._head = None
        return head

    def _read_head(self) -> bool:
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            if len(self.buffer) > MAX_HEAD:
                raise BadRequest(431, "the head of the request is too long")
            return False
        text = bytes(memoryview(self.buffer)[:end])
        del self.buffer[: end + 4]
        parts = text.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            raise BadRequest(400, "not an HTTP/1.1 request")
        headers = {
            name.lower().decode(): value.decode("latin-1").rstrip()
            for name, value in _READ.findall(text)
        }
        if "transfer-encoding" in headers:
            raise BadRequest(411, "send the body with a Content-Length")
        self._length = _length(headers.get("content-length", "0"))
        self.expects = headers.get("expect", "").lower() == "100-continue"
        keep = headers.get("connection", "").lower() != "close" and parts[2] != "HTTP/1.0"
        self._head = Received(parts[0], parts[1].partition("?")[0], headers, keep=keep)
        return True


def _length(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise BadRequest(400, "Content-Length is not a number")
    if int(text) > MAX_BODY:
        raise BadRequest(413, "the body of the request is too large")
    return int(text)


def head(status: int, headers: Mapping[str, object]) -> bytes:
    """Return the status line and the headers of a reply."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\n{lines}\r\n".encode()


def whole(
    status: int, body: bytes, extra: Mapping[str, str] | None = None, kind: str = "application/json"
) -> bytes:
    """Return a whole reply with its length."""
    more = "".join(f"{name}: {value}\r\n" for name, value in extra.items()) if extra else ""
    first = f"HTTP/1.1 {status} {_REASONS.get(status, 'Unknown')}\r\ncontent-type: {kind}\r\n"
    return f"{first}content-length: {len(body)}\r\n{more}\r\n".encode() + body


def chunk(data: bytes) -> bytes:
    """Return one chunk of a reply whose length is not known beforehand."""
    return b"%x\r\n%b\r\n" % (len(data), data)
