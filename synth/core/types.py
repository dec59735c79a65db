"""The data everybody passes around. Read this file first.

Every model is frozen, refuses unknown fields, and has a content key (`model.key`). Free-form JSON
(arguments, schemas, results) is kept as text where it is exported, so that no column store pads it.
"""

from __future__ import annotations

import json
from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from synth.core.canonical import content_key

Scalar: TypeAlias = str | int | float | bool | None
Diff: TypeAlias = tuple[str, ...]
"""Net change of a state since the episode's start: sorted canonical JSON lines, one a changed row,
`["table","insert"|"update"|"delete",before,after]`. Undone changes leave nothing; equality of
tuples is equality of states. Generated identifiers are renamed by content, ignored columns are
absent."""


class Frozen(BaseModel):
    """Base of all data: immutable, strict about fields, identified by content."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @cached_property
    def key(self) -> str:
        """Content key: 20 hexadecimal characters of the hash of the canonical JSON."""
        return content_key(self.model_dump(mode="json"))


class Effect(StrEnum):
    """What a call does to the world."""

    READ = "read"
    WRITE = "write"
    DESTRUCTIVE = "destructive"
    UNKNOWN = "unknown"


class Fault(StrEnum):
    """Who failed when an episode went wrong."""

    AGENT = "agent"
    USER = "user"
    TOOL = "tool"
    ENVIRONMENT = "environment"
    JUDGE = "judge"
    INFRASTRUCTURE = "infrastructure"
    """Network, endpoint, disk, machine: never a verdict, never reward 0."""


class StopReason(StrEnum):
    """Why an episode ended."""

    USER_DONE = "user_done"
    """The user said goodbye: the normal end."""
    MAX_TURNS = "max_turns"
    """The turn limit was reached."""
    MAX_CALLS = "max_calls"
    """The agent used up its tool calls."""
    AGENT_INVALID = "agent_invalid"
    """The agent's message could not be used (neither text nor a call)."""
    ERROR = "error"
    """Something other than the agent failed; see `Trajectory.error` and `fault`."""


# --- the conversation ------------------------------------------------------------------------


class ToolCall(Frozen):
    """One call an agent asked for. `arguments` is the exact text the agent wrote."""

    id: str
    name: str
    arguments: str

    @cached_property
    def value(self) -> dict[str, Any] | None:
        """The arguments as an object, or None if the text is not a JSON object."""
        try:
            value = json.loads(self.arguments)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None


class Message(Frozen):
    """One chat turn in the OpenAI shape; reasoning is kept apart from content."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None

    def openai(self) -> dict[str, Any]:
        """Return the message as the chat-completions API takes it (reasoning left out)."""
        out: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            out["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.tool_calls
            ]
        if self.tool_call_id is not None:
            out["tool_call_id"] = self.tool_call_id
        return out


class CallError(Frozen):
    """Why a call failed, as the agent sees it. Codes of the engine: `ENGINE_ERRORS`."""

    code: str
    message: str


ENGINE_ERRORS = frozenset(
    {"unknown_tool", "invalid_arguments", "not_found", "conflict", "tool_fault", "timeout"}
)
"""Codes no application may use for its own errors (`not_found` is the implicit unknown entity)."""


class ToolResult(Frozen):
    """What a call returned. `content` is the exact text the agent sees (JSON for applications)."""

    ok: bool
    content: str
    error: CallError | None = None
    outcome: Literal["success", "partial", "transient", "permanent", "edge"] = "success"
    """Of the environment's own making; `faulty` wrappers set the others."""


