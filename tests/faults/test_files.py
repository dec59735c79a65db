"""What disks, hands and other processes do to the files of a run against models."""

import itertools
import json
import os
import shutil
import signal
import time

import pytest

from synth.core import jsonl
from synth.core.llm.journal import Journal
from synth.run import Episode, read_episodes

EPISODES = 24
OPTIONS = ("--episodes", str(EPISODES), "--concurrency", "4")


@pytest.fixture(scope="module")
def served(script, tmp_path_factory):
    """One endpoint for all of this: nothing here is judged by its ledger but by what is added."""
    from synth.core.llm.mock.child import child

    ledger = tmp_path_factory.mktemp("served") / "ledger.jsonl"
    with child(ledger, "--seed=1", "--latency-ms=2", f"--script={script(EPISODES)}") as mock:
        yield mock


@pytest.fixture(scope="module")
def finished(forks, served, tmp_path_factory):
    from types import SimpleNamespace

    return SimpleNamespace(forks=forks, mock=served, folder=tmp_path_factory.mktemp("finished"))


@pytest.fixture
def whole(place, served, finished):
    """A finished run, made once; a copy of it for each test."""
    made = place("whole", mock=served)
    origin = finished.folder / "runs"
    if not origin.exists():
        made.finish(*OPTIONS)
        shutil.copytree(made.folder / "runs", origin)
    else:
        shutil.copytree(origin, made.folder / "runs")
    made.folder.mkdir(exist_ok=True)
    return made


def unfinish(made, keep):
    """Leave so many finished episodes, and all of the journal."""
    path = made.run / "episodes-0.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:keep]))
    (made.run / "report.json").unlink()


def asked(made, *options):
    """Finish a run; return how many requests that took."""
    before = len(made.mock.entries())
    session = made.finish(*options or OPTIONS)
    return len(made.mock.entries()) - before, session.text()


@pytest.mark.claim("k04")
def test_a_finished_run_asks_for_nothing_and_an_unfinished_one_for_nothing_twice(whole):
    episodes, dataset = whole.episodes(), whole.dataset()
    assert asked(whole)[0] == 0
    unfinish(whole, 5)
    assert asked(whole)[0] == 0
    assert whole.report()["journal"]["replayed"] > EPISODES
    assert (whole.episodes(), whole.dataset()) == (episodes, dataset)


@pytest.mark.claim("r4")
def test_the_dataset_does_not_depend_on_how_many_play_at_once_nor_on_resuming(place, served):
    made = {n: place(f"at-{n}", mock=served) for n in (1, 8, 64)}
    for concurrency, one in made.items():
        one.finish("--accept", "20", "--concurrency", str(concurrency))
    resumed = place("resumed", mock=served)
    resumed.finish("--accept", "7", "--concurrency", "64")
    resumed.finish("--accept", "20", "--concurrency", "3")
    sets = {one.dataset() for one in (*made.values(), resumed)}
    assert len(sets) == 1
    assert sets.pop().count(b"\n") == 20
    reports = [one.told() | {"not_needed": None} for one in (*made.values(), resumed)]
    assert all(report == reports[0] for report in reports)


@pytest.mark.claim("k01")
def test_a_journal_torn_at_any_byte_of_its_last_line_loses_that_reply_only(whole, tmp_path):
    rows = [line for _, line in jsonl.lines(whole.run / "calls-0.jsonl") if b'"reply"' in line]
    first, last = rows[0], rows[-1]
    calls = [json.loads(row)["call"] for row in (first, last)]
    requests = [json.loads(row)["request"] for row in (first, last)]
    for cut in range(len(last)):
        folder = tmp_path / "torn"
        folder.mkdir(exist_ok=True)
        (folder / "calls-0.jsonl").write_bytes(first + last[:cut])
        journal = Journal(folder)
        found = [journal.find(c, r) for c, r in zip(calls, requests, strict=True)]
        assert [reply is not None for reply in found] == [True, False], cut
        assert journal.damaged == 0
        journal.write(calls[1], requests[1], found[0])
        os.close(journal._file._fd)  # without the sync, which takes longer than all of the rest
        assert len(list(jsonl.read(folder / "calls-0.jsonl"))) == 2


@pytest.mark.claim("k01")
def test_episodes_torn_at_any_byte_of_the_last_line_lose_that_one_only(whole, tmp_path):
    lines = [line for _, line in jsonl.lines(whole.run / "episodes-0.jsonl")]
    first, last = sorted(lines, key=len)[:2]
    path = tmp_path / "episodes-0.jsonl"
    kept = list(read_episodes(whole.run))
    for cut in itertools.chain(range(0, len(last), 7), range(len(last) - 40, len(last))):
        path.write_bytes(first + last[:cut])
        (episode,) = read_episodes(tmp_path)
        assert episode in kept
        appender = jsonl.Appender(path)
        appender.append(last[:-1])
        os.close(appender._fd)
        assert path.read_bytes() == first + last


