"""Generate a small dataset and ask the registry about it. Offline, about ten seconds.

    python examples/02_dataset_and_questions.py [WORKSPACE]

Prints the yield funnel, then calls by tool.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from synth.core.config import load_config
from synth.core.store import Workspace
from synth.pipeline.export import export
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.report import funnel_lines
from tool_registry import browse


def main(workspace: Path) -> None:
    run = workspace / "runs" / "example"
    config = load_config(None, ["generate.applications=['clinic']", "generate.states=3"])
    report = asyncio.run(generate(config, run, workspace, Goal(accept=40)))
    written = export(run, run / "dataset", formats=("openai",), limit=None)
    print("\n".join(funnel_lines(report)))
    print(f"\n{written['rows']} rows in {run / 'dataset'}\n")
    query = (
        "SELECT name, count(*) AS calls FROM steps GROUP BY ALL ORDER BY calls DESC, name LIMIT 5"
    )
    for name, calls in browse.sql(Workspace(workspace), query).rows:
        print(f"{calls:>5}  {name}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(Path(folder))
