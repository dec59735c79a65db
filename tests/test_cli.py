"""The command line: its options are frozen, its errors are one line, its exit codes documented."""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from synth import app
from synth.core.formats import in_nine_characters

OPTIONS = {
    "demo": "episodes offline seed",
    "evolve": "applications concurrency config processes seed set to",
    "twins": "",
    "agents": "config set",
    "crawl": "allow-weaker concurrency network",
    "registry": (
        "category csv effect language licence limit min-quality no-synthetic out provider server"
    ),
    "generate": "accept concurrency config engine episodes max-failures run set workers",
    "fork": "all at concurrency copies only out persona run scripted set share",
    "report": "run",
    "replay": "run",
    "export": "format ids limit run to",
    "contamination": "against run",
    "lint": "",
    "gate": "execute run",
    "judge": "concurrency config criteria limit mutants pairs run set votes",
    "play": "index kind seed",
    "serve": "http no-start-over print-config seed",
    "models": "config probes set",
    "train": "application config dataset model run set",
    "eval": "application config episodes model set",
    "mock-llm": "fault-rate faults latency-ms ledger port script seed",
    "doctor": "",
}
"""Options of each command beside the shared `--workspace` and `--json`: a new one is a decision."""
BOOKS = Path(__file__).parent / "simulators" / "data"


def toolloom(folder, *arguments, **environment):
    return subprocess.run(
        [sys.executable, "-m", "synth", "--workspace", str(folder), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, **environment},
        check=False,
    )


@pytest.mark.parametrize("command", app.COMMANDS)
def test_options_are_the_frozen_ones_and_each_has_help(command):
    module = app.module_of(command)
    parser = argparse.ArgumentParser()
    module.configure(parser)
    actions = [a for a in parser._actions if a.dest != "help"]
    found = {a.option_strings[-1].removeprefix("--") for a in actions if a.option_strings}
    assert found == set(OPTIONS[command].split())
    assert module.__doc__
    unexplained = [a.dest for a in actions if not a.help and not a.choices]
    assert not unexplained


def test_every_command_is_documented():
    docs = Path(__file__).parent.parent / "docs"
    text = "\n".join(page.read_text(encoding="utf-8") for page in docs.glob("*.md"))
    assert not [name for name in app.COMMANDS if f"toolloom {name}" not in text]


def test_help_lists_every_command(tmp_path):
    said = toolloom(tmp_path, "--help")
    assert said.returncode == 0
    assert all(re.search(rf"^  {name} ", said.stdout, re.M) for name in app.COMMANDS)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("genrate --accept 1", "did you mean 'generate'"),
        ("generate --accept 1 --set generate.applications=['hotl']", "did you mean 'hotel'"),
        ("generate --accept 1 --set generate.agnets=3", "did you mean agents"),
        ("generate --accept 1 --run ../x", "not a name for a run"),
        ("generate --accept 1 --workers 2", "only --engine ray has workers"),
        ("generate --accept 1 --set generate.live_share=0.5", "toolloom crawl npm:"),
        ("generate --accept 1 --config missing.toml", "missing.toml"),
        ("report", "there is no run 'default'"),
        ("replay", "there is no run 'default'"),
        ("export --run nothing", "there is no run 'nothing'"),
        ("lint hotle", "did you mean 'hotel'"),
        ("play hotle", "did you mean 'hotel'"),
        ("serve hotle", "did you mean 'hotel'"),
        ("serve hotel --seed -1", "--seed must be between 0 and"),
        ("serve hotel --http 65536", "--http must be between 0 and 65535"),
        ("serve hotel --http --print-config", "--http PORT --print-config"),
        ("crawl ftp:thing", "not a source of tools"),
        ("crawl no/such/mcp.json", "no/such/mcp.json"),
        ("registry search", "needs a text"),
        ("registry sql ;", "no query"),
        ("registry show no_such_tool", "unknown tool"),
        ("registry sql 'SELECT", "sql"),
        ("train rl", "rl needs --application"),
        ("train sft", "sft needs --dataset"),
        ("train sft --dataset x --run ../y", "not a name for a run"),
    ],
)
def test_bad_input_gets_one_line_with_a_remedy_and_exit_code_2(tmp_path, line, says):
    said = toolloom(tmp_path, *line.split())
    assert said.returncode == 2, said.stderr
    assert says in said.stderr
    told = [one for one in said.stderr.splitlines() if not one.startswith("entering ")]
    assert len(told) == 1  # beside what a new registry says
    assert "Traceback" not in said.stderr


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("application: [", "broken.yaml"),
        ("application: x\nsurprise: 1", "surprise"),
        ("", "broken.yaml"),
    ],
)
def test_a_broken_application_names_file_and_place(tmp_path, broken, says):
    path = tmp_path / "broken.yaml"
    path.write_text(broken, encoding="utf-8")
    said = toolloom(tmp_path / "w", "lint", path)
    assert (said.returncode, len(said.stderr.strip().splitlines())) == (2, 1)
    assert says in said.stderr
    assert "broken.yaml" in said.stderr


