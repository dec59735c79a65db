"""The books of a run whose requests several processes send: one process keeps them, the others ask.

A request that a limit may forbid is sent only after the most it can cost was reserved where the
limit is. So all workers together cannot exceed it, whatever they do and whenever they die. What
they spent stands in the journals of their shards, and is told besides.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synth.core import errors
from synth.core.config import LOCAL, Config, ModelConfig
from synth.core.errors import BudgetSpent, ToolloomError
from synth.core.llm.journal import Journal
from synth.core.llm.ledger import Account, Ledger, Ticket

if TYPE_CHECKING:
    from synth.core.llm.open import Waiting  # brings openai, which takes a second to import

Known = dict[str, tuple[str, Any]]
"""Call -> hash of the request, and the reply as it is in a journal."""
Failed = tuple[str, str, str, str]
"""An error on its way between processes: class, what, where, remedy."""
Place = tuple[str | None, str]
"""What tells an endpoint from others."""
Tell = Callable[[tuple[Any, ...]], None]


def failed(error: ToolloomError) -> Failed:
    """Return an error in a form that any process can read."""
    return type(error).__name__, error.what, error.where, error.remedy


def raised(error: Failed) -> ToolloomError:
    """Return the error that `failed` wrote; the base class for one that needs more than words."""
    name, what, where, remedy = error
    kind = getattr(errors, name, ToolloomError)
    plain = kind.__init__ is ToolloomError.__init__
    return (kind if plain else ToolloomError)(what, where=where, remedy=remedy)


# --- journals --------------------------------------------------------------------------------


class HandedOut(Journal):
    """The journal of a run, whose replies to an episode go to whoever plays it."""

    def take(self, episode: str) -> Known:
        """Return the replies that an episode has had, and forget them."""
        return self._replies.pop(episode, {})

    def give(self, episode: str, known: Known) -> None:
        """Have the replies of an episode at hand."""
        if known:
            self._replies[episode] = known


class ShardJournal(HandedOut):
    """The journal of a worker: it knows what the episodes that it plays have had, from wherever."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._had: dict[str, Known] = {}

    def take(self, episode: str) -> Known:
        """Return all the replies that an episode has had, used or not, and forget them."""
        self.forget(episode)
        return self._had.pop(episode, {})

    def give(self, episode: str, known: Known) -> None:
        """Have the replies of an episode at hand."""
        super().give(episode, dict(known))
        self._had[episode] = dict(known)

    def counted(self) -> tuple[int, dict[str, str]]:
        """Return how many replies were used again and which could not be, since the last time."""
        replayed, differed = self.replayed, self.differed
        self.replayed, self.differed = 0, {}
        return replayed, differed

    def recall(self, episodes: Container[str]) -> None:
        """Do nothing: whoever hands an episode out gives its replies with it."""

    def _write(self, row: Mapping[str, Any]) -> None:
        super()._write(row)
        if "call" in row:
            episode = row["call"].partition("/")[0]
            self._had.setdefault(episode, {})[row["call"]] = (row["request"], row["reply"])


# --- books -----------------------------------------------------------------------------------


class _Numbered(Ticket):
    """A ticket that two processes know."""

    __slots__ = ("number",)
    number: int


class AskingLedger(Ledger):
    """The books as a worker sees them: it has no limit of its own, and asks where there is one.

    Args:
        tell: takes what there is to tell; see `synth.pipeline.worker.Worker.news`.
        asks: whether requests need leave.
    """

    def __init__(self, tell: Tell, *, asks: bool) -> None:
        super().__init__()
        self._tell, self._asks = tell, asks
        self._numbers = count()
        self._leave: dict[int, asyncio.Future[Failed | None]] = {}

    async def reserve(self, account: Account, prompt: int, completion: int) -> Ticket:
        """Return the right to send one request; see `Ledger`."""
        ticket = _Numbered(account, (prompt, completion))
        ticket.number = next(self._numbers)
        if self._asks:
            refusal = await self._ask(ticket)
            if refusal is not None:
                raise raised(refusal)
        return ticket

    async def _ask(self, ticket: _Numbered) -> Failed | None:
        number = ticket.number
        future: asyncio.Future[Failed | None] = asyncio.get_running_loop().create_future()
        self._leave[number] = future
        self._tell(("ask", number, ticket.account.role, *ticket.most))
        try:
            return await future
        except asyncio.CancelledError:  # the episode's time is over
            self._tell(("spent", number, None))
            raise
        finally:
            del self._leave[number]

    def hear(self, number: int, refusal: Failed | None) -> None:
        """Hear whether a request may be sent."""
        future = self._leave.get(number)
        if future is not None and not future.done():
            future.set_result(refusal)

    def close(self, ticket: Ticket) -> None:
        """Enter what a request cost; tell it once it is in the journal."""
        assert isinstance(ticket, _Numbered)
        try:
            super().close(ticket)
        finally:
            entry = ticket.entry() if ticket.sent else None
            if self._asks or entry is not None:
                self._tell(("spent", ticket.number, entry))


