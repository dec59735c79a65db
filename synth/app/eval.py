"""Play a model in the environments: real tool calls, judged by program.

toolloom eval --application hotel --model smollm2
toolloom eval --application hotel --model workspace/checkpoints/sft
"""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING, Any

from synth.app._early import check_application
from synth.app._options import add_config, positive, read_config
from synth.app._show import afterwards, bar, say, show
from synth.reasons import meaning

if TYPE_CHECKING:
    from train.evaluate import Evaluation


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--application", required=True, help="name of an application, or its file")
    parser.add_argument("--model", help="name, folder or .gguf file (default: train.model)")
    parser.add_argument("--episodes", type=positive, metavar="N", help="default: train.episodes")
    add_config(parser)


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Evaluate, and return the figures."""
    from train.fetch import check_model

    config = read_config(arguments)
    check_application(arguments.application)
    check_model(arguments.model or config.train.model)

    say(f"loading {arguments.model or config.train.model}")
    from synth.app._learning import Desk, as_data, open_model
    from synth.core.store import Workspace
    from synth.pipeline.record import record_evaluation
    from synth.pipeline.worlds import open_applications
    from train.cases import sample_cases
    from train.evaluate import evaluate

    worlds = open_applications([arguments.application])
    cases = sample_cases(config, worlds, arguments.episodes or config.train.episodes)
    texts = [case.agent.system + case.task.request for case in cases]
    loaded, name = open_model(arguments.model or config.train.model, arguments.workspace, texts)
    desk = Desk(loaded, name)
    with bar("evaluate") as shown:
        result = asyncio.run(
            evaluate(
                desk.engine,
                cases,
                desk.table,
                sampling=desk.sampling,
                progress=lambda done, total, _: shown.update(done, total),
            )
        )
    with afterwards():
        record_evaluation(Workspace(arguments.workspace), name, as_data(result))
    if not arguments.json:
        show("\n".join(page(name, result)))
    return {"model": name, **as_data(result)}


def page(name: str, result: Evaluation) -> list[str]:
    """Return the lines that tell people of an evaluation."""
    lines = [f"{name} on {result.application}: {result.passed} of {result.n} passed"]
    if result.interval is not None:
        low, high = (f"{100 * bound:.0f}" for bound in result.interval)
        rate = f"{100 * result.passed / result.n:.0f} %"
        lines[0] += f" ({rate}; 95 % interval {low} to {high} %)"
    width = max(map(len, result.by_reason), default=0)
    lines += [
        f"  {count:>4} {reason:<{width}}   {meaning(reason)}".rstrip()
        for reason, count in result.by_reason.items()
    ]
    if result.faults:
        owners = ", ".join(f"{owner} {count}" for owner, count in result.faults.items())
        lines.append(f"{result.unscored} without a verdict, in no rate; broken by: {owners}")
    return lines
