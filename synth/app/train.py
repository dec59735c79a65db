"""Train a model.

toolloom train sft --dataset workspace/runs/default/dataset/train.jsonl
toolloom train rl --application hotel --model workspace/checkpoints/sft
Settings are in [train] of the configuration. Ctrl-C ends sft after the step under way, and the same
command goes on from there; rl begins anew.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import Any

from synth.app._options import add_config, folder_name, read_config
from synth.app._show import afterwards, bar, interruptible, show
from synth.core.config import Config
from synth.core.errors import BadInput
from synth.core.store import Workspace, now
from synth.pipeline.record import Training, record_training


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("method", choices=["sft", "rl"])
    parser.add_argument("--dataset", type=Path, metavar="FILE", help="sft: an exported train.jsonl")
    parser.add_argument("--application", help="rl: name of an application, or its file")
    parser.add_argument("--model", help="name, folder or .gguf file (default: train.model)")
    parser.add_argument("--run", metavar="NAME", help="folder under checkpoints/ (default: METHOD)")
    add_config(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train, and return the figures."""
    config = read_config(arguments)
    folder = arguments.workspace / "checkpoints" / folder_name(arguments.run or arguments.method)
    result = (_sft if arguments.method == "sft" else _rl)(arguments, config, folder)
    if not arguments.json:
        show("\n".join(f"{key:<14}{value}" for key, value in result.items() if key != "history"))
    return result


def _sft(arguments: argparse.Namespace, config: Config, folder: Path) -> dict[str, Any]:
    from synth.app._learning import Desk, open_model
    from train.data import prepare, read_conversations
    from train.sft import SftConfig, train_sft

    if arguments.dataset is None:
        raise BadInput("sft needs --dataset", remedy="toolloom export writes one")
    conversations = read_conversations(arguments.dataset)
    texts = (str(m["content"]) for c in conversations for m in c.messages if m.get("content"))
    loaded, name = open_model(arguments.model or config.train.model, arguments.workspace, texts)
    desk = Desk(loaded, name)
    settings, started_at = config.train.sft, now()
    with interruptible() as stop, bar("sft") as shown:
        result = train_sft(
            desk.engine,
            prepare(conversations, desk.renderer),
            SftConfig(
                budget=settings.tokens, lr=settings.lr, epochs=settings.epochs, seed=config.seed
            ),
            folder,
            progress=lambda step, total, m: shown.update(step, total, f"loss {m['loss']:.3f}"),
            stop=stop,
        )
    report = {"model": name, **asdict(result), "checkpoint": str(result.checkpoint)}
    training = Training(
        method="sft",
        model=name,
        dataset=arguments.dataset,
        config=settings.model_dump(),
        report=report,
        started_at=started_at,
        step=result.steps,
        checkpoint=result.checkpoint,
    )
    with afterwards():
        record_training(Workspace(arguments.workspace), training)
    return report


def _rl(arguments: argparse.Namespace, config: Config, folder: Path) -> dict[str, Any]:
    from synth.app._learning import Desk, open_model, sample_cases
    from synth.pipeline.worlds import open_applications
    from train.rl import EpisodeRollouts, RlConfig, train_rl

    if arguments.application is None:
        raise BadInput("rl needs --application", remedy="for instance --application hotel")
    cases = sample_cases(config, open_applications([arguments.application]), 64)
    texts = [case.agent.system + case.task.request for case in cases]
    loaded, name = open_model(arguments.model or config.train.model, arguments.workspace, texts)
    desk = Desk(loaded, name)
    settings, started_at = RlConfig(**config.train.rl.model_dump(), seed=config.seed), now()
    with bar("rl") as shown:
        result = asyncio.run(
            train_rl(
                desk.engine,
                EpisodeRollouts(cases, desk.table, desk.sampling),
                settings,
                folder,
                progress=lambda step, total, m: shown.update(step, total, f"reward {m['reward']}"),
            )
        )
    checkpoint = desk.engine.save_weights(folder / "final")
    report = {"model": name, **asdict(result), "checkpoint": str(checkpoint)}
    training = Training(
        method="rl",
        model=name,
        dataset=None,
        config=config.train.rl.model_dump(),
        report={key: value for key, value in report.items() if key != "history"},
        started_at=started_at,
        step=result.iterations,
        checkpoint=checkpoint,
    )
    with afterwards():
        record_training(Workspace(arguments.workspace), training)
    return report
