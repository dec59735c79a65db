"""The data everybody passes around. Read this file first.

Every model is frozen, refuses unknown fields, and has a content key (`model.key`). Free-form JSON
(arguments, schemas, results) is kept as text where it is exported, so that no column store pads it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from synth.core.forks import Fork
from synth.core.messages import (
    ENGINE_ERRORS,
    CallError,
    Diff,
    Frozen,
    Happened,
    Holder,
    Message,
    Scalar,
    ToolCall,
    ToolResult,
    Usage,
)


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
    CUT_OFF = "cut_off"
    """The agent's message ended at the limit of tokens: nothing in it is said or done."""
    ERROR = "error"
    """Something other than the agent failed; see `Trajectory.error` and `fault`."""


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
    USER_ACT = "user_act"
    """Only the user can take one of the steps, and has to be asked to."""


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
    by: Holder = Field(default="agent", exclude_if=lambda by: by == "agent")


class Act(Frozen):
    """Something the user can do with a tool of their own."""

    tool: str
    arguments: dict[str, Any]
    words: str
    """How it is asked for, after "could you": `plug in the floor lamp in the study`."""
    labels: dict[str, str] = {}
    """Result column -> what people call it; of tools that only read."""


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
    retracted: str = Field(default="", exclude_if=lambda clause: not clause)
    """What the request asks for instead of the only clause; the user takes it back in their next
    message."""
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
    """Wrong solutions by name: `wrong_entity`, `over_write`, `old_wish`, `wrongful_compliance`."""
    acts: tuple[Act, ...] = Field(default=(), exclude_if=lambda acts: not acts)
    """What the user can do, more than the solution needs; none outside of kind USER_ACT."""
    user: Scalar = Field(default=None, exclude_if=lambda user: user is None)
    """Key of the user's own row, for their tools; nobody who plays is told it."""


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
    """Index in `Trajectory.messages` of the assistant message that asked for it; of a call by the
    user, of the message that they wrote next."""
    call: ToolCall
    result: ToolResult
    effect: Effect
    state: str | None = None
    """Content key of the diff after a write; None after a read."""
    by: Holder = Field(default="agent", exclude_if=lambda by: by == "agent")
    """Whose call it was. The user's are in no message: the agent hears of them in words."""


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
    """Role -> who played it: `reference/1`, `scripted/1`, `model:NAME` with prompt and sampler."""
    fault: Fault | None = None
    error: str | None = None
    usage: dict[str, Usage] = {}
    fork: Fork | None = None
    """Where it left another episode; its messages and steps up to there are that one's."""


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

    @property
    def broken_by(self) -> Fault | None:
        """Who left the episode without a verdict; None where there is one."""
        if self.passed is not None and self.fault in (None, Fault.AGENT):
            return None
        return self.fault or Fault.JUDGE


__all__ = [
    "ENGINE_ERRORS", "Act", "Agent", "Behaviour", "Blueprint", "CallCheck", "CallError", "Check",
    "Criterion", "CriterionResult", "Diff", "Effect", "Fact", "Fault", "Fork", "Frozen",
    "Happened", "Holder", "JudgedCheck", "Message", "OutputCheck", "OutputValue", "Persona",
    "PlannedCall", "Provenance", "Rubric", "Scalar", "StateCheck", "Step", "StopReason", "Task",
    "TaskKind", "ToolCall", "ToolResult", "ToolSpec", "Trajectory", "Usage", "Verdict",
]  # fmt: skip
