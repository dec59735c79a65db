"""What a newcomer meets: a first command says what it does, a wrong one what would be right."""

import asyncio
import csv
import io
import re
import sys

import pytest

from synth import app
from synth.app import _endpoints
from synth.app import eval as eval_command
from synth.app.generate import _quiet
from synth.core.config import load_config
from synth.core.types import StopReason
from synth.pipeline.engine import Workers
from synth.reasons import meaning
from synth.report import funnel_lines, read_report
from train.evaluate import Evaluation


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return tmp_path_factory.mktemp("workspace")


def test_the_first_command_says_that_it_enters_the_applications_and_later_ones_do_not(
    workspace, capsys
):
    assert app.main(["--workspace", str(workspace), "registry", "stats"]) == 0
    first = capsys.readouterr().err
    assert re.fullmatch(r"entering \d\d installed applications in the registry, once\n", first)
    assert app.main(["--workspace", str(workspace), "registry", "stats"]) == 0
    assert capsys.readouterr().err == ""


def test_a_search_gives_names_whole_and_scores_that_can_be_read(workspace, capsys):
    app.main(["--workspace", str(workspace), "registry", "search", "cancel a booking"])
    found = capsys.readouterr().out.splitlines()
    name, facts, score = re.split("  +", found[0])
    assert name == "application:hotel/cancel_booking"
    assert facts == "destructive, travel, no licence known, quality 0.95"
    assert re.fullmatch(r"\(score \d+\.\d\)", score)
    assert found[1].startswith("    Cancel a confirmed booking free of charge.")
    app.main(["--workspace", str(workspace), "registry", "search", "zzzz"])
    assert capsys.readouterr().out == "nothing matches\n"


def test_a_table_that_goes_to_a_pipe_folds_nothing(workspace, capsys):
    long = (
        "a_name_that_is_longer_than_a_terminal_of_eighty_columns_is_wide_and_that_is_searched_for"
    )
    app.main(["--workspace", str(workspace), "registry", "sql", f"SELECT '{long}' AS a, 1 AS b"])
    assert long in capsys.readouterr().out


def test_the_version_is_told(capsys):
    with pytest.raises(SystemExit) as ended:
        app.main(["--version"])
    assert ended.value.code == 0
    assert re.fullmatch(r"toolloom \d+\.\d+\S*\n", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("generate", "how many? (toolloom generate --accept 100, or --episodes 100"),
        ("registry search", "e.g. toolloom registry search 'cancel a booking'"),
        ("registry show", "e.g. toolloom registry show cancel_booking"),
        ("registry sql", "e.g. toolloom registry sql 'SELECT server"),
        ("lint nosuch", "known: bank, brokerage, calendar"),
        ("lint nosuch.yaml", "nosuch.yaml: there is no such file (check the path)"),
        ("eval --application hotel --model checkpoints/sft", "train one first (toolloom train)"),
        ("train sft --dataset nosuch.jsonl", "toolloom export writes one"),
        (
            "generate --accept 1 --set models.user.model=local:nosuch.gguf"
            " --set generate.applications=hotel",
            "local:nosuch.gguf: there is no such file, neither here nor where fetched ones lie "
            "(give its path, or toolloom models fetch NAME: smollm2)",
        ),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(tmp_path, capsys, line, remedy):
    assert app.main(["--workspace", str(tmp_path), *line.split()]) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert remedy in said


def test_reasons_are_told_with_what_they_mean(workspace, capsys):
    line = "generate --episodes 20 --set generate.applications=clinic --set generate.errors.rate=1"
    app.main(["--workspace", str(workspace), *line.split()])
    report = read_report(workspace / "runs" / "default")
    assert len(report["rejected_by_reason"]) >= 3
    lines = [re.split("   +", line) for line in funnel_lines(report) if "rejected: " in line]
    assert [line[-1] for line in lines] == [meaning(r) for r in report["rejected_by_reason"]]
    assert all(meaning(reason) for reason in report["rejected_by_reason"])
    ends = set(StopReason) - {StopReason.USER_DONE, StopReason.ERROR}
    forms = {*map(str, ends), "arguments", "roles"}
    assert len({meaning(f"format:{form}") for form in forms}) == len(forms)
    assert meaning("accepted") == ""


def test_an_evaluation_says_what_cut_off_means():
    result = Evaluation(
        application="hotel", n=3, passed=1, interval=None, unscored=0, faults={}, by_kind={},
        by_reason={"unusable:cut_off": 2, "accepted": 1}, calls=4, calls_ok=4, seconds=1.0,
    )  # fmt: skip
    assert eval_command.page("m", result)[1:] == [
        "     2 unusable:cut_off   a reply reached the most tokens it may have, and was cut off",
        "     1 accepted",
    ]


def test_a_critic_is_idle_only_while_there_are_no_drafts_to_choose_among(capsys):
    at = ["models.user.model=m", "models.critic.model=m"]
    asyncio.run(_endpoints.check_endpoints(load_config(None, at)))
    said = capsys.readouterr().err
    assert said.startswith("models.critic: given, and asked for nothing: a critic chooses among")
    asyncio.run(_endpoints.check_endpoints(load_config(None, [*at, "models.user.candidates=3"])))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("line", ["eval --application hotel", "train rl --application hotel"])
def test_what_takes_long_before_a_bar_is_there_is_said(tmp_path, monkeypatch, capsys, line):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.split(".")[0] == "train"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "synth.app._learning", raising=False)
    assert app.main(["--workspace", str(tmp_path), *line.split(), "--model", "tiny"]) == 1
    assert capsys.readouterr().err.splitlines()[0] == "loading tiny"


def test_it_is_said_whose_ray_cluster_is_used(monkeypatch, capsys):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with _quiet(Workers(1)):
        assert "starting a Ray cluster on this machine" in capsys.readouterr().err
    monkeypatch.setenv("RAY_ADDRESS", "first:6379")
    with _quiet(Workers(1)):
        assert capsys.readouterr().err == "joining the Ray cluster at first:6379\n"
    with _quiet(None):
        assert capsys.readouterr().err == ""


def test_rows_go_to_csv_as_they_are(workspace, capsys):
    query = "SELECT 'a,\"b\"' AS x, NULL AS y, '=1' AS z, 'two' || chr(10) || 'lines' AS w"
    assert app.main(["--workspace", str(workspace), "registry", "sql", query, "--csv"]) == 0
    written = capsys.readouterr().out
    assert list(csv.reader(io.StringIO(written, newline=""))) == [
        ["x", "y", "z", "w"],
        ['a,"b"', "", "=1", "two\nlines"],
    ]
    for wrong in ("stats --csv", "sql x --csv --json", "show x --effect read"):
        assert app.main(["--workspace", str(workspace), "registry", *wrong.split()]) == 2
