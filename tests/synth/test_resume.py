"""A run that cannot be killed: what is on disk afterwards is what would have been there anyway."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from importlib.resources import files

import pytest

from synth.core.config import load_config
from synth.core.errors import BadInput, BadRow, ToolloomError
from synth.core.store import Workspace
from synth.pipeline.export import export
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.run import Failure, Run, read_episodes, read_plan

SETTINGS = ["generate.applications=['clinic']", "generate.agents=4", "generate.states=3"]
FILES = ("plan.jsonl", "agents.jsonl", "episodes-0.jsonl", "config.json", "report.json")
WANTED = 60


def make(folder, goal=None, settings=SETTINGS):
    config = load_config(None, settings)
    goal = goal or Goal(accept=WANTED)
    return asyncio.run(generate(config, folder / "runs" / "r", folder, goal))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    make(folder)
    return {name: (folder / "runs" / "r" / name).read_bytes() for name in FILES}


def command_line(folder, *options):
    settings = [f"--set={setting}" for setting in SETTINGS]
    start = [sys.executable, "-m", "synth", "--workspace", str(folder), "generate"]
    return [*start, *options, *settings]


def same(folder, reference):
    return {name: (folder / "runs" / "r" / name).read_bytes() for name in FILES} == reference


def test_the_same_settings_give_the_same_files_in_another_process(tmp_path, reference):
    command = [
        sys.executable,
        "-m",
        "synth",
        "--workspace",
        str(tmp_path),
        "generate",
        "--run",
        "r",
    ]
    command += ["--accept", str(WANTED), *(f"--set={setting}" for setting in SETTINGS)]
    subprocess.run(
        command, check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": "7"}
    )
    assert same(tmp_path, reference)


def test_the_order_in_which_shares_are_written_decides_nothing(tmp_path):
    ways = [
        ["generate.mix={lookup=1, single_write=2}", "generate.languages={en=1, de=1}"],
        ["generate.mix={single_write=2, lookup=1}", "generate.languages={de=1, en=1}"],
    ]
    plans = set()
    for number, way in enumerate(ways):
        folder = tmp_path / str(number)
        make(folder, Goal(episodes=20), ["generate.applications=['bank']", *way])
        plans.add((folder / "runs" / "r" / "plan.jsonl").read_bytes())
    assert len(plans) == 1


def test_kill_9_at_any_time_loses_nothing_and_the_same_command_finishes(tmp_path, reference):
    command = [
        sys.executable,
        "-m",
        "synth",
        "--workspace",
        str(tmp_path),
        "generate",
        "--run",
        "r",
    ]
    command += ["--accept", str(WANTED), *(f"--set={setting}" for setting in SETTINGS)]
    episodes = tmp_path / "runs" / "r" / "episodes-0.jsonl"
    for lines in (3, 20, 45):
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while _lines(episodes) < lines and child.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)
        child.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert same(tmp_path, reference)


def _lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.parametrize("name", ["plan.jsonl", "episodes-0.jsonl", "agents.jsonl"])
def test_a_torn_last_line_is_made_again(tmp_path, reference, name):
    make(tmp_path, Goal(accept=30))
    path = tmp_path / "runs" / "r" / name
    path.write_bytes(path.read_bytes()[:-40])
    (tmp_path / "runs" / "r" / "report.json").unlink()
    make(tmp_path)
    assert same(tmp_path, reference)


@pytest.mark.claim("k02")
def test_a_torn_last_episode_is_the_only_one_that_is_played_again(tmp_path):
    make(tmp_path, Goal(episodes=60))
    path = tmp_path / "runs" / "r" / "episodes-0.jsonl"
    whole = path.read_bytes()
    kept = whole[: whole[:-1].rfind(b"\n") + 1]
    for cut in (1, 40, len(whole) - len(kept) - 1):
        path.write_bytes(whole[:-cut])
        (tmp_path / "runs" / "r" / "report.json").unlink()
        make(tmp_path, Goal(episodes=60))
        assert path.read_bytes() == whole  # all others stayed, and one was added
        make(tmp_path, Goal(episodes=60))
        assert path.read_bytes() == whole


def test_a_finished_run_is_extended_without_playing_anything_twice(tmp_path, reference):
    make(tmp_path, Goal(accept=20))
    before = [e.trajectory.episode for e in read_episodes(tmp_path / "runs" / "r")]
    make(tmp_path)
    after = [e.trajectory.episode for e in read_episodes(tmp_path / "runs" / "r")]
    assert after[: len(before)] == before
    assert len(after) == len(set(after))
    assert same(tmp_path, reference)


def test_a_smaller_goal_leaves_the_surplus_and_counts_it_as_not_needed(tmp_path):
    make(tmp_path, Goal(accept=30))
    report = make(tmp_path, Goal(accept=10))
    assert report["accepted"] == 10
    assert (
        report["not_needed"] == len(list(read_plan(tmp_path / "runs" / "r"))) - report["episodes"]
    )


def test_other_settings_are_refused_with_what_differs(tmp_path):
    make(tmp_path, Goal(episodes=3))
    with pytest.raises(BadInput, match=r"generate\.agents: 4 -> 5") as caught:
        make(tmp_path, settings=[*SETTINGS[:1], "generate.agents=5", SETTINGS[2]])
    assert caught.value.exit_code == 2


def test_a_changed_application_is_refused_by_name(tmp_path):
    def edition(policy):
        source = files("simulators.applications").joinpath("clinic.yaml").read_text("utf-8")
        path = tmp_path / "clinic.yaml"
        path.write_text(source.replace("policy: |\n", f"policy: |\n  {policy}\n", 1), "utf-8")
        return [f"generate.applications=['{path}']", *SETTINGS[1:]]

    make(tmp_path, Goal(episodes=2), edition("Be kind."))
    make(tmp_path, Goal(episodes=3), edition("Be kind."))
    with pytest.raises(BadInput, match="world 'clinic' changed"):
        make(tmp_path, Goal(episodes=4), edition("Be brief."))
    assert len(list(read_episodes(tmp_path / "runs" / "r"))) == 3


def test_another_set_of_applications_or_prompts_is_refused_by_name(tmp_path):
    config = load_config(None, SETTINGS)
    with Run(tmp_path, config, {"world 'a'": "1", "prompt 'p'": "1"}) as run:
        run.add_failure(Failure(episode="e", error="it has begun"))
    with pytest.raises(BadInput, match="prompt 'p' is gone; world 'a' changed; world 'b' is new"):
        Run(tmp_path, config, {"world 'a'": "2", "world 'b'": "1"})


def test_of_an_episode_that_is_in_the_files_twice_the_last_line_counts(tmp_path):
    make(tmp_path, Goal(episodes=3))
    path = tmp_path / "runs" / "r" / "episodes-0.jsonl"
    row = json.loads(path.read_bytes().splitlines()[0])
    row["verdict"] |= {"passed": False, "reason": "judged again"}
    del row["crc"]  # a row that people wrote
    with path.open("ab") as file:
        file.write(json.dumps(row).encode() + b"\n")
    report = make(tmp_path, Goal(episodes=3))
    assert report["episodes"] == 3
    assert report["rejected_by_reason"]["judged again"] == 1
    with Workspace(tmp_path).read() as con:
        rows = con.execute("SELECT episode, reason FROM verdicts").fetchall()
    assert len(rows) == 3
    assert (row["verdict"]["episode"], "judged again") in rows


def test_a_run_folder_that_cannot_be_made_is_named_without_a_traceback(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ToolloomError, match="/file: a file stands where a folder must be"):
        Run(tmp_path / "file" / "r", load_config())


def test_a_damaged_row_in_the_middle_is_named_and_nothing_is_changed(tmp_path):
    make(tmp_path, Goal(episodes=5))
    path = tmp_path / "runs" / "r" / "episodes-0.jsonl"
    lines = path.read_bytes().split(b"\n")
    row = json.loads(lines[2])
    row["trajectory"]["surprise"] = 1
    del row["crc"]
    path.write_bytes(b"\n".join([*lines[:2], json.dumps(row).encode(), *lines[3:]]))
    damaged = path.read_bytes()
    with pytest.raises(BadRow, match=r"episodes-0\.jsonl:3: .*surprise"):
        make(tmp_path)
    assert path.read_bytes() == damaged


def test_a_lost_agent_is_made_again(tmp_path):
    report = make(tmp_path, Goal(episodes=5))
    run = tmp_path / "runs" / "r"
    before = (run / "agents.jsonl").read_bytes().splitlines()
    (run / "agents.jsonl").write_bytes(b"\n".join(before[1:]) + b"\n")
    with pytest.raises(
        BadRow, match=r"agents\.jsonl: the agent of episode 0 .*repeat the command that made"
    ):
        export(run, tmp_path / "out", formats=["openai"], limit=None)
    assert make(tmp_path, Goal(episodes=5)) == report
    assert sorted((run / "agents.jsonl").read_bytes().splitlines()) == sorted(before)


def test_an_agent_that_was_never_made_is_named(tmp_path):
    make(tmp_path, Goal(episodes=5))
    path = tmp_path / "runs" / "r" / "plan.jsonl"
    first, rest = path.read_text(encoding="utf-8").split("\n", 1)
    row = json.loads(first) | {"agent": "nobody"}
    del row["crc"]
    path.write_text(f"{json.dumps(row)}\n{rest}", encoding="utf-8")
    with pytest.raises(BadRow, match=r"plan\.jsonl: no agent 'nobody' of 'clinic'"):
        make(tmp_path, Goal(episodes=5))


def test_a_second_process_on_the_same_run_is_refused_by_name(tmp_path):
    config = load_config(None, SETTINGS)
    with Run(tmp_path / "r", config), pytest.raises(ToolloomError, match=f"pid {os.getpid()}"):
        Run(tmp_path / "r", config)
    Run(tmp_path / "r", config).close()


@pytest.mark.claim("k05")
def test_ctrl_c_ends_cleanly_with_130_and_says_how_to_resume(tmp_path):
    command = command_line(tmp_path, "--accept", "100000")
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    episodes = tmp_path / "runs" / "default" / "episodes-0.jsonl"
    deadline = time.monotonic() + 60
    while _lines(episodes) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=30)
    assert child.returncode == 130
    assert "the same command goes on" in said
    assert "Traceback" not in said
    assert _lines(episodes) == len(list(read_episodes(episodes.parent)))