class Tab:
    """What one worker has reserved, and what it told.

    Args:
        answer: tells it whether a request may be sent: number, and why not.
    """

    def __init__(self, answer: Callable[[int, Failed | None], None]) -> None:
        self.answer = answer
        self.asked: dict[int, asyncio.Task[None]] = {}
        self.tickets: dict[int, Ticket] = {}
        self.told = 0
        """Requests whose cost it told."""


class SharedBooks:
    """The books of a run, kept by the process that hands episodes out.

    Args:
        config: who plays which role, and the limits.
        journal: of the run.

    Raises:
        BadConfig: a price is missing.
    """

    def __init__(self, config: Config, journal: HandedOut) -> None:
        self.journal, self.ledger = journal, Ledger(config.budget)
        roles = config.models.roles()
        self._accounts = {role: self.ledger.open(role, model) for role, model in roles.items()}
        self.ledger.restore(journal.spent())
        self._pauses: dict[Place, Waiting] = {}

    def ask(self, tab: Tab, number: int, role: str, prompt: int, completion: int) -> None:
        """Answer a worker that wants to send a request, once there is room for it or never will."""

        async def reserve() -> None:
            refusal = None
            try:
                account = self._accounts[role]
                tab.tickets[number] = await self.ledger.reserve(account, prompt, completion)
            except BudgetSpent as error:
                refusal = failed(error)
            del tab.asked[number]
            tab.answer(number, refusal)

        tab.asked[number] = asyncio.create_task(reserve())

    def spent(self, tab: Tab, number: int, entry: Mapping[str, Any] | None) -> None:
        """Enter what became of a request; None if it was not sent."""
        asked = tab.asked.pop(number, None)
        if asked is not None:
            asked.cancel()
        ticket = tab.tickets.pop(number, None)
        if ticket is not None:
            self.ledger.close(ticket)  # gives the reservation back: its cost is entered below
        if entry is not None:
            tab.told += 1
            self.ledger.restore([entry])

    def refuse(self, tab: Tab) -> None:
        """Give no leave any more to a worker that is gone."""
        for number in tuple(tab.asked):
            self.spent(tab, number, None)

    def settle(self, tab: Tab, entries: list[dict[str, Any]]) -> None:
        """Close the tab of a worker that is gone.

        Args:
            tab: what it had reserved and told.
            entries: all that its journal says it spent, in order; what was under way comes last.
        """
        for number in {*tab.asked, *tab.tickets}:
            self.spent(tab, number, None)
        self.ledger.restore(entries[tab.told :])

    def paused(self, place: Place, seconds: float, why: str) -> None:
        """Note that an endpoint wants no request for so long; a longer pause stays what it is."""
        from synth.core.llm.open import Waiting  # brings openai, which takes a second to import

        until, known = time.time() + seconds, self._pauses.get(place)
        if known is None or until > known.until:
            self._pauses[place] = Waiting(place[0] or "", until, why, 0)

    def pauses(self) -> list[tuple[Place, float, str]]:
        """Return the pauses that last: endpoint, seconds that are left, and why."""
        now = time.time()
        left = ((place, one.until - now, one.why) for place, one in self._pauses.items())
        return [pause for pause in left if pause[1] > 0]

    def waiting(self) -> list[Waiting]:
        """Return the endpoints that want no request for now."""
        now = time.time()
        return [waiting for waiting in self._pauses.values() if waiting.until > now]


def shared(config: Config) -> dict[str, ModelConfig]:
    """Return the models that all workers ask at one place, by role: not those in a worker."""
    asked = config.asked()
    return {role: model for role, model in asked.items() if not model.model.startswith(LOCAL)}


def share(config: Config, workers: int) -> Config:
    """Return the configuration of one of so many workers: together they ask no more at once.

    Args:
        config: of the run.
        workers: no more than what any endpoint may be asked at once.
    """
    shares = {
        role: model.model_copy(update={"concurrency": model.concurrency // workers})
        for role, model in shared(config).items()
    }
    return config.model_copy(update={"models": config.models.model_copy(update=shares)})
