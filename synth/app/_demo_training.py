"""The training half of the demo: a small model before, after fine-tuning, and a few steps of RL.

Everything is sized by what this machine turned out to compute, and the figures say how much it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from synth.app._learning import (
    Desk,
    as_data,
    open_model,
    open_model_or_tiny,
)
from synth.app._show import afterwards, bar, interruptible
from synth.core.config import Config, Errors
from synth.core.protocols import World
from synth.core.store import Workspace, now
from synth.core.types import TaskKind
from synth.pipeline.export import export
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.pipeline.record import Training, record_evaluation, record_training
from synth.pipeline.worlds import open_applications
from train.cases import Case, sample_cases
from train.data import Conversation, agent_of, prepare, read_conversations
from train.evaluate import Evaluation, evaluate
from train.masking import masked
from train.rl import EpisodeRollouts, RlConfig, train_rl
from train.sft import SftConfig, train_sft

CASES = 16
"""Episodes of the evaluation, all played at once: one wave."""
SFT_TOKENS = 24_000
"""Most tokens of fine-tuning, and `SFT_SECONDS` at the speed that was measured, if that is less."""
SFT_SECONDS = 170.0
RL_SECONDS = 75.0
KINDS = (TaskKind.LOOKUP,)
"""Kinds that so little training can teach so small a model; the report names them."""
TAUGHT = ("bank", "clinic")
"""Applications of the lessons: each further one costs prompts, and a dozen steps teach few."""
DRAWN, TOOLS, ROWS = 12, (4, 6), 300
"""Agents drawn for each application, tools of each, and rows of them all."""
AGENTS = 3
"""Agents of each application that are learned from: those of the fewest words."""
LONGEST, TOGETHER = 1_400, 3
"""Most tokens of a row, and rows of one step, all of one agent: few, because so little training
needs many steps more than large ones."""


class Stages(Protocol):
    """The clock of the demo."""

    def stage(self, name: str) -> Any:
        """Time one stage."""


def train_and_measure(
    config: Config, workspace: Path, run: Path, clock: Stages, *, held_out: str, offline: bool
) -> dict[str, Any]:
    """Fine-tune on lessons beside `run`, evaluate before and after on `held_out`, reinforce.

    Returns:
        `model`, `sft`, `eval`, `rl` as plain data.
    """
    known = open_applications(TAUGHT)
    lessons = run.with_name(f"{run.name}-lessons")
    with clock.stage("lessons"):
        rows = _lessons(config, workspace, lessons, known)
    texts = [str(m["content"]) for row in rows for m in row.messages if m.get("content")]
    with clock.stage("model"):
        opener = open_model if offline else open_model_or_tiny
        name = "tiny" if offline and not _fetched(workspace) else config.train.model
        desk = Desk(*opener(name, workspace, texts), through_prompt=False)
    # Another run or another model never goes on where this one stopped.
    folder = workspace / "checkpoints" / f"{run.name}-{desk.engine.loaded.name}"
    worlds = open_applications([held_out])
    cases = sample_cases(config, worlds, CASES, KINDS)
    with clock.stage("evaluate before"):
        before = _evaluate(desk, cases)
    started_at = now()
    with clock.stage("sft"):
        sft = _sft(desk, rows, config, folder.with_name(f"{folder.name}-sft"))
        sft["lessons"] = lessons.name
    with clock.stage("evaluate after"):
        after = _evaluate(desk, cases)
    with afterwards():
        store = Workspace(workspace)
        record_training(store, _training(desk.name, sft, lessons, config, started_at))
        record_evaluation(store, desk.name, as_data(before))
        record_evaluation(store, sft["checkpoint"], as_data(after))
    with clock.stage("rl"):
        rl = _rl(desk, config, folder.with_name(f"{folder.name}-rl"), known)
    return {
        "model": desk.name,
        "sft": sft,
        "eval": {
            "application": held_out,
            "kinds": list(KINDS),
            "n": after.n,
            "before": before.pass_rate,
            "after": after.pass_rate,
            "detail_before": as_data(before),
            "detail_after": as_data(after),
        },
        "rl": rl,
    }


def _training(
    model: str, sft: dict[str, Any], run: Path, config: Config, started_at: datetime
) -> Training:
    return Training(
        method="sft",
        model=model,
        dataset=run / "dataset" / "train.jsonl",
        config=config.train.sft.model_dump() | {"tokens": SFT_TOKENS},
        report=sft,
        started_at=started_at,
        step=sft["steps"],
        checkpoint=Path(sft["checkpoint"]),
    )


def _fetched(workspace: Path) -> bool:
    return any((workspace / "cache" / "models").glob("*.gguf"))


def _evaluate(desk: Desk, cases: Sequence[Case]) -> Evaluation:
    with bar("evaluate") as shown:
        return asyncio.run(
            evaluate(
                desk.engine,
                cases,
                desk.table,
                sampling=desk.sampling,
                progress=lambda done, total, _: shown.update(done, total),
            )
        )


def _sft(desk: Desk, rows: list[Conversation], config: Config, folder: Path) -> dict[str, Any]:
    short = [row for row in rows if len(desk.renderer.render(row.messages, row.tools)) <= LONGEST]
    prepared = prepare(masked(short, every=TOGETHER, seed=config.seed), desk.renderer)
    speed = desk.engine.training_speed(prepared.rows[:4])
    budget = min(SFT_TOKENS, int(speed * SFT_SECONDS))
    settings = SftConfig(
        budget=budget, lr=config.train.sft.lr, seed=config.seed, epochs=1, together=TOGETHER
    )
    with interruptible() as stop, bar("sft") as shown:
        result = train_sft(
            desk.engine,
            prepared,
            settings,
            folder,
            progress=lambda step, total, m: shown.update(step, total, f"loss {m['loss']:.3f}"),
            stop=stop,
        )
    return {
        "loss_first": result.loss_first,
        "loss_last": result.loss_last,
        "loss_after": result.loss_after,
        "tokens_per_s": result.tokens_per_s,
        "steps": result.steps,
        "tokens": result.tokens,
        "places": result.places,
        "sized_for": f"{speed:.0f} tokens/s measured, at most {SFT_SECONDS:.0f} s",
        "checkpoint": str(result.checkpoint),
    }


def _lessons(
    config: Config, workspace: Path, folder: Path, applications: Iterable[str]
) -> list[Conversation]:
    """Generate what the small model learns from: look-ups of few agents, each with few tools.

    The rows of one agent share its prompt, which is computed once for all of them; in the large
    dataset hardly two rows of one kind do.
    """
    settings = config.generate.model_copy(
        update={
            "applications": tuple(sorted(applications)),
            "mix": dict.fromkeys(KINDS, 1.0),
            "tools": TOOLS,
            "agents": DRAWN,
            "errors": Errors(rate=0),
            "live_share": 0.0,
        }
    )
    lessons = config.model_copy(update={"generate": settings})
    asyncio.run(generate(lessons, folder, workspace, Goal(accept=ROWS)))
    export(folder, folder / "dataset", formats=("openai",), limit=None)
    return _of_few_words(read_conversations(folder / "dataset" / "train.jsonl"))


def _of_few_words(rows: Sequence[Conversation]) -> list[Conversation]:
    """Return the rows of the agents of each application whose answers are shortest.

    A small model that has seen a polite opening a few times goes on with it for ever.
    """
    of_agent: dict[tuple[str, str], list[Conversation]] = {}
    for row in rows:
        of_agent.setdefault((row.application, agent_of(row.messages, row.tools)), []).append(row)

    def words(agent: tuple[str, str]) -> tuple[float, str]:
        of_it = of_agent[agent]
        said = [m.get("content") for r in of_it for m in r.messages if m["role"] == "assistant"]
        return sum(len(text or "") for text in said) / len(of_it), agent[1]

    applications = sorted({application for application, _ in of_agent})
    chosen = [
        agent
        for application in applications
        for agent in sorted((a for a in of_agent if a[0] == application), key=words)[:AGENTS]
    ]
    return [row for agent in chosen for row in of_agent[agent]]


def _rl(desk: Desk, config: Config, folder: Path, worlds: dict[str, World]) -> dict[str, Any]:
    cases = sample_cases(config, worlds, 8, (TaskKind.LOOKUP,))
    settings = RlConfig(
        iterations=3, tasks=2, k=4, lr=config.train.rl.lr, tau=config.train.rl.tau, seed=config.seed
    )
    with bar("rl") as shown:
        result = asyncio.run(
            train_rl(
                desk.engine,
                EpisodeRollouts(cases, desk.table, desk.sampling),
                settings,
                folder,
                seconds=RL_SECONDS,
                progress=lambda step, total, m: shown.update(step, total, f"reward {m['reward']}"),
            )
        )
    return {
        "checkpoint": str(result.checkpoint),
        "reward_first": result.reward_first,
        "reward_last": result.reward_last,
        "iterations": result.iterations,
        "history": [dict(row) for row in result.history],
    }