@pytest.mark.claim("k02")
@pytest.mark.parametrize("file", ["calls-0.jsonl", "episodes-0.jsonl", "plan.jsonl"])
def test_a_run_goes_on_after_its_last_line_was_torn(whole, file):
    episodes, dataset = whole.episodes(), whole.dataset()
    unfinish(whole, EPISODES - 3)
    path = whole.run / file
    with path.open("r+b") as handle:
        handle.truncate(path.stat().st_size - 50)
    requests, _ = asked(whole)
    assert requests <= 1
    assert (whole.episodes(), whole.dataset()) == (episodes, dataset)


def flip(path, number):
    """Change one byte in the middle of a line."""
    lines = path.read_bytes().splitlines(keepends=True)
    line = bytearray(lines[number])
    line[len(line) // 2] ^= 1
    lines[number] = bytes(line)
    path.write_bytes(b"".join(lines))
    return path


def test_a_flipped_byte_in_the_journal_costs_a_reply_and_is_told(whole):
    episodes, dataset = whole.episodes(), whole.dataset()
    unfinish(whole, 0)
    rows = (whole.run / "calls-0.jsonl").read_bytes().splitlines()
    reply = next(number for number, row in enumerate(rows) if b'"reply"' in row)
    flip(whole.run / "calls-0.jsonl", reply)
    requests, said = asked(whole)
    assert requests == 1
    assert "1 damaged rows of the journal were left out and asked for again" in said
    assert (whole.episodes(), whole.dataset()) == (episodes, dataset)


@pytest.mark.parametrize("file", ["episodes-0.jsonl", "plan.jsonl", "agents.jsonl"])
def test_a_flipped_byte_in_a_row_is_named_and_mended_as_told(whole, file):
    episodes, dataset = whole.episodes(), whole.dataset()
    path = flip(whole.run / file, 2)
    session = whole.start(*OPTIONS)
    assert session.wait() == 2
    said = session.text().splitlines()[-1]
    assert f"{file}:3: the row is damaged: its checksum differs (remove that line" in said
    lines = path.read_bytes().splitlines(keepends=True)
    after = 3 if "and all after it" not in said else len(lines)
    path.write_bytes(b"".join(lines[:2] + lines[after:]))
    assert asked(whole)[0] == 0
    assert (whole.episodes(), whole.dataset()) == (episodes, dataset)


def test_a_plan_that_lacks_a_row_is_refused(whole):
    path = whole.run / "plan.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:4] + lines[5:]))
    session = whole.start(*OPTIONS)
    assert session.wait() == 2
    assert "plan.jsonl:5: here place 4 of the plan should stand, not 5" in session.text()


def test_a_full_disk_ends_the_run_in_one_line_and_it_goes_on_later(place, served, whole):
    """The limit of a file's size gives the errors of a full disk; it is met in file after file."""
    made = place("full", mock=served)
    sizes = [path.stat().st_size for path in whole.run.glob("*-0.jsonl")]
    for share in (0.1, 0.5, 0.9):
        session = made.start(*OPTIONS, limit=int(max(sizes) * share))
        assert session.wait() == 1, session.text()
        said = session.text().splitlines()[-1]
        full = ("no space left on the disk", "the file would exceed the largest size")
        assert any(f": {what}" in said for what in full)
        assert "Traceback" not in session.text()
    made.finish(*OPTIONS)
    assert made.episodes() == whole.episodes()
    assert made.dataset() == whole.dataset()


@pytest.mark.claim("k08")
def test_a_second_process_is_refused_and_names_the_first_and_the_registry_stays_open(place, served):
    made = place("busy", mock=served)
    first = made.start("--episodes", "100000", "--concurrency", "1")
    deadline = time.monotonic() + 60
    while not (made.run / "episodes-0.jsonl").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    second = made.start(*OPTIONS)
    assert second.wait() == 1
    assert f"another process (pid {first.pid}) works on this run" in second.text()
    browsing = made.command("registry", "sql", "SELECT count(*) AS n FROM tools")
    assert browsing.wait() == 0, browsing.text()  # a run does not hold the registry
    assert not first.ended()
    first.signal(signal.SIGINT)
    assert first.wait() == 130


@pytest.mark.claim("k04")
def test_other_settings_are_refused_with_what_differs_and_limits_are_no_settings(whole):
    session = whole.start(*OPTIONS, "--set=models.agent.temperature=0.1")
    assert session.wait() == 2
    assert "this run was started with other settings" in session.text()
    assert "models.agent.temperature: 0.6 -> 0.1" in session.text()
    free = ("--set=budget.requests=100000", "--set=models.agent.timeout_s=30", "--max-failures=1")
    assert asked(whole, *OPTIONS, *free)[0] == 0
    assert all(isinstance(episode, Episode) for episode in read_episodes(whole.run))
