"""When checkpoints are written, and who may work on a training run."""

import fcntl
import os

import pytest

from synth.core.errors import BadInput, ToolloomError
from train.checkpoint import latest_checkpoint
from train.engine import TorchEngine
from train.journal import Journal, Pace, pace


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def test_a_checkpoint_is_due_when_enough_time_has_passed(clock):
    tempo = Pace(cost_s=1.0, least_s=60.0, clock=clock)
    clock.now = 59.9
    assert not tempo.due(1)
    clock.now = 60.0
    assert tempo.due(2)
    tempo.written(1.0)
    clock.now = 119.9
    assert not tempo.due(3)


def test_writing_takes_at_most_a_twentieth_of_the_time_on_a_slow_disk(clock):
    tempo = Pace(cost_s=0.1, least_s=10.0, clock=clock)
    steps, spent = 0, 0.0
    while clock.now < 20_000:
        clock.now += 3.0
        steps += 1
        if tempo.due(steps):
            clock.now += 30.0
            spent += 30.0
            tempo.written(30.0)
    assert 0.04 < spent / clock.now <= 0.05


def test_an_estimate_by_size_holds_back_the_first_checkpoint_of_a_large_model(clock):
    tempo = Pace(cost_s=20.0, least_s=60.0, clock=clock)
    clock.now = 399.0
    assert not tempo.due(1)
    clock.now = 400.0
    assert tempo.due(1)


def test_a_number_of_steps_goes_before_time(clock):
    tempo = Pace(cost_s=100.0, least_s=60.0, every=3, clock=clock)
    assert [step for step in range(1, 10) if tempo.due(step)] == [3, 6, 9]


def test_the_estimate_counts_weights_and_moments(engine):
    weights = sum(w.numel() for w in engine.model.parameters())
    assert pace(engine, least_s=1.0).cost_s == pytest.approx(12 * weights / 500e6)


def open_journal(engine, folder, fingerprint="f"):
    return Journal(engine, folder, fingerprint, pace(engine, least_s=0.0, every=2))


def test_what_is_measured_after_the_checkpoint_is_dropped_with_its_steps(engine, tmp_path):
    with open_journal(engine, tmp_path) as journal:
        for step in (1, 2, 3):
            journal.add({"step": step, "loss": None if step == 1 else 0.1 * step})
            journal.keep_if_due()
    assert (tmp_path / "metrics.jsonl").read_bytes().count(b"\n") == 3
    with open_journal(engine, tmp_path) as journal:
        assert journal.begun == 2
        assert journal.history == [{"step": 1, "loss": None}, {"step": 2, "loss": 0.2}]
    assert (tmp_path / "metrics.jsonl").read_bytes().count(b"\n") == 2


def test_a_session_ends_with_a_checkpoint_of_its_last_step(engine, tmp_path):
    with open_journal(engine, tmp_path) as journal:
        journal.add({"step": 1})
        assert journal.settle(over=False).cursor["resumable"] is True
        journal.add({"step": 2})
        assert journal.settle(over=True).cursor["resumable"] is False
    found = latest_checkpoint(tmp_path)
    assert (found.step, found.cursor["resumable"]) == (2, False)
    written = found.folder.stat().st_ino
    with open_journal(engine, tmp_path) as journal:
        journal.settle(over=True)
    assert latest_checkpoint(tmp_path).folder.stat().st_ino == written


def test_a_second_process_is_refused_and_told_who_is_at_work(engine, tmp_path):
    at_work = rf"\(pid {os.getpid()}\) works on this training"
    with open_journal(engine, tmp_path), pytest.raises(ToolloomError, match=at_work):
        open_journal(engine, tmp_path)
    with open_journal(engine, tmp_path):
        pass


def test_a_refused_run_is_left_unlocked(engine, tmp_path):
    with open_journal(engine, tmp_path) as journal:
        journal.add({"step": 1})
        journal.settle(over=True)
    with pytest.raises(BadInput, match="other settings or data"):
        open_journal(engine, tmp_path, fingerprint="g")
    with (tmp_path / ".lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_metrics_that_do_not_reach_the_checkpoint_are_named(loaded, tmp_path):
    engine = TorchEngine(loaded)
    with open_journal(engine, tmp_path) as journal:
        journal.add({"step": 1})
        journal.settle(over=True)
    (tmp_path / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(BadInput, match="metrics of 0 steps, the checkpoint is of step 1"):
        open_journal(engine, tmp_path)
