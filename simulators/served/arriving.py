"""Requests whose body is bounded in time: who sends half of one waits for nothing."""

from __future__ import annotations

import anyio
from starlette.types import Message, Receive


class Arriving:
    """Takes in one request, the `receive` of ASGI.

    Args:
        receive: of the request.
        seconds: time that its body has, from now.
    """

    def __init__(self, receive: Receive, seconds: float) -> None:
        self._receive = receive
        self._deadline = anyio.current_time() + seconds
        self._waiting = anyio.CancelScope()
        self._whole = False
        self.late = False
        """Whether its time was over."""

    async def __call__(self) -> Message:
        """Return the next message; a disconnection when the time is over."""
        if self._whole:
            return await self._receive()
        message: Message = {"type": "http.disconnect"}
        with anyio.CancelScope(deadline=self._deadline) as self._waiting:
            message = await self._receive()
        self.late = self._waiting.cancelled_caught
        self._whole = not message.get("more_body", False)
        return message

    def end(self) -> None:
        """Wait no longer."""
        self._waiting.cancel()
