"""The reinforcement loop on a task small enough to know the answer."""

import asyncio
import json
import re
import signal
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from synth.core.errors import BadInput, ToolloomError
from train.batches import Row
from train.engine import TorchEngine
from train.rl import RlConfig, Sample, learn, measure, train_rl

CONFIG = RlConfig(iterations=12, tasks=2, k=16, lr=1e-2, inner_steps=2, tau=0.1, temperature=1.0)


@pytest.fixture
def run(engine, tmp_path, bandit):
    def go(config=CONFIG, *, lost=0.0, engine=engine, **options):
        rollouts = bandit["Bandit"](lost)
        return asyncio.run(train_rl(engine, rollouts, config, tmp_path, **options))

    return go


def test_a_bandit_is_learned(run, tmp_path):
    told = []
    result = run(progress=lambda step, total, m: told.append((step, total)))
    late = [row["reward"] for row in result.history[-3:]]
    assert result.reward_first < 0.75
    assert sum(late) / 3 > 0.9
    assert told == [(n, 12) for n in range(1, 13)]
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["reward"] for line in lines] == [r["reward"] for r in result.history]


def test_samples_without_a_score_change_nothing_and_are_counted(run):
    result = run(lost=0.25)
    assert {row["unscored"] for row in result.history} == {8}
    assert sum(row["reward"] for row in result.history[-3:]) / 3 > 0.75


def test_nothing_scored_is_no_reward_and_no_step(run, engine, tmp_path):
    result = run(lost=1.0)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert {json.loads(line)["reward"] for line in lines} == {None}
    assert (result.reward_first, result.reward_last) == (None, None)
    assert engine.version == 0
    assert {row["learned_rows"] for row in result.history} == {0}


def samples(rewards, logprob=-1.0):
    return [
        Sample(Row([5, 6, 7 + n], [0.0, 0.0, 1.0]), [logprob], reward)
        for n, reward in enumerate(rewards)
    ]


def test_groups_without_a_difference_are_counted_and_left_out(engine):
    groups = [samples([1.0, 1.0]), samples([0.0, 0.0]), samples([1.0, 0.0, None])]
    figures = measure(groups)
    assert figures["zero_signal"] == pytest.approx(2 / 3)
    assert figures["reward"] == pytest.approx(3 / 6)
    assert figures["unscored"] == 1
    assert figures["entropy"] == pytest.approx(1.0)
    assert learn(engine, groups, CONFIG)["learned_rows"] == 2
    assert engine.version == CONFIG.inner_steps


def test_the_baseline_is_of_the_group_and_not_of_the_batch(engine):
    easy = samples([1.0, 1.0, 1.0, 0.0])
    before = engine.forward([easy[3].row]).logprobs[0][0]
    learn(engine, [easy], CONFIG)
    assert engine.forward([easy[3].row]).logprobs[0][0] < before


def test_the_reference_is_the_training_forward_of_the_weights_that_sampled(engine):
    # The sampler's own numbers are off by one; the ratio at the start must be zero all the same.
    group = samples([1.0, 0.0], logprob=-7.0)
    still = RlConfig(iterations=1, tasks=1, k=2, lr=0.0, inner_steps=1)
    figures = learn(engine, [group], still)
    assert figures["ratio_p50"] == pytest.approx(0, abs=1e-5)
    assert figures["kl"] == pytest.approx(0, abs=1e-5)
    assert figures["mismatch"] > 0.5


def test_every_iteration_starts_with_a_fresh_optimizer(engine):
    group = samples([1.0, 0.0])
    learn(engine, [group], CONFIG)
    learn(engine, [group], CONFIG)
    steps = {int(state["step"]) for state in engine.optimizer.inner.state_dict()["state"].values()}
    assert steps == {CONFIG.inner_steps}


def test_the_run_ends_when_the_next_iteration_would_not_fit_and_goes_on_later(
    run, engine, loaded, tmp_path
):
    start = {name: value.clone() for name, value in engine.model.state_dict().items()}
    assert run(seconds=0.0).iterations == 1
    for session in (2, 3):
        loaded.model.load_state_dict(start)
        again = run(engine=TorchEngine(loaded, places=256), stop=lambda: True)
        assert (again.resumed_from, again.iterations) == (session - 1, session)
    assert [path.name for path in tmp_path.glob("step-*")] == ["step-000003"]