def test_json_is_one_object_on_stdout_and_progress_stays_on_stderr(tmp_path):
    settings = ("--set", "generate.applications=['clinic']", "--set", "generate.agents=3")
    made = toolloom(tmp_path, "generate", "--episodes", 20, "--json", *settings)
    report = json.loads(made.stdout)
    assert report["episodes"] == 20
    shown = toolloom(tmp_path, "--json", "report")
    assert json.loads(shown.stdout) == report
    exported = json.loads(toolloom(tmp_path, "export", "--json", "--format", "openai").stdout)
    assert exported["rows"] == report["accepted"]
    stats = json.loads(toolloom(tmp_path, "registry", "stats", "--json").stdout)
    assert stats["tools_synthetic"] >= 54
    query = "SELECT count(*) AS n FROM episodes"
    answer = json.loads(toolloom(tmp_path, "registry", "sql", query, "--json").stdout)
    assert answer == {"columns": ["n"], "rows": [[20]], "truncated": False}
    found = json.loads(toolloom(tmp_path, "registry", "search", "cancel booking", "--json").stdout)
    assert found["rows"][0][0] == "application:hotel/cancel_booking"
    linted = json.loads(toolloom(tmp_path, "lint", "clinic", "--json").stdout)
    assert all(tool["calls"]["ok"] > 0 for tool in linted["tools"].values())


@pytest.mark.claim("a12")
@pytest.mark.claim("a15")
def test_an_export_for_mistral_has_its_identifiers_and_nothing_else_that_is_new(tmp_path):
    settings = ("--set", "generate.applications=['clinic']", "--set", "generate.agents=3")
    toolloom(tmp_path, "generate", "--accept", 9, *settings)
    rows = []
    for style in ("own", "mistral9"):
        to = ("--format", "openai", "--ids", style, "--to", tmp_path / style)
        assert toolloom(tmp_path, "export", *to).returncode == 0
        lines = (tmp_path / style / "train.jsonl").read_bytes().splitlines()
        rows.append([json.loads(line) for line in lines])
    assert len(rows[0]) == len(rows[1]) == 9
    for own, mistral in zip(*rows, strict=True):
        assert mistral == own | {"messages": in_nine_characters(own["messages"])}
        asked = [call["id"] for m in mistral["messages"] for call in m.get("tool_calls", ())]
        assert asked == [m["tool_call_id"] for m in mistral["messages"] if m["role"] == "tool"]
        assert all(re.fullmatch(r"[A-Za-z0-9]{9}", one) for one in asked)
        assert len(set(asked)) == len(asked)
    assert rows[0] != rows[1]


def test_people_get_a_funnel_and_a_table(tmp_path):
    settings = ("--set", "generate.applications=['clinic']", "--set", "generate.agents=3")
    made = toolloom(tmp_path, "generate", "--accept", 5, *settings)
    assert made.returncode == 0
    assert re.search(r"accepted +5$", made.stdout, re.M)
    table = toolloom(tmp_path, "registry", "search", "appointment").stdout
    assert "get_appointment" in table


