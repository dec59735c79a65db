"""Agents that are models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from synth.core.protocols import LLM, AgentView, ChatRequest, Finish, Sampler, Turn
from synth.core.types import Message, ToolSpec


class ModelAgent:
    """Plays the agent of an episode by asking a model for each message.

    What the model replies is recorded as it came: a refusal, a cut-off text or a call of a tool
    that does not exist are outcomes of the episode, not errors. There is no prompt of its own: the
    system prompt is the agent's, and stands in every row. Earlier reasoning is handed on; whether
    it goes back to the model is the client's to decide.

    Args:
        llm: the model.
        sampler: how its tokens are drawn.
    """

    def __init__(self, llm: LLM, sampler: Sampler | None = None) -> None:
        self._llm, self._sampler = llm, sampler or Sampler()
        self.who = f"model:{llm.name} ({self._sampler})"
        self._tools: tuple[Sequence[ToolSpec], list[dict[str, Any]]] | None = None
        self._sent: list[Mapping[str, Any]] = []

    async def turn(self, view: AgentView) -> Turn:
        """Return the model's next message.

        Raises:
            ModelFailed: no usable reply.
            BudgetSpent: it may not be asked for.
        """
        self._sent.extend(_wire(message) for message in view.messages[len(self._sent) :])
        if self._tools is None or self._tools[0] is not view.tools:
            self._tools = (view.tools, [tool.openai() for tool in view.tools])
        request = ChatRequest(list(self._sent), self._tools[1], self._sampler)
        reply = await self._llm.complete(request)
        message = unique_ids(reply.message, view.messages)
        return Turn(
            message,
            usage=reply.usage,
            cut_off=reply.finish == Finish.LENGTH,
            invalid=not reply.usable,
            repairs=reply.repairs,
        )


def _wire(message: Message) -> dict[str, Any]:
    wire = message.openai()
    if message.reasoning is not None:
        wire["reasoning_content"] = message.reasoning
    return wire


def unique_ids(message: Message, earlier: Sequence[Message]) -> Message:
    """Give calls new ids where a server numbers them anew in every reply."""
    taken = {call.id for before in earlier for call in before.tool_calls}
    calls = []
    for call in message.tool_calls:
        name, count = call.id or "call", 1
        while not call.id or call.id in taken:
            count += 1
            call = call.model_copy(update={"id": f"{name}_{count}"})
        taken.add(call.id)
        calls.append(call)
    return message.model_copy(update={"tool_calls": tuple(calls)}) if calls else message
