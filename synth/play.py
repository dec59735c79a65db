"""One episode: user and agent talk, the agent calls tools, the environment answers.

K2 report 3.1.1, multi-turn trajectory generation. The loop knows nothing of who plays: a model, the
reference agent, a person. Whatever is not the agent's doing (an endpoint, the environment, the
user) ends the episode with a fault and never becomes a verdict.
"""

from __future__ import annotations

import asyncio
from typing import TypedDict, Unpack

import orjson

from synth.core.canonical import content_key
from synth.core.config import Limits
from synth.core.errors import BudgetSpent, DiskFull, ModelFailed, ToolloomError
from synth.core.hearing import hearing
from synth.core.protocols import AgentPlayer, AgentView, Environment, Turn, UserPlayer, UserView
from synth.core.types import (
    Agent,
    CallError,
    Diff,
    Effect,
    Fault,
    Message,
    Step,
    StopReason,
    Task,
    ToolCall,
    ToolResult,
    Trajectory,
    Usage,
)

__all__ = ["Limits", "Stage", "play"]

DIFF_S = 5.0
"""Seconds that the environment of a broken episode has to say what changed."""


class Stage(TypedDict):
    """Everything one episode needs."""

    task: Task
    agent: Agent
    environment: Environment
    agent_player: AgentPlayer
    user_player: UserPlayer
    limits: Limits
    episode: str
    """Identity of the episode."""
    seed: int
    """Recorded; the state comes from `task.blueprint.state_seed`."""


async def play(**stage: Unpack[Stage]) -> Trajectory:
    """Play one episode to its end.

    Args:
        **stage: see `Stage`.

    Returns:
        The whole episode. `fault` names who failed where the stop reason is `error`.

    Raises:
        BudgetSpent: a model may not be asked any more; there is no episode.
        DiskFull: a reply could not be journalled; there is no episode.
    """
    run = _Run(stage)
    try:
        async with asyncio.timeout(stage["limits"].seconds):
            stop = await run.converse()
            return run.trajectory(stop, await run.final_diff())
    except TimeoutError as error:
        why = str(error) or f"no end in {stage['limits'].seconds} s"
        return await run.failed(Fault.INFRASTRUCTURE, why)
    except (BudgetSpent, DiskFull):  # no one's failure: a later session plays the episode
        raise
    except ModelFailed as error:
        return await run.failed(Fault.INFRASTRUCTURE, str(error))
    except ToolloomError as error:
        return await run.failed(run.acting, str(error))
    except Exception as error:  # the one boundary where a bug in a player or world becomes data
        return await run.failed(run.acting, f"{type(error).__name__}: {error}")


