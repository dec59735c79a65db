"""The embedded model behind the `LLM` protocol."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from synth.core.config import LOCAL
from synth.core.errors import BadInput
from synth.core.llm.local.agent import (
    PROMPTS,
    agent_turns,
    answer_schema,
    read_answer,
    respond_name,
    stuck,
)
from synth.core.llm.local.engine import Generated, Settings, acquire, release
from synth.core.llm.local.gguf import read_weights
from synth.core.llm.local.judge import probability_of_yes
from synth.core.llm.local.label import weakness
from synth.core.llm.local.schema import OPEN, reduce_schema
from synth.core.llm.local.script import STOP, read_line, script_prompt
from synth.core.llm.local.sources import FETCHED, find
from synth.core.prompts import prompts
from synth.core.protocols import ChatRequest, Reply
from synth.core.seeds import seed as seed_of
from synth.core.types import Message, Usage

_SEEDS = 2**31


class Style(StrEnum):
    """How a conversation is put to the model."""

    CHAT = "tools"
    """In the chat template of its weights; with tools, under our own prompt and a schema."""
    SCRIPT = "script"
    """As the record of a chat to be continued: for playing a user."""


def open_local(
    model: str,
    *,
    role: str = "agent",
    folders: Sequence[str | Path] = (FETCHED,),
    timeout_s: float = 120.0,
    settings: Settings | None = None,
) -> LocalModel:
    """Return the embedded model that `model` names, loaded and answering.

    Args:
        model: `local:NAME` or `local:PATH.gguf`.
        role: what it plays; a `user` continues a script, every other role answers a chat.
        folders: where fetched weights lie.
        timeout_s: seconds of computing one reply may take.
        settings: context, slots, threads and memory.

    Raises:
        BadConfig: no such weights on this disk, or the engine is not installed.
        BadInput: the file holds no weights.
        ModelFailed: the weights do not load.
    """
    name = model.removeprefix(LOCAL)
    style = Style.SCRIPT if role == "user" else Style.CHAT
    return LocalModel(find(name, folders), style=style, timeout_s=timeout_s, settings=settings)


class LocalModel:
    """A GGUF model in this process.

    A request with a seed is computed from scratch, so that the same request gives the same text
    whatever was asked before; one without may reuse what was computed for an earlier prompt, which
    is several times faster and changes the last digits of the probabilities.

    Args:
        path: a `.gguf` file.
        style: how conversations are put to it.
        timeout_s: seconds of computing one reply may take; waiting for a slot does not count.
        settings: context, slots, threads and memory; roles with the same share one loaded model.

    Raises:
        BadConfig: the engine is not installed.
        BadInput: the file holds no weights.
        ModelFailed: the weights do not load.
    """

    def __init__(
        self,
        path: Path,
        *,
        style: Style = Style.CHAT,
        timeout_s: float = 120.0,
        settings: Settings | None = None,
    ) -> None:
        self.weights = read_weights(path)
        self.weak = weakness(self.weights.parameters)
        """Why what it makes is marked, or None."""
        settings = settings or Settings()
        if self.weights.context and self.weights.context < settings.context:
            settings = Settings(
                self.weights.context, settings.slots, settings.threads, settings.cache_mib
            )
        mark = f" ({self.weak})" if self.weak else ""
        prompt = f"{style}@{prompts(PROMPTS).hash(style)}"
        self.name = f"{LOCAL}{path.stem}/{prompt}{mark}"
        self.concurrency = settings.slots
        """Requests it computes at once; more only wait."""
        self._style, self._timeout_s = style, timeout_s
        # Text that llama.cpp would read as the end of a turn, wherever it stands.
        marks = sorted(self.weights.control, key=len, reverse=True)
        self._control = re.compile("|".join(map(re.escape, marks)) or r"(?!)")
        self._engine = acquire(path, settings)
        self._closed = False

    async def complete(self, request: ChatRequest) -> Reply:
        """Return a reply.

        Raises:
            ModelFailed: no reply in time, or more text than the model's context holds.
        """
        if self._style is Style.SCRIPT:
            return await self._script(request)
        if request.tools:
            return await self._act(request)
        return await self._chat(request)

    async def probability_of_yes(self, request: ChatRequest) -> float:
        """Return how likely it answers yes rather than no; see `judge.probability_of_yes`."""
        return await probability_of_yes(self, request)

    async def close(self) -> None:
        """Give the loaded model back. Harmless when called twice."""
        if not self._closed:
            self._closed = True
            release(self._engine)

    async def _act(self, request: ChatRequest) -> Reply:
        left_out, respond = stuck(request.messages), respond_name(request.tools)
        offered = [tool for tool in request.tools if tool["function"]["name"] not in left_out]
        body = self._body(request) | {
            "messages": self._clean(agent_turns(request.messages, request.tools)),
            "response_format": _json_format(answer_schema(offered, respond)),
        }
        made = await self._engine.generate("chat", body, self._timeout_s)
        message, finish = read_answer(made.text, made.finish, respond)
        return self._reply(message, finish, made)

    async def _chat(self, request: ChatRequest) -> Reply:
        body = self._body(request) | {"messages": self._clean(request.messages)}
        if request.response_format is not None:
            body["response_format"] = _reduced_format(request.response_format)
        if request.top_logprobs:
            body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        made = await self._engine.generate("chat", body, self._timeout_s)
        return self._reply(Message(role="assistant", content=made.text), made.finish, made)

    async def _script(self, request: ChatRequest) -> Reply:
        if request.tools or request.response_format is not None:
            raise BadInput(
                "a script has no calls and no schema",
                where=self.name,
                remedy="open it for another role",
            )
        lines = self._clean(request.messages)
        body = self._body(request) | {"prompt": script_prompt(lines), "stop": [STOP]}
        made = await self._engine.generate("text", body, self._timeout_s)
        message = Message(role="assistant", content=read_line(made.text))
        return self._reply(message, made.finish, made)

    def _body(self, request: ChatRequest) -> dict[str, Any]:
        """Return how tokens are drawn: as rows say, without filters of llama.cpp's own."""
        sampler = request.sampler
        body: dict[str, Any] = {
            "temperature": sampler.temperature,
            "top_p": sampler.top_p,
            "max_tokens": sampler.max_tokens,
            "top_k": 0,
            "min_p": 0.0,
            "cache_prompt": sampler.seed is None,
        }
        if sampler.seed is not None or request.call is not None:
            path = (-1 if sampler.seed is None else sampler.seed, request.call or "")
            body["seed"] = seed_of("local", *path) % _SEEDS
        return body

    def _clean(self, messages: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        return [{**message, "content": self._plain(message["content"])} for message in messages]

    def _plain(self, text: str | None) -> str:
        """Break what would be read as control tokens, and what is not text at all."""
        whole = (text or "").encode("utf-8", "replace").decode("utf-8")
        return self._control.sub(lambda mark: f"{mark[0][:1]} {mark[0][1:]}", whole)

    def _reply(self, message: Message, finish: str, made: Generated) -> Reply:
        usage = Usage(
            prompt_tokens=made.prompt_tokens,
            completion_tokens=made.completion_tokens,
            cached_tokens=made.cached_tokens,
        )
        logprobs = tuple(made.logprobs) or None
        return Reply(message, finish, self.name, usage, logprobs=logprobs)


def _json_format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def _reduced_format(wanted: Mapping[str, Any]) -> dict[str, Any]:
    about = wanted.get("json_schema")
    schema = about.get("schema") if isinstance(about, Mapping) else None
    return _json_format(OPEN if schema is None else reduce_schema(schema))
