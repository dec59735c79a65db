"""Make every stored trajectory of a run again, and say whether the same comes of it.

Each call is repeated on a fresh state; every result and the final state must be those of the file,
to the byte, and the dialogue of an accepted one must say the same. Exit code 3 says that one does
not. What users and agents say in words cannot be made again: checksums guard it, not this.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Any

from synth.app._options import add_run, run_folder
from synth.app._show import bar, show
from synth.core.errors import TargetMissed
from synth.pipeline.replay import Replayed, replay


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    add_run(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Replay a run, and return the counts.

    Raises:
        TargetMissed: a trajectory differs; names the first difference.
    """
    folder = run_folder(arguments)
    with bar("replay") as progress:

        def tell(replayed: Replayed) -> None:
            differ = len(replayed.differing)
            progress.update(replayed.same + differ, replayed.planned, f"{differ} differ")

        replayed = asyncio.run(replay(folder, arguments.workspace, tell))
    left_out = dict(sorted(replayed.left_out.items()))
    if replayed.differing:
        episode, why = next(iter(replayed.differing.items()))
        count = replayed.same + len(replayed.differing)
        raise TargetMissed(
            f"{len(replayed.differing)} of {count} trajectories differ, the first: {why}",
            where=f"{folder}: episode {episode}",
            remedy="replay it with the version that made it",
        )
    if not arguments.json:
        of = f"{replayed.same:,} of {replayed.planned:,} planned trajectories"
        show(f"{of} replay to the byte, results and final states")
        if replayed.from_record:
            show(
                f"{replayed.from_record:,} of them by their record alone: their server is not here"
            )
        for owner, count in left_out.items():
            show(f"{count:,} broke off and cannot be repeated: {owner}")
        if replayed.doubled:
            show(f"{replayed.doubled:,} rows are of an episode that had one already")
    return {
        "planned": replayed.planned,
        "same": replayed.same,
        "differing": {},
        "left_out": left_out,
        "doubled": replayed.doubled,
        "from_record": replayed.from_record,
    }