class _Run:
    """The state of one episode while it is played."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.task, self.agent = stage["task"], stage["agent"]
        self.environment = stage["environment"]
        self.messages = [Message(role="system", content=self.agent.system)]
        self.said: list[Message] = []
        """What the user hears: the words of both sides, without calls and results."""
        self.steps: list[Step] = []
        self.usage: dict[str, Usage] = {}
        self.acting = Fault.ENVIRONMENT
        """Who is to blame if something is raised now."""
        self._diff: Diff | None = ()
        """The current net change, where it is known: none before the first call."""

    async def converse(self) -> StopReason:
        """Reset the environment, then alternate until somebody ends it."""
        environment, limits = self.environment, self.stage["limits"]
        await environment.reset(self.task.blueprint.state_seed)
        specs = {spec.name: spec for spec in environment.tools()}
        # An agent has the tools of its own set, whatever else the environment offers.
        tools = [specs[name] for name in self.agent.tools if name in specs]
        self.effects = {spec.name: spec.effect for spec in tools}
        view = AgentView(self.messages, tools)
        last_act = await self._user()
        if last_act:
            return StopReason.USER_DONE
        for _ in range(limits.turns):
            message, stop = await self._agent(view)
            if stop is not None:
                return stop
            if message.tool_calls:
                if len(self.steps) + len(message.tool_calls) > limits.calls:
                    return StopReason.MAX_CALLS
                await self._execute(message.tool_calls)
            elif not (message.content or "").strip():
                return StopReason.AGENT_INVALID
            elif last_act:
                return StopReason.USER_DONE
            elif await self._user():
                # A goodbye that also answers a question ("yes, go on, bye") is not yet the end:
                # the agent would never act on it (tau2-bench #297).
                hears = hearing(self.task.persona.language)
                last_act = bool(hears.questions(message.content or ""))
                if not last_act:
                    return StopReason.USER_DONE
        return StopReason.MAX_TURNS

    async def _agent(self, view: AgentView) -> tuple[Message, StopReason | None]:
        """Take the agent's turn; return the message, and why nothing follows from it, if so."""
        self.acting = Fault.AGENT
        turn = await self.stage["agent_player"].turn(view)
        message = turn.message
        self._account("agent", turn)
        self.messages.append(message)
        if message.content:
            plain = not (message.tool_calls or message.reasoning)
            heard = message if plain else Message(role="assistant", content=message.content)
            self.said.append(heard)
        if turn.cut_off:
            return message, StopReason.CUT_OFF
        return message, StopReason.AGENT_INVALID if turn.invalid else None

    async def _user(self) -> bool:
        """Take the user's turn; return whether they want to end."""
        self.acting = Fault.USER
        blueprint = self.task.blueprint
        facts = blueprint.opening + blueprint.withheld + blueprint.background
        opening = blueprint.opening
        view = UserView(self.task.persona, blueprint.clauses, facts, self.said, opening)
        turn = await self.stage["user_player"].turn(view)
        content = turn.message.content
        if turn.message.role != "user" or not content or turn.message.tool_calls:
            raise ToolloomError("the user's message is not plain text of the user's role")
        self._account("user", turn)
        self.messages.append(turn.message)
        self.said.append(turn.message)
        return turn.done

    async def _execute(self, calls: tuple[ToolCall, ...]) -> None:
        asked = len(self.messages) - 1
        for call in calls:
            result = _refusal(call, self.effects)
            effect = self.effects.get(call.name, Effect.UNKNOWN)
            state = None
            if result is None:
                self.acting = Fault.ENVIRONMENT
                self._diff = None
                result = await self.environment.call(call.name, call.value or {})
                if effect is not Effect.READ:
                    self._diff = await self.environment.diff()
                    state = content_key(self._diff)
            self.steps.append(
                Step(message=asked, call=call, result=result, effect=effect, state=state)
            )
            self.messages.append(Message(role="tool", content=result.content, tool_call_id=call.id))

    async def final_diff(self) -> Diff:
        """Return the net change at the end."""
        self.acting = Fault.ENVIRONMENT
        return await self.environment.diff() if self._diff is None else self._diff

    def _account(self, role: str, turn: Turn) -> None:
        if turn.usage is not None:
            spent = self.usage.get(role)
            self.usage[role] = turn.usage if spent is None else spent + turn.usage

    async def failed(self, fault: Fault, error: str) -> Trajectory:
        """Return what there is of an episode that somebody broke; says so if no one knows its end.

        Args:
            fault: who broke it.
            error: one line.
        """
        try:
            async with asyncio.timeout(DIFF_S):
                diff = await self.environment.diff() if self._diff is None else self._diff
        except Exception:  # the environment is broken: its first error is the one that matters
            diff, error = (), f"{error}; the final state is unknown"
        return self.trajectory(StopReason.ERROR, diff, fault, error)

    def trajectory(
        self, stop: StopReason, diff: Diff, fault: Fault | None = None, error: str | None = None
    ) -> Trajectory:
        """Put the record together; its parts are shared, not copied."""
        stage, blueprint = self.stage, self.task.blueprint
        return Trajectory(
            episode=stage["episode"],
            task=self.task.key,
            agent=self.agent.key,
            world=blueprint.world,
            kind=blueprint.kind,
            real=self.environment.real,
            seed=stage["seed"],
            messages=tuple(self.messages),
            steps=tuple(self.steps),
            diff=diff,
            stop=stop,
            players={"agent": stage["agent_player"].who, "user": stage["user_player"].who},
            fault=fault,
            error=error,
            usage=self.usage,
        )


def _refusal(call: ToolCall, tools: dict[str, Effect]) -> ToolResult | None:
    """Return the error of a call that never reaches the environment, or None."""
    if call.name not in tools:
        known = ", ".join(sorted(tools)) or "none"
        error = CallError(code="unknown_tool", message=f"No tool {call.name!r}. Tools: {known}.")
    elif call.value is None:
        error = CallError(code="invalid_arguments", message="The arguments are not a JSON object.")
    else:
        return None
    content = orjson.dumps({"error": error.code, "message": error.message}).decode()
    return ToolResult(ok=False, content=content, error=error)
