"""What workers of a run wrote, and how it becomes part of the run: `RUN/shards/NAME/`.

    episodes-0.jsonl     the episodes that this worker finished
    calls-0.jsonl        the replies of models that it got, and what they cost
    .lock                held for as long as the worker lives

A shard has one writer, and is written before anybody is told. It becomes part of the run when its
worker is gone: episodes are copied where the run lacks them, the journal moves as a whole. Both can
be done again after a crash at any point, so nothing is lost or there twice.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from synth.core.errors import BadPlace, ToolloomError
from synth.core.locks import lock_folder
from synth.rowfile import read_rows
from synth.run import Episode, Run

SHARDS = "shards"
GONE_S = 120.0
"""Seconds that a worker has to end after whoever gave it work has ended. If its machine is lost,
the lock lasts as long as the server of the shared folder believes in it: 90 s is usual for NFS."""
_LOOK_S = 0.1


class Held(ToolloomError):
    """The worker that writes a shard does not end. Nothing of it is lost, and nothing taken."""


async def merge_all(run: Run) -> None:
    """Make part of a run what earlier sessions left behind.

    Raises:
        Held: a worker of one of them does not end.
    """
    folder = run.path / SHARDS
    for shard in sorted(folder.iterdir()) if folder.is_dir() else ():
        await merge(run, shard)


async def merge(run: Run, shard: Path) -> list[dict[str, Any]]:
    """Make a shard part of its run once its worker is gone.

    Returns:
        What the worker spent, in order; requests that were under way when it ended come last.

    Raises:
        Held: the worker does not end.
        BadRow: a row is damaged; names file and line.
        DiskFull: the shard is as it was.
    """
    if not shard.is_dir():
        return []
    lock = await _locked(shard)
    try:
        for episode in read_rows(shard / "episodes-0.jsonl", Episode):
            if episode.trajectory.episode not in run.episodes:
                run.add_episode(episode)
        spent = _spent(shard)
        calls = shard / "calls-0.jsonl"
        if calls.exists() and calls.stat().st_size:
            calls.rename(run.path / f"calls-{_next(run.path)}.jsonl")
    finally:
        os.close(lock)
    shutil.rmtree(shard, ignore_errors=True)  # what is left of it is merged again
    with suppress(OSError):  # others are there
        shard.parent.rmdir()
    return spent


class _Everything:
    """Contains any episode."""

    def __contains__(self, episode: object) -> bool:
        return True


def _spent(shard: Path) -> list[dict[str, Any]]:
    if not (shard / "calls-0.jsonl").exists():
        return []
    from synth.core.llm.journal import Journal

    journal = Journal(shard, finished=_Everything())  # without its replies
    journal.close()
    return journal.spent()


async def _locked(shard: Path) -> int:
    """Wait until the worker that writes a shard is gone; return the lock."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + GONE_S
    while True:
        try:
            return lock_folder(shard, "worker's shard")
        except BadPlace:
            raise
        except ToolloomError as error:
            if loop.time() > deadline:
                raise Held(
                    f"{error.what}, and does not end",
                    where=str(shard),
                    remedy="end it, or its machine; the same command then takes over what it wrote",
                ) from error
            await asyncio.sleep(_LOOK_S)


def _next(folder: Path) -> int:
    """Return a number that no journal of the run has."""
    taken = [path.stem.partition("-")[2] for path in folder.glob("calls-*.jsonl")]
    return 1 + max((int(number) for number in taken if number.isdigit()), default=0)
