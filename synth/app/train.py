"""Train a model.

toolloom train sft --dataset workspace/runs/default/dataset/train.jsonl
toolloom train rl --application hotel --model workspace/checkpoints/sft
Settings are in [train] of the configuration. Ctrl-C ends after the step under way; the same command
goes on from there, and after a crash from the newest checkpoint.
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from synth.app._early import check_application, check_dataset
from synth.app._options import add_config, folder_name, read_config
from synth.app._show import Bar, afterwards, bar, interruptible, say, show
from synth.core.config import Config
from synth.core.errors import BadInput

if TYPE_CHECKING:
    from synth.pipeline.record import Training
    from train.data import Conversation, Prepared
    from train.journal import Progress

LONGEST = 4096
"""Most tokens of a row, where the model's context is not shorter: memory grows with it."""


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
    from train.fetch import check_model

    config = read_config(arguments)
    folder = arguments.workspace / "checkpoints" / folder_name(arguments.run or arguments.method)
    model = arguments.model or config.train.model
    if arguments.method == "sft":
        if arguments.dataset is None:
            raise BadInput("sft needs --dataset", remedy="toolloom export writes one")
        check_dataset(arguments.dataset)
        check_model(model)
        say(f"loading {model}")
        result = _sft(arguments, config, model, folder)
    else:
        if arguments.application is None:
            raise BadInput("rl needs --application", remedy="for instance --application hotel")
        check_application(arguments.application)
        check_model(model)
        say(f"loading {model}")
        result = _rl(arguments, config, model, folder)
    if not arguments.json:
        show("\n".join(f"{key:<14}{value}" for key, value in result.items() if key != "history"))
    return result


def _sft(arguments: argparse.Namespace, config: Config, model: str, folder: Path) -> dict[str, Any]:
    from synth.app._learning import Desk, open_model
    from synth.core.store import now
    from synth.pipeline.record import Training
    from train.data import read_conversations
    from train.sft import SftConfig, train_sft

    conversations = read_conversations(arguments.dataset)
    texts = (str(m["content"]) for c in conversations for m in c.messages if m.get("content"))
    loaded, name = open_model(model, arguments.workspace, texts)
    desk = Desk(loaded, name)
    prepared = _prepared(conversations, desk, arguments.dataset)
    settings, started_at = config.train.sft, now()
    say(f"{len(prepared.rows)} rows to learn from, at most {settings.tokens:,} tokens in all")
    with interruptible() as stop, bar("sft") as shown:
        result = train_sft(
            desk.engine,
            prepared,
            SftConfig(
                budget=settings.tokens,
                lr=settings.lr,
                epochs=settings.epochs,
                checkpoint_s=config.train.checkpoint_s,
                seed=config.seed,
            ),
            folder,
            progress=_teller(shown, folder, "step", "loss"),
            stop=stop,
        )
    report = {
        "model": name,
        **asdict(result),
        "checkpoint": str(result.checkpoint),
        "rows": len(prepared.rows),
        "left_out": dict(prepared.left_out),
    }
    _record(
        arguments.workspace,
        Training(
            method="sft",
            model=name,
            dataset=arguments.dataset,
            config=settings.model_dump(),
            report=report,
            started_at=started_at,
            step=result.steps,
            checkpoint=result.checkpoint,
        ),
    )
    return report


def _prepared(conversations: list[Conversation], desk: Any, dataset: Path) -> Prepared:
    """Return the rows the model can learn from; say how many it cannot, and why.

    Raises:
        BadInput: it can learn from none.
    """
    from train.data import prepare

    context = getattr(desk.engine.model.config.get_text_config(), "max_position_embeddings", None)
    longest = min(LONGEST, context or LONGEST)
    prepared = prepare(conversations, desk.renderer, longest=longest)
    why = {
        "too_long": f"longer than {longest} tokens",
        "nothing_to_learn": "without a word of the assistant's to learn",
    }
    reasons = ", ".join(f"{count} {why[key]}" for key, count in sorted(prepared.left_out.items()))
    left_out = sum(prepared.left_out.values())
    if not prepared.rows:
        raise BadInput(
            f"the model can learn from none of the {left_out} rows: {reasons}",
            where=str(dataset),
            remedy="generate agents with fewer tools: --set 'generate.tools=[3, 5]'",
        )
    if left_out:
        say(f"{left_out} of {len(conversations)} rows are left out: {reasons}")
    return prepared


def _rl(arguments: argparse.Namespace, config: Config, model: str, folder: Path) -> dict[str, Any]:
    from synth.app._learning import Desk, open_model
    from synth.core.store import now
    from synth.pipeline.record import Training
    from synth.pipeline.worlds import open_applications
    from train.cases import sample_cases
    from train.rl import EpisodeRollouts, RlConfig, train_rl

    cases = sample_cases(config, open_applications([arguments.application]), 64)
    texts = [case.agent.system + case.task.request for case in cases]
    loaded, name = open_model(model, arguments.workspace, texts)
    desk = Desk(loaded, name)
    settings, started_at = config.train.rl.model_dump(), now()
    with interruptible() as stop, bar("rl") as shown:
        result = asyncio.run(
            train_rl(
                desk.engine,
                EpisodeRollouts(cases, desk.table, desk.sampling),
                RlConfig(**settings, checkpoint_s=config.train.checkpoint_s, seed=config.seed),
                folder,
                progress=_teller(shown, folder, "iteration", "reward"),
                stop=stop,
            )
        )
    report = {"model": name, **asdict(result), "checkpoint": str(result.checkpoint)}
    _record(
        arguments.workspace,
        Training(
            method="rl",
            model=name,
            dataset=None,
            config=settings,
            report={key: value for key, value in report.items() if key != "history"},
            started_at=started_at,
            step=result.iterations,
            checkpoint=result.checkpoint,
        ),
    )
    return report


def _teller(shown: Bar, folder: Path, unit: str, figure: str) -> Progress:
    """Return what shows the progress, and says once where a resumed run goes on."""
    from train.checkpoint import latest_checkpoint

    found = latest_checkpoint(folder)

    def tell(step: int, total: int, figures: Any) -> None:
        if found is not None and step == found.step:
            over = "the run is finished, nothing is trained" if step == total else "going on"
            say(f"{over}: {unit} {step} of {total} is in {found.folder}")
        value = figures[figure]
        shown.update(step, total, f"{figure} {'unknown' if value is None else f'{value:.3f}'}")

    return tell


def _record(workspace: Path, training: Training) -> None:
    from synth.core.store import Workspace
    from synth.pipeline.record import record_training

    with afterwards():
        record_training(Workspace(workspace), training)
