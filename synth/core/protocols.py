"""What the parts promise one another. Implementations never import each other, only this."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from synth.core.errors import ToolloomError
from synth.core.happenings import Due, Schedule
from synth.core.types import (
    Act,
    Blueprint,
    Diff,
    Fact,
    Happened,
    Holder,
    Message,
    Persona,
    Scalar,
    TaskKind,
    ToolResult,
    ToolSpec,
    Usage,
)


@runtime_checkable
class Environment(Protocol):
    """Where tools run. One episode at a time; nothing in it reads wall time or chance.

    A failed call is a `ToolResult` with `ok=False`, never an exception. An exception
    (`ToolloomError`) means that the environment itself is broken: the episode is no verdict.
    """

    real: bool
    """True for a live server or sandbox."""

    async def reset(self, seed: int) -> None:
        """Start over from the state that `seed` names; same seed, same state, in any process."""

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer."""

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call. All of it happens or none of it."""

    async def diff(self) -> Diff:
        """Return the net change since `reset`."""

    async def snapshot(self) -> bytes:
        """Return the whole state, counters included."""

    async def restore(self, state: bytes) -> None:
        """Go back to a snapshot; `diff` still counts from `reset`."""

    async def fork(self) -> Environment:
        """Return an independent copy of the current state; its `diff` counts from `reset` too."""

    async def close(self) -> None:
        """Give everything back. Harmless when called twice."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Tool dependency: a result column of `source` can feed `parameter` of `target`."""

    source: str
    column: str
    target: str
    parameter: str


