"""An episode that is stepped from outside: the one thing that all adapters are made of.

`synth.play` asks its agent for a message; here, whoever calls `step` is that agent. User, tools,
limits and judge are those of every other episode, so the reward is our own verdict.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from synth.core.errors import ModelFailed, ToolloomError
from synth.core.llm.reply import read_reply
from synth.core.protocols import AgentView, Turn, UserPlayer
from synth.core.types import Message, ToolSpec, Trajectory, Verdict
from synth.episode import play_and_judge, reward_of
from synth.play import Limits
from synth.players import unique_ids
from train.cases import Case, scripted_user

_T = TypeVar("_T")
UserOf = Callable[[Case, int], UserPlayer]
"""Makes the user of an episode from the case and a seed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of an episode."""

    trajectory: Trajectory
    verdict: Verdict

    @property
    def reward(self) -> float | None:
        """1 for a pass, 0 for a fail, None where something other than the agent broke it."""
        return reward_of(self.verdict)


class Stepped:
    """One episode. `begin` once, then `step` until there is an `outcome`; `close` in any case.

    Args:
        case: what is played.
        seed: of the user's words; recorded. The state is the task's own.
        limits: by default those of `generate`, without a clock: nobody knows how long a step takes.
        user: makes the user; by default the scripted one.
        who: name of the agent, for the record.
    """

    def __init__(
        self,
        case: Case,
        *,
        seed: int = 0,
        limits: Limits | None = None,
        user: UserOf = scripted_user,
        who: str = "outside",
    ) -> None:
        self.case, self.seed, self.who = case, seed, who
        self.outcome: Outcome | None = None
        """None until the episode is over."""
        self._limits = limits or Limits(seconds=None)
        self._user = user
        self._view: AgentView | None = None
        self._read = 0
        """How many of the messages `news` has returned."""
        self._given: asyncio.Future[Turn] | None = None
        self._asked = asyncio.Event()
        self._playing: asyncio.Task[tuple[Trajectory, Verdict]] | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """Everything the agent may see so far, its system prompt first."""
        if self.outcome is not None:
            return self.outcome.trajectory.messages
        return tuple(self._view.messages) if self._view is not None else ()

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools of this agent, in the order shown."""
        return tuple(self._view.tools) if self._view is not None else ()

    def news(self) -> tuple[Message, ...]:
        """Return what was said and returned since the last call, the agent's own words left out.

        What was kept of another episode is no word of this agent.
        """
        start, kept = self._read, len(self.case.opening())
        new = self.messages[start:]
        self._read = len(self.messages)
        return tuple(m for n, m in enumerate(new, start) if m.role != "assistant" or n < kept)

    async def begin(self) -> None:
        """Reset the environment and let the user speak.

        Raises:
            ToolloomError: it began before.
            BudgetSpent: a model that plays the user may not be asked.
        """
        if self._playing is not None:
            raise ToolloomError("the episode began before", remedy="make a new one")
        self._playing = asyncio.create_task(self._play())
        self._playing.add_done_callback(lambda _: self._asked.set())
        await self._until_asked()

    async def step(self, said: Turn) -> None:
        """Take the agent's next message; return when the next one is wanted or all is over.

        Raises:
            ToolloomError: nobody waits for a message; says why.
            BudgetSpent: a model that plays the user may not be asked any more.
        """
        given, self._given = self._given, None
        if given is None or given.done():
            raise ToolloomError(f"the episode {self._state()}", remedy="begin a new one")
        self._asked.clear()
        given.set_result(said)
        await self._until_asked()

    async def close(self) -> None:
        """End it, over or not. Harmless when called twice; an episode that is not over has none."""
        if self._playing is not None and not self._playing.done():
            self._playing.cancel()
            await asyncio.gather(self._playing, return_exceptions=True)

    async def turn(self, view: AgentView) -> Turn:
        """Return what `step` was given: to the loop, this is the agent."""
        self._view = view
        self._given = asyncio.get_running_loop().create_future()
        self._asked.set()
        turn = await self._given
        message = unique_ids(turn.message, view.messages)
        return Turn(message, False, turn.usage, turn.cut_off, turn.invalid, turn.repairs)

    def _state(self) -> str:
        """Return why nobody waits for a message."""
        if self._playing is None:
            return "has not begun"
        if not self._playing.done():
            return "is busy with the message before"
        if self._playing.cancelled():
            return "was closed"
        broken = self._playing.exception()
        return f"was broken off: {broken}" if broken is not None else "is over"

    async def _until_asked(self) -> None:
        await self._asked.wait()
        if self._playing is not None and self._playing.done():
            self.outcome = Outcome(*self._playing.result())

    async def _play(self) -> tuple[Trajectory, Verdict]:
        case, environment = self.case, self.case.environment()
        try:
            return await play_and_judge(
                {tool.name: tool for tool in case.world.tools()},
                task=case.task,
                agent=case.agent,
                environment=environment,
                agent_player=self,
                user_player=self._user(case, self.seed),
                limits=self._limits,
                episode=f"{case.task.key}-{self.seed}",
                seed=self.seed,
                prefix=case.prefix,
            )
        finally:
            await environment.close()


def turn_of(said: str | Mapping[str, Any], *, cut_off: bool = False) -> Turn:
    """Return the turn that somebody else's assistant message is.

    Args:
        said: text, or a message in the OpenAI shape; arguments of calls are JSON text or objects.
        cut_off: the limit of tokens ended it.

    Returns:
        A turn. What is no message ends the episode as the agent's own failure, as it would have
        where a model of ours had said it.
    """
    raw = {"content": said} if isinstance(said, str) else said
    reply = {"choices": [{"message": raw, "finish_reason": "length" if cut_off else "stop"}]}
    try:
        read = read_reply(reply, "the message")
    except ModelFailed:
        return Turn(Message(role="assistant"), invalid=True)
    return Turn(read.message, cut_off=cut_off, invalid=not read.usable, repairs=read.repairs)


def blocking(work: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine for a caller that waits, whether or not a loop runs in its thread.

    Every such coroutine runs in one thread of its own, so an episode's steps meet one another.
    """
    return asyncio.run_coroutine_threadsafe(work, _loop(os.getpid())).result()


_loops: dict[int, asyncio.AbstractEventLoop] = {}
_making: dict[int, threading.Lock] = {}


def _loop(process: int) -> asyncio.AbstractEventLoop:
    """Return the loop of this process: a forked one has none of its parent's threads.

    Nor does it have whoever held its parent's lock: each process has its own.
    """
    with _making.setdefault(process, threading.Lock()):
        if process not in _loops:
            loop = _loops[process] = asyncio.new_event_loop()
            name = f"episodes-{process}"
            threading.Thread(target=loop.run_forever, name=name, daemon=True).start()
        return _loops[process]
