"""An embedded model plays the tools of an application, beside the executable twin.

    python bench/bench_imagined.py PATH.gguf FOLDER [--start 0] [--episodes 20]
        [--application bank] [--excerpt 600] [--seed 0]

The reference agent makes no mistakes here and the user is scripted: what fails is the world's
doing. FOLDER holds a line for each finished episode and the journal of replies: repeated, the
command goes on with what is missing. Seconds are CPU seconds of this process, loading left out.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from simulators.imagined.world import ImaginedWorld
from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.users.scripted import ScriptedUser
from synth.core import jsonl
from synth.core.config import Limits, load_config
from synth.core.imagined import Imagined, drift
from synth.core.llm.journal import Journal, Journalled
from synth.core.llm.local import LocalModel, open_local
from synth.core.protocols import Sampler
from synth.core.seeds import rng
from synth.core.types import Verdict
from synth.episode import play_and_judge
from synth.judge.tools import excused
from synth.mistakes import ErrorRates
from synth.pipeline.compose import Composer
from synth.pipeline.generate import reference_player
from synth.run import Planned

COMPUTING_S = 1_800.0
LIMITS = Limits(turns=24, calls=16, seconds=None)
WORLD = Sampler(temperature=0.0, max_tokens=500)


async def play(
    planned: Planned, composer: Composer, model: LocalModel, journal: Journal
) -> dict[str, Any]:
    """Play one episode, and return what came of it."""
    world = composer.worlds[planned.world]
    assert isinstance(world, ImaginedWorld)
    environment = world.imagined(Journalled(model, journal, planned.episode, "world"), WORLD)
    agent = composer.agent(planned.world, planned.agent)
    cpu, wall = time.process_time(), time.perf_counter()
    trajectory, verdict = await play_and_judge(
        composer.tools[planned.world],
        task=planned.task,
        agent=agent,
        environment=environment,
        agent_player=reference_player(ErrorRates.uniform(0.0))(planned, agent),
        user_player=ScriptedUser(planned.task.request, rng(planned.seed, "user")),
        limits=LIMITS,
        episode=planned.episode,
        seed=planned.seed,
    )
    imagined = environment.record()
    await environment.close()
    return {
        "episode": planned.episode,
        "kind": trajectory.kind,
        "stop": trajectory.stop,
        "passed": verdict.passed,
        "reason": trajectory.error or verdict.reason,
        "fault": verdict.fault,
        "cpu": round(time.process_time() - cpu, 2),
        "wall": round(time.perf_counter() - wall, 1),
        "imagined": imagined.model_dump(mode="json"),
    }


def figures(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Add finished episodes up."""
    imagined = [Imagined.model_validate(row["imagined"]) for row in rows]
    ends = [_end(row, one) for row, one in zip(rows, imagined, strict=True)]
    asked = sum(len(call.refused) + (call.reply is not None) for i in imagined for call in i.calls)
    used = [i.usage for i in imagined if i.usage]
    return {
        "episodes": len(rows),
        "passed": sum(end.passed is True for end in ends),
        "faults by owner": dict(
            Counter(end.broken_by or "agent" for end in ends if not end.passed)
        ),
        "reasons": dict(Counter(row["reason"] for row in rows if not row["passed"])),
        "requests": asked,
        "CPU seconds": round(sum(row["cpu"] for row in rows), 1),
        "CPU seconds a request": round(sum(row["cpu"] for row in rows) / max(1, asked), 2),
        "tokens": {
            name: sum(getattr(one, f"{name}_tokens") or 0 for one in used)
            for name in ("prompt", "cached", "completion")
        },
        **drift(imagined),
    }


def _end(row: Mapping[str, Any], imagined: Imagined) -> Verdict:
    """Return the verdict on an episode, the tools' faults told from the agent's."""
    names = ("episode", "passed", "reason", "fault")
    return excused(Verdict.model_validate({name: row[name] for name in names}), imagined)


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Play what is missing, and return the figures of all."""
    folder: Path = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "episodes.jsonl"
    rows = [orjson.loads(line) for _, line in jsonl.lines(file)] if file.exists() else []
    done = {row["episode"] for row in rows}
    settings = [f"seed={options.seed}", "generate.states=2", "generate.agents=8"]
    world = ImaginedWorld(Engine(load_application(options.application)), options.excerpt)
    composer = Composer(load_config(None, settings), {world.name: world})
    model = open_local(f"local:{options.model}", role="world", timeout_s=COMPUTING_S)
    journal, out = Journal(folder, finished=done), jsonl.Appender(file)
    try:
        for index in range(options.start, options.start + options.episodes):
            planned = await composer.planned(index)
            if planned.episode in done:
                continue
            row = await play(planned, composer, model, journal)
            rows.append(row)
            out.append(orjson.dumps(row))
            told = (row["kind"], row["reason"], f"{row['cpu']} s")
            print(index, *told, drift([Imagined.model_validate(row["imagined"])]), flush=True)
    finally:
        out.close()
        journal.close()
        await model.close()
        await composer.close()
        await world.close()
    return figures(rows)


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("model", help="PATH.gguf, or the name of fetched weights")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--start", type=int, default=0, help="the first episode's number")
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--application", default="bank")
    parser.add_argument("--excerpt", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    print(json.dumps(asyncio.run(measure(parser.parse_args())), indent=1, default=str))


if __name__ == "__main__":
    main()
