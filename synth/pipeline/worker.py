"""A worker: plays the episodes that it is given, and writes what it finished before it says so.

It is made to be a Ray actor, and knows nothing of Ray. Its models are its own, the books are not:
where a budget is limited it asks for leave before each request. All that it has to tell besides its
episodes waits in one queue, `news`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synth.core import jsonl
from synth.core.config import Config
from synth.core.errors import BadInput, ToolloomError
from synth.core.locks import lock_folder
from synth.core.protocols import World
from synth.core.types import Agent, Fault
from synth.pipeline.books import AskingLedger, Failed, Known, Place, ShardJournal, failed
from synth.pipeline.cast import Cast
from synth.pipeline.compose import made_of
from synth.pipeline.engine import LocalEngine
from synth.pipeline.shards import SHARDS
from synth.pipeline.worlds import open_worlds
from synth.rowfile import sealed
from synth.run import Planned

if TYPE_CHECKING:
    from synth.core.llm.open import OpenModels  # openai takes a second to import


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker is to be."""

    name: str
    """Of its shard; no other worker ever has it."""
    config: Config
    run: Path
    workspace: Path
    here: Path
    """Where relative paths of the configuration begin."""
    made_of: Mapping[str, str]
    """Content keys of applications and prompts: a worker must have the same."""
    limited: bool = False
    """Whether requests, tokens or money are."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an episode."""

    episode: bytes | None = None
    """As JSON; None where an endpoint put it off, or there was an error."""
    known: Known = field(default_factory=dict)
    """The replies that an episode has had that was put off."""
    failed: Failed | None = None
    replayed: int = 0
    """Replies that were used again, since the last answer."""
    differed: Mapping[str, str] = field(default_factory=dict)
    """Those that could not be, since then."""


class Worker:
    """Plays episodes on the machine that it is on.

    Args:
        order: what it is to be.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        self._news: list[tuple[Any, ...]] = []
        self._told = asyncio.Event()
        self._worlds: dict[str, World] = {}
        self._models: OpenModels | None = None
        self._journal: ShardJournal | None = None
        self._playing: set[asyncio.Task[Answer]] = set()
        self._ended = False

    async def open(self, keys: Mapping[str, str]) -> Failed | None:
        """Open the worlds, the models and the shard; return why that cannot be done.

        Args:
            keys: variable -> key, for those that this machine's environment lacks. They are kept
                in memory only.
        """
        for variable, key in keys.items():
            if not os.environ.get(variable, "").strip():
                os.environ[variable] = key
        try:
            self._open()
        except ToolloomError as error:
            return failed(error)
        return None

    def _open(self) -> None:
        order = self.order
        machine = os.uname().nodename
        if not (order.run / "config.json").exists():
            raise BadInput(
                f"the machine {machine!r} does not see the run",
                where=str(order.run),
                remedy="put the workspace in a folder that all machines share",
            )
        with suppress(OSError):
            os.chdir(order.here)
        self._worlds = open_worlds(order.config, order.workspace)
        self._check(made_of(self._worlds), machine)
        shard = order.run / SHARDS / order.name
        self._lock = lock_folder(shard, "worker's shard")
        self._episodes = jsonl.Appender(shard / "episodes-0.jsonl")
        if order.config.models.roles():
            self._open_models(shard)
        self._cast = Cast(order.config, self._models)
        self._engine = LocalEngine(order.config, self._worlds, cast=self._cast)

    def _check(self, found: Mapping[str, str], machine: str) -> None:
        """Refuse to play where the results would be others.

        Raises:
            BadInput: applications or prompts are not those of the run.
        """
        names = self.order.made_of.keys() | found.keys()
        other = [name for name in sorted(names) if self.order.made_of.get(name) != found.get(name)]
        if other:
            raise BadInput(
                f"other on the machine {machine!r} than here: {', '.join(other)}",
                where=str(self.order.run),
                remedy="install the same toolloom, applications included, on all machines",
            )

    def _open_models(self, shard: Path) -> None:
        from synth.core.llm.open import OpenModels  # openai takes a second to import

        self._journal = ShardJournal(shard)
        self._ledger = AskingLedger(self._tell, asks=self.order.limited)
        self._models = OpenModels(
            self.order.config.models,
            journal=self._journal,
            folders=[self.order.workspace / "cache" / "models"],
            ledger=self._ledger,
        )
        for key, endpoint in self._models.endpoints.items():
            endpoint.patience.on_pause = self._on_pause(key)

    def _on_pause(self, key: Place) -> Callable[[float, str], None]:
        return lambda seconds, why: self._tell(("pause", key, seconds, why))

    # --- episodes ----------------------------------------------------------------------------

    async def play(self, planned: bytes, agent: bytes, patient: bool, known: Known) -> Answer:
        """Play an episode; it is in the shard when this returns.

        Args:
            planned: the episode, as JSON: that costs a tenth of what pickling it does.
            agent: whose part is played, as JSON.
            patient: whether an endpoint may put it off.
            known: the replies that it has had.
        """
        task = asyncio.ensure_future(
            self._play(
                Planned.model_validate_json(planned),
                Agent.model_validate_json(agent),
                patient,
                known,
            )
        )
        self._playing.add(task)
        task.add_done_callback(self._playing.discard)
        return await task

    async def _play(self, planned: Planned, agent: Agent, patient: bool, known: Known) -> Answer:
        journal, row, error = self._journal, None, None
        if journal is not None:
            journal.give(planned.episode, known)
        try:
            episode = await self._engine.play(planned, agent, patient=patient)
            if episode is not None:
                row = episode.model_dump_json().encode()
                if episode.trajectory.fault is not Fault.INFRASTRUCTURE:
                    self._episodes.append(sealed(episode))
        except ToolloomError as raised:
            row, error = None, failed(raised)
        if journal is None:
            return Answer(row, failed=error)
        had = journal.take(planned.episode)
        put_off = row is None and error is None
        replayed, differed = journal.counted()
        return Answer(row, had if put_off else {}, error, replayed, differed)

    # --- what is told and heard --------------------------------------------------------------

    def _tell(self, item: tuple[Any, ...]) -> None:
        self._news.append(item)
        self._told.set()

    async def news(self) -> list[tuple[Any, ...]]:
        """Return what there is to tell, in order, as soon as there is anything.

        ("ask", n, role, prompt, completion)   may request n be sent? `leave` answers
        ("spent", n, entry)       what became of request n; entry is None if it was not sent
        ("pause", endpoint, seconds, why)      an endpoint wants no request for so long
        ("end",)                  there will be no more
        """
        await self._told.wait()
        self._told.clear()
        news, self._news = self._news, []
        return news

    async def leave(self, number: int, refusal: Failed | None) -> None:
        """Hear whether a request may be sent."""
        self._ledger.hear(number, refusal)

    async def pause(self, key: Place, seconds: float, why: str) -> None:
        """Hear that an endpoint told another worker to leave it alone."""
        if self._models is not None and key in self._models.endpoints:
            self._models.endpoints[key].patience.pause(seconds, why)

    async def end(self) -> None:
        """Ask no model any more; replies under way still arrive."""
        self._cast.end()

    async def close(self) -> None:
        """End what is played, write everything down, and tell that there will be no more."""
        playing = list(self._playing)
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
        await self._engine.close()
        if self._models is not None:
            await self._models.close()
        if self._journal is not None:
            self._journal.close()
        for world in self._worlds.values():
            await world.close()
        self._episodes.close()
        os.close(self._lock)
        self._tell(("end",))