def test_show_is_a_page_for_people_and_all_of_it_for_programs(tmp_path):
    page = toolloom(tmp_path, "registry", "show", "cancel_booking").stdout
    first, call, *_ = page.splitlines()
    assert first == "application:hotel/cancel_booking: destructive (declared)"
    assert call.startswith("cancel_booking(booking_id: string) - Cancel a confirmed booking")
    assert "  booking_id: Booking to cancel" in page
    assert "category: travel (declared), quality 0.95: no word on what comes back" in page
    assert "version 1, seen " in page
    found = json.loads(toolloom(tmp_path, "registry", "show", "cancel_booking", "--json").stdout)
    assert found["versions"][0]["parameters"]["required"] == ["booking_id"]


@pytest.mark.parametrize(
    "line",
    [
        "registry search x --limit 0",
        "crawl x --concurrency 0",
        "eval --application x --episodes -1",
    ],
)
def test_counts_are_at_least_one(tmp_path, line):
    said = toolloom(tmp_path, *line.split())
    assert said.returncode == 2
    assert "must be at least 1" in said.stderr


def test_json_never_holds_what_is_no_json(tmp_path):
    query = "SELECT 'nan'::DOUBLE AS a, 'infinity'::DOUBLE AS b, 1.5::DOUBLE AS c"
    said = toolloom(tmp_path, "registry", "sql", query, "--json")
    assert (
        said.stdout
        == '{"columns": ["a", "b", "c"], "rows": [[null, null, 1.5]], "truncated": false}\n'
    )


def test_a_missing_extra_is_named_with_how_to_install_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.split(".")[0] == "train"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "synth.app._learning", raising=False)
    asked = ["eval", "--application", "hotel", "--model", "tiny"]
    code = app.main(["--workspace", str(tmp_path), *asked])
    assert code == 1
    said = capsys.readouterr().err
    assert "torch is not installed (pip install 'toolloom[train]')" in said


def test_the_engine_of_many_machines_is_named_where_it_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    asked = ["generate", "--accept", "1", "--engine", "ray"]
    assert app.main(["--workspace", str(tmp_path), *asked]) == 1
    said = capsys.readouterr().err
    assert said == "toolloom generate: ray is not installed (pip install 'toolloom[ray]')\n"
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_is_heard_at_the_end_of_a_step_and_twice_at_once():
    from synth.app._show import interruptible

    steps = 0

    def work(times):
        nonlocal steps
        with interruptible() as stop:
            for _ in range(5):
                if stop():
                    break
                for _ in range(times):
                    os.kill(os.getpid(), signal.SIGINT)
                steps += 1

    with pytest.raises(KeyboardInterrupt):
        work(1)
    assert steps == 1
    with pytest.raises(KeyboardInterrupt):
        work(2)
    assert steps == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    line = f"{sys.executable} -m synth --workspace {tmp_path} registry search appointment | true"
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_a_locked_registry_names_the_process_that_holds_it(tmp_path):
    toolloom(tmp_path, "registry", "stats")
    code = (
        "import duckdb, sys, time\n"
        "con = duckdb.connect(sys.argv[1]); print('open', flush=True); time.sleep(60)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "registry.duckdb")],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout.readline() == "open\n"
        said = toolloom(tmp_path, "registry", "stats")
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    assert said.returncode == 1
    assert f"process {holder.pid}" in said.stderr
    assert len(said.stderr.strip().splitlines()) == 1


def test_doctor_tells_what_there_is(tmp_path):
    found = json.loads(toolloom(tmp_path, "doctor", "--json").stdout)
    assert found["versions"]["duckdb"]
    assert found["sandbox"]
    assert found["rooms"] == "ready" or "coding agents: " in found["rooms"]
    assert found["programs"]["npm"] is (shutil.which("npm") is not None)
    beside = str(Path(sys.executable).parent)  # where the extra `crawl` puts it, and crawls look
    assert found["programs"]["uv"] is bool(shutil.which("uv") or shutil.which("uv", path=beside))