class World(Protocol):
    """One application or live server: gives environments, and goals sampled on their states."""

    @property
    def name(self) -> str:
        """Return the name that tasks and rows refer to."""

    @property
    def key(self) -> str:
        """Return a content key of all that decides what episodes in it are like."""

    @property
    def category(self) -> str:
        """Return the category of its tools."""

    @property
    def real(self) -> bool:
        """Say whether its tools run on a real server."""

    @property
    def handoff(self) -> str | None:
        """Return the tool for requests that are forbidden or that no tool serves, if any."""

    @property
    def clock(self) -> str | None:
        """Return the environment's own time (`2026-03-02T09:00:00`); None if it is real."""

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return every tool of the world."""

    def edges(self) -> tuple[Edge, ...]:
        """Return the tool dependency graph."""

    def kinds(self) -> tuple[TaskKind, ...]:
        """Return the kinds of task this world can sample."""

    def policy(self) -> str:
        """Return the policy as the agent reads it (rendered, without any user's data)."""

    def environment(self) -> Environment:
        """Return a new environment; call `reset` before use."""

    async def blueprint(
        self, kind: TaskKind, tools: Sequence[str], state_seed: int, rng: random.Random
    ) -> Blueprint:
        """Sample a goal of `kind` that the toolset `tools` can reach, execute it, keep the diff.

        Raises:
            NotSuitable: nothing of that kind here; the reason is one of a few fixed words.
        """

    async def close(self) -> None:
        """End warm processes, if any."""


@runtime_checkable
class Distracting(Protocol):
    """A world with tools that are shown and never serve: every call of one is refused."""

    distractors: frozenset[str]
    """Their names."""


@runtime_checkable
class Polyglot(Protocol):
    """A world whose users may speak more than English."""

    languages: tuple[str, ...]
    """English first."""

    def speaking(self, language: str) -> World:
        """Return the same world with users who speak `language`, one of `languages`."""


@runtime_checkable
class Wavering(Protocol):
    """A world whose users may change their minds."""

    async def wavering(
        self, tools: Sequence[str], state_seed: int, rng: random.Random
    ) -> Blueprint:
        """Sample a goal that the user first names otherwise (`Blueprint.retracted`).

        Its kind is MISSING_FACT: every write needs a fact that is told together with the change.

        Raises:
            NotSuitable: nothing of that kind here.
        """


@runtime_checkable
class Eventful(Protocol):
    """A world in which things happen by themselves as its clock moves."""

    def schedule(self, blueprint: Blueprint, share: float, seed: int) -> Schedule | None:
        """Draw what happens in an episode: nothing that its solution reads or writes.

        Args:
            blueprint: the goal of the episode.
            share: of the events that could happen, those that do.
            seed: of the episode.

        Returns:
            None where the clock must stand still: the world has no events, or the solution gives
            something else at a later time.
        """


@runtime_checkable
class Shared(Protocol):
    """An environment in which users have tools of their own; `tools` and `call` know none of them.

    Dual control (tau2-bench): both sides change one state, and each has to ask the other.
    """

    def user_tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools that users hold."""

    async def act(self, user: Scalar, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call of a user, whose row has the key `user`. All of it happens or none of it."""


@runtime_checkable
class Timed(Environment, Protocol):
    """An environment whose clock can be moved, and in which things happen by themselves.

    Its `diff` leaves out what they changed: it is of calls alone.
    """

    def wind(self, seconds: int) -> None:
        """Let it be so many seconds after `reset`; nothing happens by that."""

    async def happen(self, due: Due) -> Happened | None:
        """Let something happen, at its time, wholly or not at all; None where it does not."""


async def run_call(
    environment: Environment, by: Holder, user: Scalar, name: str, arguments: Mapping[str, Any]
) -> ToolResult:
    """Run a call with the tools of whoever makes it.

    Args:
        environment: where.
        by: whose call it is.
        user: key of the user's row; of a call by the agent, nobody looks at it.
        name: of the tool.
        arguments: of the call.

    Raises:
        ToolloomError: the environment is broken, or users hold no tools in it.
    """
    if by == "agent":
        return await environment.call(name, arguments)
    if not isinstance(environment, Shared):
        raise ToolloomError("users hold no tools in this environment", where=name)
    return await environment.act(user, name, arguments)


# --- players ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentView:
    """What an agent may see: system prompt first, then everything said and returned."""

    messages: Sequence[Message]
    tools: Sequence[ToolSpec]


@dataclass(frozen=True, slots=True)
class UserView:
    """What a user may see: their own mind, the words of both sides, what they did themselves.

    That is done with tools of their own; they see no tools of the agent, and no rubric.
    """

    persona: Persona
    clauses: tuple[str, ...]
    facts: tuple[Fact, ...]
    """Everything they know; what is not in the opening is told when asked."""
    messages: Sequence[Message]
    opening: tuple[Fact, ...] = ()
    """Those of the facts that the first message states."""
    acts: tuple[Act, ...] = ()
    """What they can do with their tools."""
    tools: Sequence[ToolSpec] = ()
    """Their tools. Calls and results stand among `messages`; the agent never sees them."""
    retracted: str = ""
    """What their first message asks for, and their second takes back for `clauses`."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a player. `done` is the user's wish to end; the message is still delivered."""

    message: Message
    done: bool = False
    usage: Usage | None = None
    cut_off: bool = False
    """The limit of tokens ended it: it is recorded, and neither delivered nor acted on."""
    invalid: bool = False
    """Withheld or unreadable: it is recorded, and neither delivered nor acted on."""
    repairs: tuple[str, ...] = ()
    """What was not as it should be in it and was read all the same, by name."""


class AgentPlayer(Protocol):
    """Plays the agent of one episode."""

    who: str

    async def turn(self, view: AgentView) -> Turn:
        """Return the next assistant message: text for the user, or tool calls."""


class UserPlayer(Protocol):
    """Plays the user of one episode."""

    who: str

    async def turn(self, view: UserView) -> Turn:
        """Return the next user message; the first turn is the request.

        One with calls of the user's own tools is executed, and the user has another turn.
        """


@runtime_checkable
class Recalling(Protocol):
    """A player that remembers more than what it is shown, and can come to where another was."""

    def recall(self, view: Any, said: Message) -> None:
        """Remember what was said in its part before, seeing what `turn` would have been shown."""


# --- models ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sampler:
    """How tokens are drawn. Part of every row that a model wrote."""

    temperature: float = 0.6
    top_p: float = 1.0
    max_tokens: int = 1024
    seed: int | None = None

    def __str__(self) -> str:
        """Return it as rows name it: `temperature=0.6, top_p=1, max_tokens=1024`."""
        named = {"temperature": self.temperature, "top_p": self.top_p}
        named |= {"max_tokens": self.max_tokens} | (
            {} if self.seed is None else {"seed": self.seed}
        )
        return ", ".join(f"{name}={value:g}" for name, value in named.items())


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request to a model; messages and tools in the OpenAI shape (plain dicts: hot path)."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    sampler: Sampler = field(default_factory=Sampler)
    response_format: Mapping[str, Any] | None = None
    call: str | None = None
    """Identity of the call, `EPISODE/ROLE/N`: what a journal finds its reply by."""
    top_logprobs: int = 0
    """Alternatives wanted for each token; 0 is none."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A validated reply: what the model said, whether or not it is of any use."""

    message: Message
    finish: str
    """Why it ended, in one word of `Finish`, or the endpoint's own."""
    model: str
    usage: Usage
    repairs: tuple[str, ...] = ()
    """What was not as it should be and was read all the same, by name: `missing_id`, …"""
    logprobs: tuple[Mapping[str, float], ...] | None = None
    """Token -> log-probability at each place, the token drawn first; None where none came."""

    @property
    def usable(self) -> bool:
        """Say whether it may be delivered or acted on: it is neither withheld nor unreadable."""
        return self.finish not in UNUSABLE


class Finish(StrEnum):
    """Why a reply ended. What the model did is an outcome; it is never retried."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    """The limit of tokens, or of the context, ended it."""
    CONTENT_FILTER = "content_filter"
    """The endpoint withheld it, or part of it."""
    REFUSAL = "refusal"
    """The model refused in the words of the API, beside the content."""
    UNREADABLE = "unreadable"
    """Text that begins a call and is none: the content is that text."""


UNUSABLE = frozenset({Finish.CONTENT_FILTER, Finish.REFUSAL, Finish.UNREADABLE})


class LLM(Protocol):
    """A model behind any door."""

    name: str

    async def complete(self, request: ChatRequest) -> Reply:
        """Return a reply.

        Raises:
            ModelFailed: no usable reply; never a verdict on the agent.
            BudgetSpent: it may not be asked for any more; nobody failed.
        """