class Usage(Frozen):
    """Tokens of one model reply; None means the endpoint did not say. Unknown is not 0."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """Return the sum; one unknown part makes it unknown."""
        return Usage(
            prompt_tokens=_total(self.prompt_tokens, other.prompt_tokens),
            completion_tokens=_total(self.completion_tokens, other.completion_tokens),
            cached_tokens=_total(self.cached_tokens, other.cached_tokens),
        )


def _total(one: int | None, two: int | None) -> int | None:
    return None if one is None or two is None else one + two


# --- tools and agents ------------------------------------------------------------------------


class Provenance(Frozen):
    """Where a tool came from."""

    source: str
    """`application:NAME`, `pypi:NAME`, `npm:NAME`, `mcp.json:PATH`."""
    package: str | None = None
    version: str | None = None
    licence: str | None = None
    server: str | None = None
    parents: tuple[str, ...] = ()
    operator: str | None = None


class ToolSpec(Frozen):
    """A tool as an agent is shown it, plus what is known about it."""

    name: str
    description: str
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON Schema of the arguments object."""
    returns: dict[str, Any] | None = None
    """JSON Schema of the result, if declared."""
    annotations: dict[str, Any] = {}
    category: str | None = None
    application: str | None = None
    effect: Effect = Effect.UNKNOWN
    effect_source: Literal["declared", "annotated", "inferred", "unknown"] = "unknown"
    provenance: Provenance

    def openai(self) -> dict[str, Any]:
        """Return the tool as an entry of the chat-completions `tools` list."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": self.parameters,
            },
        }


class Persona(Frozen):
    """Who the user is and how they talk."""

    name: str
    voice: str
    """Name of a voice of the scripted user: terse, polite, chatty, impatient, formal, …"""
    language: str = "en"
    traits: tuple[str, ...] = ()


class Behaviour(Frozen):
    """How an agent behaves, as told in its system prompt and obeyed by the reference agent."""

    name: str
    confirms_writes: bool = False
    """Asks for a yes before each write."""
    style: str = "plain"
    """Name of a phrase set of the reference agent."""


class Agent(Frozen):
    """System prompt + toolset + behaviour profile."""

    application: str
    system: str
    tools: tuple[str, ...]
    """Names of the tools it may call, in the order shown."""
    behaviour: Behaviour


# --- tasks and rubrics -----------------------------------------------------------------------


class TaskKind(StrEnum):
    """What a task asks of the agent."""

    SINGLE_WRITE = "single_write"
    CHAINED_WRITES = "chained_writes"
    LOOKUP = "lookup"
    PARALLEL = "parallel"
    """Independent calls that may be made in one turn."""
    MISSING_FACT = "missing_fact"
    """The request leaves out a fact that must be asked for."""
    FORBIDDEN = "forbidden"
    """The policy forbids what the user wants."""
    UNSERVED = "unserved"
    """No tool of the agent serves the request."""


class Fact(Frozen):
    """Something the user knows, keyed by parameter and path (never by table)."""

    name: str
    """`rental_id.box.size`."""
    label: str
    """`size of the box`: how a question for it is recognised."""
    value: Scalar
    spoken: str
    """How a person says it: `12.50 EUR`, `3 March 2026`."""


class PlannedCall(Frozen):
    """One call of a reference solution or of a decoy."""

    tool: str
    arguments: dict[str, Any]
    group: int
    """Calls of one group do not depend on one another and may be made in one turn."""
    effect: Effect


class OutputValue(Frozen):
    """A value the agent must tell the user; compared by type, never as a substring."""

    label: str
    type: Literal["text", "integer", "number", "boolean", "date", "datetime", "money"]
    """Money is an integer of minor units."""
    value: Scalar
    currency: str | None = None


class Blueprint(Frozen):
    """A sampled, executed goal: the ground truth a task is written around.

    Made by a `World` (which knows the state), turned into words and a rubric by `synth.tasks`.
    """

    kind: TaskKind
    world: str
    state_seed: int
    tools: tuple[str, ...]
    """Toolset of the agent, in the order shown."""
    clauses: tuple[str, ...]
    """What the user wants, one clause a goal: `borrow "Dune"`, `know when my loan is due`."""
    opening: tuple[Fact, ...] = ()
    """Identity and other facts that the first message states."""
    withheld: tuple[Fact, ...] = ()
    """Known facts that the user states only when asked (kind MISSING_FACT)."""
    background: tuple[Fact, ...] = ()
    """Known facts that nobody needs; told when asked."""
    solution: tuple[PlannedCall, ...]
    diffs: tuple[Diff, ...]
    """Accepted final diffs (several when goals are tied); `((),)` where nothing may change."""
    outputs: tuple[OutputValue, ...] = ()
    rule: str | None = None
    """Text of the policy rule that forbids it (kind FORBIDDEN)."""
    decoys: dict[str, tuple[PlannedCall, ...]] = {}
    """Wrong solutions by name: `wrong_entity`, `over_write`, `wrongful_compliance`."""


class StateCheck(Frozen):
    """The final diff is one of `diffs`."""

    kind: Literal["state"] = "state"
    diffs: tuple[Diff, ...]


class CallCheck(Frozen):
    """`tool` was called successfully with these arguments (a subset; typed equality)."""

    kind: Literal["call"] = "call"
    tool: str
    """Name of a tool; `*` is any tool."""
    arguments: dict[str, Any] = {}
    at_least: int = 1
    at_most: int | None = None
    before: str | None = None
    """Only calls made before the first successful call of this tool count."""


class OutputCheck(Frozen):
    """The agent told the user every value."""

    kind: Literal["output"] = "output"
    values: tuple[OutputValue, ...]


class JudgedCheck(Frozen):
    """A model answers yes or no, quoting evidence."""

    kind: Literal["judged"] = "judged"
    question: str


Check: TypeAlias = Annotated[
    StateCheck | CallCheck | OutputCheck | JudgedCheck, Field(discriminator="kind")
]


class Criterion(Frozen):
    """One checkable statement of a rubric."""

    id: str
    text: str
    level: Literal["must", "should", "must_not"]
    check: Check


class Rubric(Frozen):
    """Success criteria, expected tool-use patterns, checkpoints (K2 report 3.1.1)."""

    success: tuple[Criterion, ...]
    tool_use: tuple[Criterion, ...] = ()
    checkpoints: tuple[Criterion, ...] = ()

    def criteria(self) -> tuple[Criterion, ...]:
        """Return all criteria, success first."""
        return self.success + self.tool_use + self.checkpoints


class Task(Frozen):
    """What one user wants of one agent, with the proof of what counts as done."""

    blueprint: Blueprint
    persona: Persona
    request: str
    """The first message of the user, as the scripted user says it."""
    rubric: Rubric
    difficulty: int
    """1 (one call) upwards: calls + writes + facts to ask for + distractor tools / 4."""


# --- episodes and verdicts -------------------------------------------------------------------


class Step(Frozen):
    """One executed call."""

    message: int
    """Index in `Trajectory.messages` of the assistant message that asked for it."""
    call: ToolCall
    result: ToolResult
    effect: Effect
    state: str | None = None
    """Content key of the diff after a write; None after a read."""


class Trajectory(Frozen):
    """One finished episode, all of it."""

    episode: str
    task: str
    agent: str
    world: str
    kind: TaskKind
    real: bool
    """True when the tools ran on a real server or sandbox, False in a simulated application."""
    seed: int
    messages: tuple[Message, ...]
    """System prompt first."""
    steps: tuple[Step, ...]
    diff: Diff
    stop: StopReason
    players: dict[str, str]
    """Role -> who played it: `reference/1`, `scripted/1`, `openai:MODEL@PROMPT`."""
    fault: Fault | None = None
    error: str | None = None
    usage: dict[str, Usage] = {}


class CriterionResult(Frozen):
    """The verdict on one criterion: True, False, or None where nobody judged it."""

    id: str
    passed: bool | None
    evidence: str


class Verdict(Frozen):
    """The judge's verdict on one trajectory."""

    episode: str
    passed: bool | None
    """None where a judged `must` was not judged, or the infrastructure failed."""
    reason: str
    """`accepted`, or the first stage that failed: `format:…`, `rule:…`, `state`, `output`, …"""
    results: tuple[CriterionResult, ...] = ()
    fault: Fault | None = None


class Reward(Frozen):
    """A score for a trainer. Not scored is never 0."""

    name: str
    score: float | None
    reason: str
