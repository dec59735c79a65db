"""From a tool to the models trained on its rows, and from a model to its measurements."""

import json

import pytest

from synth import app
from synth.core.store import Workspace


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """Generate, export, train and evaluate with the command; returns workspace and answers."""
    workspace = tmp_path_factory.mktemp("recorded")

    def run(*words):
        settings = ["--set=generate.applications=['clinic']", "--set=generate.agents=2"]
        line = [*map(str, words), *(settings if words[0] == "generate" else [])]
        assert app.main(["--workspace", str(workspace), *line]) == 0

    run("generate", "--accept", 12)
    run("export", "--limit", 8)
    dataset = workspace / "runs" / "default" / "dataset" / "train.jsonl"
    run("train", "sft", "--model", "tiny", "--dataset", dataset, "--set=train.sft.tokens=2500")
    trained = workspace / "checkpoints" / "sft"
    run("eval", "--application", "clinic", "--model", trained, "--episodes", 1)
    return workspace, dataset


def ask(workspace, query):
    with Workspace(workspace).read() as con:
        return con.execute(query).fetchall()


def test_the_rows_of_an_export_are_those_of_its_file(told):
    workspace, dataset = told
    rows = ask(
        workspace,
        "SELECT episode FROM export_rows JOIN exports USING (export) "
        "WHERE format = 'jsonl' ORDER BY row",
    )
    written = [json.loads(line)["id"] for line in dataset.read_bytes().splitlines()]
    assert [row[0] for row in rows] == written
    assert len(written) == 8
    assert ask(workspace, "SELECT DISTINCT format FROM exports ORDER BY 1") == [
        ("jsonl",),
        ("parquet",),
    ]


def test_one_query_leads_from_a_tool_to_the_model_trained_on_its_rows(told):
    workspace, dataset = told
    found = ask(
        workspace,
        "SELECT DISTINCT base_model, checkpoint IS NOT NULL FROM tool_usage "
        "WHERE tool = 'application:clinic/find_patient' AND version = 1 AND training IS NOT NULL",
    )
    assert found == [("tiny: 5M parameters, made from nothing", True)]
    trained = ask(workspace, "SELECT DISTINCT episode FROM tool_usage WHERE training IS NOT NULL")
    written = {json.loads(line)["id"] for line in dataset.read_bytes().splitlines()}
    assert {row[0] for row in trained} == written


def test_an_evaluation_leads_to_the_checkpoint_that_played(told):
    workspace, _ = told
    query = "SELECT e.application, e.n, t.method FROM evaluations e JOIN checkpoints c "
    query += "USING (checkpoint) JOIN training_runs t USING (training)"
    assert ask(workspace, query) == [("clinic", 1, "sft")]


def test_exporting_again_changes_nothing(told):
    workspace, _ = told
    before = ask(workspace, "SELECT count(*) FROM export_rows")
    assert app.main(["--workspace", str(workspace), "export", "--limit", "8"]) == 0
    assert ask(workspace, "SELECT count(*) FROM export_rows") == before