def test_a_finished_run_is_not_trained_again(run, loaded):
    start = {name: value.clone() for name, value in loaded.model.state_dict().items()}
    config = replace(CONFIG, iterations=2)
    first = run(config)
    loaded.model.load_state_dict(start)
    engine, told = TorchEngine(loaded, places=256), []
    second = run(config, engine=engine, progress=lambda step, total, m: told.append((step, total)))
    assert (second.history, second.checkpoint) == (first.history, first.checkpoint)
    assert (second.resumed_from, told) == (2, [(2, 2)])
    assert engine.version == 1  # the weights were loaded, no step was taken
    with pytest.raises(BadInput, match="other settings or data"):
        run(replace(config, tau=0.2), engine=engine)


def end_of(folder):
    """Everything a run left: weights as bytes, the rest of the engine, what was measured."""
    (checkpoint,) = folder.glob("step-*")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    history = [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
    state = torch.load(folder / "end" / "training_state.pt", weights_only=True)
    return checkpoint.name, (checkpoint / "model.safetensors").read_bytes(), state, history


def same(a, b):
    """Whether two values are equal to the last bit, tensors included."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def test_kill_9_at_any_moment_changes_nothing_of_what_comes_out(processes, tmp_path):
    child, whole, broken = Path(__file__).with_name("rl_child.py"), tmp_path / "a", tmp_path / "b"
    log = tmp_path / "log"

    def measured():
        file = broken / "metrics.jsonl"
        return file.read_bytes().count(b"\n") if file.exists() else 0

    assert processes.run(log, child, whole) == 0, log.read_text()
    moments = [
        lambda: measured() >= 2,
        lambda: measured() >= 4 and any(broken.glob(".writing-*/checkpoint/*")),
        lambda: measured() >= 6 and len([*broken.glob("step-*")]) > 1,
        lambda: measured() >= 10,
    ]
    for moment in moments:
        assert processes.run(log, child, broken, kill_when=moment) == -signal.SIGKILL
    assert processes.run(log, child, broken) == 0, log.read_text()
    begun = re.findall(r"went on from (\d+)", log.read_text())
    assert int(begun[0]) == 0
    assert int(begun[1]) >= 9
    assert not list(broken.glob(".writing-*"))
    expected, found = end_of(whole), end_of(broken)
    assert found[0] == "step-000016"
    assert [row["learned_rows"] > 0 for row in expected[3]].count(True) > 3
    assert [row["learned_rows"] > 0 for row in expected[3]].count(False) > 3
    assert same(found, expected)


def test_all_tasks_take_their_turn():
    from train.rl import _tasks

    drawn = [task for n in range(6) for task in _tasks(4, CONFIG, n)]
    assert sorted(drawn) == sorted([*range(4)] * 3)


def test_fewer_than_two_samples_or_no_tasks_are_refused(run):
    with pytest.raises(BadInput, match="least there is to compare"):
        run(RlConfig(k=1))


def test_what_was_not_measured_is_none_and_never_nan():
    figures = measure([samples([None, None])])
    assert (figures["reward"], figures["reward_low"], figures["zero_signal"]) == (None, None, None)
    assert (figures["samples"], figures["unscored"]) == (2, 2)
    silent = [Sample(Row([], []), [], None)] * 2
    assert (measure([silent])["entropy"], measure([silent])["tokens"]) == (None, 0.0)


def test_groups_that_cannot_be_compared_say_nothing_about_the_signal():
    broken = [samples([None, None]), samples([1.0, None])]
    assert measure([samples([1.0, 0.0]), *broken])["zero_signal"] == 0.0
    assert measure([samples([1.0, 1.0]), *broken])["zero_signal"] == 1.0


def test_the_interval_of_the_reward_is_given_where_rewards_are_passes():
    figures = measure([samples([1.0, 0.0, 0.0, 0.0, None])])
    assert (figures["reward_low"], figures["reward_high"]) == pytest.approx((0.0456, 0.6994), 1e-3)
    assert measure([samples([0.5, 0.0])])["reward_low"] is None


def test_a_policy_that_was_ruined_is_an_error_and_not_a_figure(engine):
    ruin = RlConfig(iterations=1, tasks=1, k=2, lr=1e39, inner_steps=1)
    with pytest.raises(ToolloomError, match="not finite"):
        learn(engine, [samples([1.0, 0.0])], ruin)
