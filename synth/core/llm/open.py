"""From configuration to models: who plays which role, at which endpoint, on whose account.

One `OpenModels` a run. Roles at the same address share connections and patience; all share the
books. `bound` gives a player its model: numbered calls, journalled replies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from synth.core.config import LOCAL, Budget, ModelConfig, Models
from synth.core.llm.client import OpenAIModel
from synth.core.llm.endpoint import Endpoint
from synth.core.llm.journal import Journal, Journalled
from synth.core.llm.ledger import Account, Ledger, most_tokens
from synth.core.protocols import LLM, ChatRequest, Reply, Sampler


class _Closable(LLM, Protocol):
    async def close(self) -> None: ...


class _Embedded(_Closable, Protocol):
    concurrency: int
    """Requests it computes at once."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """An endpoint that wants to be left alone for now."""

    endpoint: str
    until: float
    """Seconds since the epoch."""
    why: str
    queued: int
    """Requests that wait for it."""


class OpenModels:
    """The models of one run.

    Args:
        models: who plays which role.
        budget: limits of the run.
        journal: where replies are kept; its record of earlier sessions counts for the budget.
        folders: where weights of `local:` models lie.
        ledger: books that the run keeps elsewhere; its own, under `budget`, if left out.

    Raises:
        BadConfig: a key is not set, a price is missing, a model is not there.
    """

    def __init__(
        self,
        models: Models,
        *,
        budget: Budget | None = None,
        journal: Journal | None = None,
        folders: Sequence[Path] = (),
        ledger: Ledger | None = None,
    ) -> None:
        self.journal = journal
        self.ledger = Ledger(budget) if ledger is None else ledger
        if journal is not None:
            self.ledger.log, self.ledger.announce = journal.log, journal.announce
        self.endpoints: dict[tuple[str | None, str], Endpoint] = {}
        self._configs = models.roles()
        self._folders = folders
        self._models: dict[str, _Closable] = {}
        for role, config in self._configs.items():
            self._models[role] = self._open(role, config)
        if journal is not None:
            self.ledger.restore(journal.spent())

    def _open(self, role: str, config: ModelConfig) -> _Closable:
        if config.model.startswith(LOCAL):
            return _Accounted(_local(role, config, self._folders), self.ledger, role, config)
        identity = Endpoint.identity(config)
        endpoint = self.endpoints.get(identity) or Endpoint(config)
        self.endpoints[identity] = endpoint
        return OpenAIModel(config, role=role, endpoint=endpoint, ledger=self.ledger)

    def __contains__(self, role: str) -> bool:
        """Say whether a model plays a role."""
        return role in self._models

    def llm(self, role: str) -> LLM | None:
        """Return the model of a role, bare; None where no model plays it."""
        return self._models.get(role)

    def bound(self, role: str, episode: str) -> LLM:
        """Return the model of a role for one episode: its calls are numbered and journalled.

        Args:
            role: one that is configured.
            episode: identity of the episode, or of what else the calls are for.
        """
        return Journalled(self._models[role], self.journal, episode, role)

    def sampler(self, role: str) -> Sampler:
        """Return how the tokens of a role are drawn."""
        config = self._configs[role]
        return Sampler(config.temperature, config.top_p, config.max_tokens)

    def waiting(self) -> list[Waiting]:
        """Return the endpoints that want no request for now, for live progress."""
        found = []
        for endpoint in self.endpoints.values():
            until = endpoint.patience.waiting_until
            if until is not None:
                patience = endpoint.patience
                found.append(Waiting(endpoint.name, until, patience.why, patience.queued))
        return found

    async def close(self) -> None:
        """Close all connections and give loaded models back."""
        for model in self._models.values():
            await model.close()


class _Accounted:
    """A model in this process, whose requests and tokens are entered in the books.

    It is asked for no more at once than it computes: what waits here costs and reserves nothing.
    """

    def __init__(self, llm: _Embedded, ledger: Ledger, role: str, config: ModelConfig) -> None:
        self.name = llm.name
        self._llm, self._ledger = llm, ledger
        self._account: Account = ledger.open(role, config)
        self._free = asyncio.Semaphore(min(llm.concurrency, config.concurrency))

    async def complete(self, request: ChatRequest) -> Reply:
        async with self._free:
            most = most_tokens(str((request.messages, request.tools)).encode("utf-8", "replace"))
            ticket = await self._ledger.reserve(self._account, most, request.sampler.max_tokens)
            try:
                self._ledger.send(ticket, request.call, 0)
                reply = await self._llm.complete(request)
                ticket.status, ticket.usage = 200, reply.usage
                return reply
            finally:
                self._ledger.close(ticket)

    async def close(self) -> None:
        await self._llm.close()


def _local(role: str, config: ModelConfig, folders: Sequence[Path]) -> _Embedded:
    from synth.core.llm.local import open_local  # an extra, and slow to import
    from synth.core.llm.local.engine import Settings

    settings = Settings() if config.context is None else Settings(context=config.context)
    chosen = {"folders": folders} if folders else {}
    return open_local(
        config.model, role=role, timeout_s=config.timeout_s, settings=settings, **chosen
    )
