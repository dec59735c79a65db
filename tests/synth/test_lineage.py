"""`registry show` of an evolved tool walks up to its seed: composed, or written by people."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from simulators.sql.load import load_application
from synth.core.store import Workspace
from synth.pipeline.evolve import enter
from synth.pipeline.evolving import Candidate, make
from tool_registry.browse import show
from tool_registry.edits import portable, remade


def made(number: int, parent: dict[str, Any] | None, changes: int = 3) -> dict[str, Any]:
    """A kept candidate; of further seeds if one is dropped."""
    document = orjson.dumps(parent["document"]) if parent else None
    generation = parent["generation"] if parent else 0
    for seed in range(5):
        candidate = Candidate(number, 100 * number + seed, "music", changes, generation, document)
        row: dict[str, Any] = orjson.loads(make(candidate))
        if "document" in row:
            return row
    raise AssertionError(row)


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A composed application, its child and grandchild, and a child of one that people wrote."""
    path = tmp_path_factory.mktemp("family")
    seed = made(0, None)
    child = made(1, seed)
    grandchild = made(2, child)
    written = portable(remade(load_application("clinic"), languages={}))
    document = written.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    of_people = made(3, {"document": document, "generation": 0})
    rows = [seed, child, grandchild, of_people]
    (path / "evolved").mkdir()
    lines = b"\n".join(orjson.dumps(row) for row in rows)
    (path / "evolved" / "applications.jsonl").write_bytes(lines + b"\n")
    assert enter(Workspace(path)) == len(rows)
    return path, rows


def steps(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """(application, operator) from the youngest step to the oldest."""
    return [
        (row["application"], step["operator"]) for row in rows for step in reversed(row["steps"])
    ]


def test_the_ancestors_of_a_tool_lead_from_its_last_change_to_what_was_composed(
    family: tuple[Path, list[dict[str, Any]]],
) -> None:
    path, (seed, child, grandchild, _) = family
    tool = next(iter(grandchild["examples"]))
    found = show(Workspace(path), f"application:{grandchild['application']}/{tool}")["ancestors"]
    walked = [(step["application"], step["operator"]) for step in found]
    assert walked == steps([grandchild, child, seed])
    assert walked[-1][1] == "compose"
    assert found[-1]["seed"] == seed["steps"][0]["seed"]
    assert found[-1]["parents"] == []
    assert [step["depth"] for step in found] == sorted(step["depth"] for step in found)


def test_a_tool_of_what_people_wrote_leads_to_their_application(
    family: tuple[Path, list[dict[str, Any]]],
) -> None:
    path, (*_, row) = family
    tool = next(iter(row["examples"]))
    found = show(Workspace(path), f"application:{row['application']}/{tool}")["ancestors"]
    assert [(s["application"], s["operator"]) for s in found] == steps([row])
    assert found[-1]["parents"] == ["clinic"]


def test_the_command_says_which_step_made_the_tool(
    family: tuple[Path, list[dict[str, Any]]],
) -> None:
    path, (seed, child, grandchild, _) = family
    step = next(s for s in reversed(grandchild["steps"]) if s["tools"])
    tool = next(name for name in step["tools"] if name in grandchild["examples"])
    key = f"application:{grandchild['application']}/{tool}"
    command = [sys.executable, "-m", "synth", "--workspace", str(path), "registry", "show", key]
    page = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    flat = " ".join(page.split())
    assert f"{grandchild['application']}: {step['operator']}, {step['words']} (this tool)" in flat
    assert f"of {seed['application']}" in flat
    assert f"{seed['application']}: compose, {seed['steps'][0]['words']}" in flat
    result = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    found = json.loads(result.stdout)
    names = [ancestor["application"] for ancestor in found["ancestors"]]
    assert list(dict.fromkeys(names)) == [row["application"] for row in (grandchild, child, seed)]
