"""One client's connection: requests in, the steps of their plans out, one after the other."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Iterator
from typing import Protocol

from synth.core.llm.mock.http import MAX_BODY, BadRequest, Reader, Received
from synth.core.llm.mock.plan import End, Plan, Step
from synth.core.llm.mock.render import failure

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER that makes `close` a reset."""


class Endpoint(Protocol):
    """What answers the requests of all connections."""

    latency_s: float

    def answer(self, received: Received) -> Plan:
        """Return how a request is answered."""

    def refuse(self) -> None:
        """Refuse new connections for a moment."""

    def joined(self, connection: Connection) -> None:
        """Note a new connection."""

    def left(self, connection: Connection) -> None:
        """Note the end of a connection."""


class Connection(asyncio.Protocol):
    """Plays plans without a task of its own: timers of the loop call it back."""

    def __init__(self, endpoint: Endpoint, loop: asyncio.AbstractEventLoop) -> None:
        self._endpoint, self._loop = endpoint, loop
        self._reader = Reader()
        self._steps: Iterator[Step] | None = None
        """What is left to do for the current request; None between requests."""
        self._keep = True
        self._timer: asyncio.TimerHandle | None = None
        self._full = self._paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._endpoint.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget what was still to be sent."""
        self._endpoint.left(self)
        if self._timer is not None:
            self._timer.cancel()
        self._steps = iter(())

    def data_received(self, data: bytes) -> None:
        """Take in what arrived; while a reply is under way, it waits."""
        self._reader.buffer += data
        if self._steps is None:
            self._next()
        elif len(self._reader.buffer) > MAX_BODY and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Note that the client does not read."""
        self._full = True

    def resume_writing(self) -> None:
        """Go on."""
        self._full = False
        if self._timer is None:
            self._resume()

    def abort(self) -> None:
        """End it at once."""
        self._transport.abort()

    def _next(self) -> None:
        """Answer request after request, until one takes time or no whole one is left."""
        while self._steps is None and not self._transport.is_closing():
            try:
                received = self._reader.take()
            except BadRequest as error:
                plan = failure(error.status, error.message, "invalid_request_error")
                self._keep, self._steps = False, iter(plan.steps)
                self._play()
                return
            if received is None:
                if self._reader.expects:
                    self._reader.expects = False
                    self._transport.write(_CONTINUE)
                return
            self._keep = self._keep and received.keep
            plan = self._endpoint.answer(received)
            self._steps = iter(plan.steps)
            if self._endpoint.latency_s:
                self._wait(self._endpoint.latency_s)
            else:
                self._play()

    def _wait(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds, self._woken)

    def _woken(self) -> None:
        self._timer = None
        self._resume()

    def _resume(self) -> None:
        if self._steps is not None and not self._transport.is_closing():
            self._play()
            self._next()

    def _play(self) -> None:
        """Do the steps up to the next pause; after the last one the connection is free again."""
        steps = self._steps or iter(())
        for step in steps:
            if isinstance(step, bytes):
                self._transport.write(step)
                if self._full:
                    return
            elif isinstance(step, End):
                self._end(step)
                return
            else:
                self._wait(step)
                return
        self._steps = None
        if not self._keep:
            self._transport.close()
        elif self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _end(self, end: End) -> None:
        if end is End.CLOSE:
            self._transport.close()
            return
        if end is End.REFUSE:
            self._endpoint.refuse()
        plain: socket.socket = self._transport.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()
