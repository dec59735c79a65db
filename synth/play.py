"""One episode: user and agent talk, the agent calls tools, the environment answers.

K2 report 3.1.1, multi-turn trajectory generation. The loop knows nothing of who plays: a model, the
reference agent, a person. Whatever is not the agent's doing (an endpoint, the environment, the
user) ends the episode with a fault and never becomes a verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict, Unpack

from synth.core.canonical import content_key
from synth.core.config import Limits
from synth.core.errors import BudgetSpent, DiskFull, ModelFailed, ToolloomError
from synth.core.hearing import hearing
from synth.core.messages import USERS_CALL
from synth.core.protocols import (
    AgentPlayer,
    AgentView,
    Environment,
    Recalling,
    Shared,
    Turn,
    UserPlayer,
    UserView,
    run_call,
)
from synth.core.types import (
    Agent,
    Diff,
    Effect,
    Fault,
    Holder,
    Message,
    Step,
    StopReason,
    Task,
    ToolCall,
    ToolResult,
    ToolSpec,
    Trajectory,
    Usage,
)
from synth.fork import Prefix, reached
from synth.refused import refusal, unreadable

__all__ = ["Limits", "Stage", "play"]

ACTS = 12
"""Calls of their own tools that a user may make in an episode."""
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
    prefix: NotRequired[Prefix | None]
    """What is kept of another episode: this one goes on from there."""


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
        self.user_tools: tuple[ToolSpec, ...] = ()
        """What the user holds, in tasks that are about it."""
        self.usage: dict[str, Usage] = {}
        self.acting = Fault.ENVIRONMENT
        """Who is to blame if something is raised now."""
        self._diff: Diff | None = ()
        """The current net change, where it is known: none before the first call."""
        self._last_act = False
        """The user has said goodbye; the agent has one more message."""

    async def converse(self) -> StopReason:
        """Reset the environment, then alternate until somebody ends it."""
        environment, limits = self.environment, self.stage["limits"]
        await environment.reset(self.task.blueprint.state_seed)
        specs = {spec.name: spec for spec in environment.tools()}
        # An agent has the tools of its own set, whatever else the environment offers.
        tools = [specs[name] for name in self.agent.tools if name in specs]
        if self.task.blueprint.acts and isinstance(environment, Shared):
            self.user_tools = environment.user_tools()
        self.effects = {spec.name: spec.effect for spec in tools}
        view = AgentView(self.messages, tools)
        prefix = self.stage.get("prefix")
        if prefix is not None:
            stop = await self._go_on(prefix, view)
        else:
            stop = StopReason.USER_DONE if await self._user() else None
        spoken = sum(message.role == "assistant" for message in self.messages)
        for _ in range(limits.turns - spoken):
            if stop is not None:
                return stop
            message, stop = await self._agent(view)
            if stop is None:
                stop = await self._follow(message)
        return stop or StopReason.MAX_TURNS

    async def _follow(self, message: Message) -> StopReason | None:
        """Do what follows from a message of the agent; return why it was the last one, if so."""
        if message.tool_calls:
            if self._made("agent") + len(message.tool_calls) > self.stage["limits"].calls:
                return StopReason.MAX_CALLS
            await self._execute(message.tool_calls)
            return None
        if not (message.content or "").strip():
            return StopReason.AGENT_INVALID
        if self._last_act:
            return StopReason.USER_DONE
        if not await self._user():
            return None
        # A goodbye that also answers a question ("yes, go on, bye") is not yet the end:
        # the agent would never act on it (tau2-bench #297).
        hears = hearing(self.task.persona.language)
        self._last_act = bool(hears.questions(message.content or ""))
        return None if self._last_act else StopReason.USER_DONE

    # --- a beginning that another episode had ------------------------------------------------

    async def _go_on(self, prefix: Prefix, view: AgentView) -> StopReason | None:
        """Come to where another episode was; return why nothing follows from that, if so.

        Players that remember more than what they are shown recall it. Nobody is asked for what was
        said before.

        Raises:
            ToolloomError: the agent has another system prompt, or a call gives something else now.
        """
        if prefix.messages[0] != self.messages[0]:
            raise ToolloomError("the agent that goes on has another system prompt")
        for place, message in enumerate(prefix.messages[1:], start=1):
            acts = [step for step in prefix.steps if step.by == "user" and step.message == place]
            self._remember([step.call for step in acts], [step.result for step in acts])
            self._recall(message, view)
            self.messages.append(message)
            if message.role != "tool":
                self._hear(message)
        for step in prefix.steps:
            await self._repeat(step)
        self._last_act = prefix.farewell
        asked = max((i for i, m in enumerate(self.messages) if m.role == "assistant"), default=0)
        after = self.messages[asked + 1 :]
        if any(message.role == "user" for message in after) or not asked:
            return None
        message = self.messages[asked]
        pending = message.tool_calls[len(after) :]
        if message.tool_calls and not pending:
            return None
        if not pending:
            return await self._follow(message)
        if self._made("agent") + len(pending) > self.stage["limits"].calls:
            return StopReason.MAX_CALLS
        await self._execute(pending, asked)
        return None

    def _recall(self, message: Message, view: AgentView) -> None:
        agent, user = self.stage["agent_player"], self.stage["user_player"]
        if message.role == "assistant" and isinstance(agent, Recalling):
            self.acting = Fault.AGENT
            agent.recall(view, message)
        elif message.role == "user" and isinstance(user, Recalling):
            self.acting = Fault.USER
            user.recall(self._users_view(), message)

    async def _repeat(self, step: Step) -> None:
        """Make a call again that was made before."""
        self.acting = Fault.ENVIRONMENT
        self.steps.append(step)
        if not reached(step):
            return
        self._diff = None
        user, arguments = self.task.blueprint.user, step.call.value or {}
        result = await run_call(self.environment, step.by, user, step.call.name, arguments)
        if result != step.result:
            what = f"{step.call.name} does not give again what it gave before the fork"
            raise ToolloomError(what, where=f"call {len(self.steps)}")

    # --- turns -------------------------------------------------------------------------------

    async def _agent(self, view: AgentView) -> tuple[Message, StopReason | None]:
        """Take the agent's turn; return the message, and why nothing follows from it, if so."""
        self.acting = Fault.AGENT
        turn = await self.stage["agent_player"].turn(view)
        message = turn.message
        self._account("agent", turn)
        self.messages.append(message)
        self._hear(message)
        if turn.cut_off:
            return message, StopReason.CUT_OFF
        return message, StopReason.AGENT_INVALID if turn.invalid else None

    def _hear(self, message: Message) -> None:
        """Note what is said aloud of a message."""
        if message.content:
            plain = not (message.tool_calls or message.reasoning)
            self.said.append(
                message if plain else Message(role=message.role, content=message.content)
            )

    def _users_view(self) -> UserView:
        blueprint = self.task.blueprint
        facts = blueprint.opening + blueprint.withheld + blueprint.background
        return UserView(
            self.task.persona,
            blueprint.clauses,
            facts,
            self.said,
            blueprint.opening,
            acts=blueprint.acts,
            tools=self.user_tools,
            retracted=blueprint.retracted,
        )

    async def _user(self) -> bool:
        """Take the user's turn, calls of their own tools included; say if they want to end."""
        while True:
            self.acting = Fault.USER
            turn = await self.stage["user_player"].turn(self._users_view())
            message = turn.message
            if message.role != "user" or not (message.content or message.tool_calls):
                raise ToolloomError("the user's message is not plain text of the user's role")
            if message.tool_calls and not self.user_tools:
                raise ToolloomError("the user's message has calls, and the user has no tools")
            self._account("user", turn)
            if not message.tool_calls:
                break
            await self._act(message.tool_calls)
        self.messages.append(message)
        self._hear(message)
        return turn.done

    async def _act(self, calls: tuple[ToolCall, ...]) -> None:
        """Make calls of the user, of which nothing is in the dialogue but what they say next."""
        made = self._made("user")
        if made + len(calls) > ACTS:
            raise ToolloomError(f"the user calls their tools more than {ACTS} times")
        named = [
            ToolCall(id=f"{USERS_CALL}{number}", name=call.name, arguments=call.arguments)
            for number, call in enumerate(calls, made + 1)
        ]
        effects = {spec.name: spec.effect for spec in self.user_tools}
        results = [
            await self._step(call, "user", effects, len(self.messages), unreadable(call))
            for call in named
        ]
        self._remember(named, results)

    def _remember(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> None:
        """Note for the user what they did themselves, and what came of it."""
        if calls:
            self.said.append(Message(role="user", tool_calls=tuple(calls)))
        for call, result in zip(calls, results, strict=True):
            self.said.append(Message(role="tool", content=result.content, tool_call_id=call.id))

    def _made(self, by: Holder) -> int:
        return sum(step.by == by for step in self.steps)

    async def _execute(self, calls: tuple[ToolCall, ...], asked: int = -1) -> None:
        """Make calls that the message at the place `asked` wants; by default, the last one."""
        asked = asked if asked >= 0 else len(self.messages) - 1
        for call in calls:
            refused = refusal(call, self.effects)
            result = await self._step(call, "agent", self.effects, asked, refused)
            self.messages.append(Message(role="tool", content=result.content, tool_call_id=call.id))

    async def _step(
        self,
        call: ToolCall,
        by: Holder,
        effects: Mapping[str, Effect],
        message: int,
        refused: ToolResult | None,
    ) -> ToolResult:
        """Make one call, unless it was refused, and write down what came of it."""
        effect, state, result = effects.get(call.name, Effect.UNKNOWN), None, refused
        if result is None:
            self.acting, self._diff = Fault.ENVIRONMENT, None
            user, arguments = self.task.blueprint.user, call.value or {}
            result = await run_call(self.environment, by, user, call.name, arguments)
            if effect is not Effect.READ:
                self._diff = await self.environment.diff()
                state = content_key(self._diff)
        self.steps.append(
            Step(message=message, call=call, result=result, effect=effect, state=state, by=by)
        )
        return result

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
        prefix = stage.get("prefix")
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
            fork=None if prefix is None else prefix.fork,
        )
