"""Evolution: the same seed gives the same files, a kill costs nothing, what is kept can be used."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simulators.sql.engine import Engine
from synth.core import jsonl
from synth.core.application import Application
from synth.core.config import Config
from synth.core.errors import UnknownName
from synth.core.store import Workspace
from synth.pipeline.candidates import kept_in
from synth.pipeline.evolve import Goal, How, enter, evolve
from synth.pipeline.evolved import evolved
from synth.pipeline.worlds import open_worlds
from tool_registry.distributions import distributions
from tool_registry.purpose import purpose

GOAL = Goal(120, 4)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("evolved")
    kept, why = evolve(path, GOAL, run_seed=3, how=How(processes=2))
    assert why == "enough"
    assert kept.new >= GOAL.tools
    assert kept.applications >= GOAL.applications
    return path


def rows(workspace: Path, name: str) -> list[dict]:
    return list(jsonl.read(workspace / "evolved" / f"{name}.jsonl"))


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.claim("k2-evolution")
def test_all_that_is_kept_runs_as_it_was_proved(workspace: Path) -> None:
    for row in rows(workspace, "applications"):
        application = Application.model_validate(row["document"])
        environment = Engine(application).environment()
        assert set(row["examples"]) == set(application.specs)
        for tool, example in row["examples"].items():
            environment.reset_now(0)
            assert environment.call_now(tool, example["succeeds"]).ok, tool
            environment.reset_now(0)
            failed = environment.call_now(tool, example["fails"])
            assert failed.error is not None
            assert failed.error.code == example["error"]


def test_counts_are_made_of_the_files_alone(workspace: Path) -> None:
    kept = kept_in(workspace / "evolved")
    found = [
        purpose(application.tools[name])
        for row in rows(workspace, "applications")
        for application in [Application.model_validate(row["document"])]
        for name in application.specs
    ]
    assert (kept.tools, kept.new) == (len(found), len(set(found)))
    assert kept.done == len(rows(workspace, "applications")) + len(rows(workspace, "eliminated"))


def test_a_killed_evolution_goes_on_to_the_same_files(workspace: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "synth", "--workspace", str(tmp_path), "evolve"]
    options = ["--to", "100000", "--seed", "3", "--processes", "1"]
    process = subprocess.Popen(command + options, stderr=subprocess.DEVNULL, start_new_session=True)
    file = tmp_path / "evolved" / "applications.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (file.exists() and b"\n" in file.read_bytes()):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    deadline = time.monotonic() + 20  # its workers end by themselves, and write nothing
    while time.monotonic() < deadline and _alive(process.pid):
        time.sleep(0.2)
    assert not _alive(process.pid)
    with file.open("ab") as torn:
        torn.write(b'{"number": 7, "applica')
    evolve(tmp_path, GOAL, run_seed=3, how=How(processes=1))
    done = kept_in(workspace / "evolved").done
    for name in ("applications", "eliminated"):
        again = [row for row in rows(tmp_path, name) if row["number"] < done]
        assert again == rows(workspace, name)


def test_the_registry_knows_where_a_tool_comes_from(workspace: Path) -> None:
    store = Workspace(workspace)
    kept = rows(workspace, "applications")
    assert enter(store) == len(kept)
    assert enter(store) == 0
    with store.read() as con:
        for row in kept:
            found = con.execute(
                "SELECT operator, seed FROM ancestry WHERE application = ? ORDER BY step",
                [row["application"]],
            ).fetchall()
            assert found == [(step["operator"], step["seed"]) for step in row["steps"]]
            tools = con.execute(
                "SELECT count(*) FROM tools WHERE application = ?", [row["application"]]
            ).fetchone()
            assert tools == (len(row["examples"]),)
        table = {line["source"]: line for line in distributions(con)}
    assert table["evolved"]["servers"] == len(kept)
    assert table["evolved"]["tools"] == sum(len(row["examples"]) for row in kept)


def test_evolved_applications_are_worlds_like_any_other(workspace: Path) -> None:
    name = rows(workspace, "applications")[0]["application"]
    config = Config.model_validate({"generate": {"applications": [f"evolved:{name}"]}})
    worlds = open_worlds(config, workspace)
    assert list(worlds) == [name]
    assert {tool.name for tool in worlds[name].tools()} == set(
        rows(workspace, "applications")[0]["examples"]
    )
    assert len(evolved(workspace, ["*"])) == len(rows(workspace, "applications"))
    with pytest.raises(UnknownName):
        evolved(workspace, ["nothing_of_that_name"])
