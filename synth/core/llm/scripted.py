"""A model that says what it is told to: for dry runs, examples and tests. Costs nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from synth.core.errors import ModelFailed
from synth.core.protocols import ChatRequest, Reply
from synth.core.types import Message, Usage

Answer: TypeAlias = str | Message | Reply


class ScriptedLLM:
    """Answers from a list, or by a function of the request.

    Args:
        script: replies in order (text, whole messages or whole replies), or a function that makes
            one.
        name: what rows record as the model.
    """

    def __init__(
        self,
        script: Iterable[Answer] | Callable[[ChatRequest], Answer],
        name: str = "scripted",
    ) -> None:
        self.name = name
        self.requests: list[ChatRequest] = []
        """Every request so far: tests and dry runs read it."""
        self._answer = script if callable(script) else _in_order(iter(script))

    async def complete(self, request: ChatRequest) -> Reply:
        """Return the next reply.

        Raises:
            ModelFailed: the script is at its end.
        """
        self.requests.append(request)
        answer = self._answer(request)
        if isinstance(answer, Reply):
            return answer
        if isinstance(answer, str):
            answer = Message(role="assistant", content=answer)
        finish = "tool_calls" if answer.tool_calls else "stop"
        return Reply(message=answer, finish=finish, model=self.name, usage=Usage())


def _in_order(
    script: Iterator[Answer],
) -> Callable[[ChatRequest], Answer]:
    def next_reply(_: ChatRequest) -> Answer:
        try:
            return next(script)
        except StopIteration:
            raise ModelFailed("the script has no further reply", where="scripted") from None

    return next_reply
