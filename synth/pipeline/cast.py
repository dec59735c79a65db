"""Who plays an episode, and what the loop has to know of the models among them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from simulators.imagined.environment import ImaginedEnvironment
from simulators.imagined.scripted import TwinPlayer
from simulators.imagined.world import ImaginedWorld
from simulators.users.model import ModelUser
from simulators.users.scripted import ScriptedUser
from synth.core.config import Config
from synth.core.errors import BadConfig, BudgetSpent, ModelFailed
from synth.core.protocols import LLM, AgentPlayer, ChatRequest, Reply, UserPlayer
from synth.core.seeds import rng
from synth.core.types import Agent
from synth.core.users import draw_asides
from synth.players import ModelAgent
from synth.reference import ErrorRates, ReferenceAgent
from synth.run import Planned

if TYPE_CHECKING:
    from synth.core.llm.journal import Journal
    from synth.core.llm.ledger import Ledger
    from synth.core.llm.open import OpenModels, Waiting  # openai takes a second to import

HELD_S = 2.0
"""Nothing is begun while an endpoint wants no request for longer than that."""


class Books(Protocol):
    """What models cost, and what they wait for."""

    @property
    def journal(self) -> Journal | None:
        """Return the journal of the run."""

    @property
    def ledger(self) -> Ledger:
        """Return what was spent, and the limits."""

    def waiting(self) -> list[Waiting]:
        """Return the endpoints that want no request for now."""


def costs(books: Books | None) -> dict[str, Any]:
    """Return what models cost in all sessions, and what this one found in the journal."""
    if books is None or books.journal is None:
        return {"cost": None, "journal": None}
    journal, ledger = books.journal, books.ledger
    found = {name: getattr(journal, name) for name in ("replayed", "damaged", "differed")}
    return {"cost": {"by_role": ledger.rows(), "total": ledger.total()}, "journal": found}


class Holds:
    """Tells whether endpoints want no request for a good while.

    Args:
        waiting: returns those that want none for now.
    """

    def __init__(self, waiting: Callable[[], Sequence[Waiting]]) -> None:
        self._waiting, self._holds = waiting, False
        self.last = -math.inf
        """When it last was so (monotonic)."""

    def held(self) -> bool:
        """Say whether it is so now; look often."""
        least = 0.0 if self._holds else HELD_S  # one that is waited for is waited for to its end
        self._holds = any(one.until - time.time() > least for one in self._waiting())
        if self._holds:
            self.last = time.monotonic()
        return self._holds


class Cast:
    """Who plays which role: a model where one is configured, a program otherwise.

    Args:
        config: names the models, and how often the reference agent errs.
        models: those that are open.
    """

    def __init__(self, config: Config, models: OpenModels | None = None) -> None:
        self.models = models
        self.over = False
        """No model is asked any more."""
        self._holds = None if models is None else Holds(models.waiting)
        self._put_off: set[str] = set()
        self._candidates = config.models.drafts
        if self._candidates > 1 and config.models.critic is None:
            raise BadConfig(
                "nobody chooses among the drafts of the user",
                where="models.user.candidates",
                remedy="name a [models.critic], or ask for one",
            )
        self._rates = ErrorRates.uniform(config.generate.errors.rate)
        self._asides = config.generate.users.asides

    def agent(self, planned: Planned, agent: Agent) -> AgentPlayer:
        """Return the agent of an episode."""
        if self.models is None or "agent" not in self.models:
            return ReferenceAgent(planned.task, agent, rng(planned.seed, "agent"), self._rates)
        return ModelAgent(self._bound("agent", planned), self.models.sampler("agent"))

    def user(self, planned: Planned) -> UserPlayer:
        """Return the user of an episode."""
        if self.models is None or "user" not in self.models:
            asides = draw_asides(self._asides, rng(planned.seed, "asides"))
            return ScriptedUser(planned.task.request, rng(planned.seed, "user"), asides)
        critic = self._bound("critic", planned) if self._candidates > 1 else None
        sampler = self.models.sampler("user")
        return ModelUser(self._bound("user", planned), sampler, critic, self._candidates)

    def world(self, planned: Planned, world: ImaginedWorld) -> ImaginedEnvironment:
        """Return the tools of an episode that a model plays, or a program that does as SQL does."""
        if self.models is None or "world" not in self.models:
            return world.imagined(TwinPlayer(world.engine))
        return world.imagined(self._bound("world", planned), self.models.sampler("world"))

    def _bound(self, role: str, planned: Planned) -> LLM:
        assert self.models is not None
        return _Watched(self.models.bound(role, planned.episode), self, planned.episode)

    def end(self) -> None:
        """Let no model be asked any more; replies under way still arrive.

        What waits for its turn at an endpoint is not under way: nobody would wait for it.
        """
        self.over = True
        if self.models is not None:
            for endpoint in self.models.endpoints.values():
                endpoint.patience.end()

    def held(self) -> bool:
        """Say whether an endpoint wants no request for a good while; look often."""
        return self._holds is not None and self._holds.held()

    def note(self, episode: str, since: float) -> None:
        """Note that a call of an episode failed, which began at `since` (monotonic)."""
        if self._holds is not None and (self._holds.held() or self._holds.last >= since):
            self._put_off.add(episode)

    def is_put_off(self, episode: str) -> bool:
        """Say, once, whether an episode broke because an endpoint wanted to be left alone."""
        if episode not in self._put_off:
            return False
        self._put_off.remove(episode)
        return True

    def recall(self, episodes: Iterable[str]) -> None:
        """Have the replies at hand that these episodes have had in this session."""
        if self.models is not None and self.models.journal is not None:
            self.models.journal.recall(frozenset(episodes))

    def forget(self, episode: str) -> None:
        """Give back the memory of an episode that is finished."""
        if self.models is not None and self.models.journal is not None:
            self.models.journal.forget(episode)


class _Watched:
    """The model of one role of one episode: asked for nothing more once the run ends."""

    __slots__ = ("_cast", "_episode", "_llm", "name")

    def __init__(self, llm: LLM, cast: Cast, episode: str) -> None:
        self.name = llm.name
        self._llm, self._cast, self._episode = llm, cast, episode

    async def complete(self, request: ChatRequest) -> Reply:
        """Ask the model.

        Raises:
            ModelFailed: no usable reply; the cast knows if that is for want of patience only.
            BudgetSpent: the run is over; the episode is no one's failure.
        """
        if self._cast.over:
            raise BudgetSpent("the run is over")
        since = time.monotonic()
        try:
            return await self._llm.complete(request)
        except (ModelFailed, asyncio.CancelledError):  # the latter: the episode's time is over
            self._cast.note(self._episode, since)
            raise
