"""The fine-tuning loop: budget, schedule, and a resumed run that equals an unbroken one."""

import json
import random
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from synth.core.errors import BadInput
from train.batches import Row
from train.checkpoint import latest_checkpoint
from train.data import Prepared
from train.engine import TorchEngine
from train.models import load
from train.sft import SftConfig, learning_rate, plan_steps, train_sft

CONFIG = SftConfig(budget=3000, step_places=250, lr=1e-2, together=3, epochs=9, checkpoint_every=2)


def prepared(agents=3, each=5, prefix=50):
    rng = random.Random(3)
    rows, owners = [], []
    for agent in range(agents):
        start = [rng.randrange(3, 500) for _ in range(prefix)]
        for _ in range(each):
            ending = [rng.randrange(3, 60) for _ in range(rng.randrange(5, 20))]
            rows.append(Row(start + ending, [0.0] * prefix + [1.0] * len(ending)))
            owners.append(str(agent))
    return Prepared(tuple(rows), tuple(owners), {})


def weights(engine):
    return torch.cat([w.detach().flatten() for w in engine.model.parameters()])


def test_the_plan_keeps_the_budget_and_rows_of_an_agent_together():
    data = prepared()
    steps = plan_steps(data, CONFIG, places=256)
    order = [index for step in steps for index in step]
    assert len(set(order[:15])) == 15
    together = sum(data.agents[a] == data.agents[b] for a, b in pairwise(order))
    assert together > len(order) / 2
    assert sum(len(step) for step in steps) == len(order) > 30
    other = plan_steps(data, replace(CONFIG, seed=1), places=256)
    assert other != steps
    assert plan_steps(data, CONFIG, places=256) == steps


def test_a_budget_smaller_than_one_chunk_still_takes_a_step():
    tight = SftConfig(budget=1, step_places=250)
    assert len(plan_steps(prepared(), tight, places=256)) == 1


def test_the_rate_rises_then_falls_to_a_tenth():
    config = SftConfig(lr=1.0, warmup_share=0.2)
    rates = [learning_rate(step, 20, config) for step in range(20)]
    assert rates[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert rates[4] == 1.0
    assert rates[4:] == sorted(rates[4:], reverse=True)
    assert 0.1 < rates[-1] < 0.12
    assert learning_rate(20, 20, config) == pytest.approx(0.1)


def test_training_lowers_the_loss_and_leaves_a_model_folder(engine, tmp_path):
    told = []
    result = train_sft(
        engine,
        prepared(),
        CONFIG,
        tmp_path,
        progress=lambda step, total, metrics: told.append((step, total, metrics["loss"])),
    )
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert result.loss_last < result.loss_first - 1
    assert [step for step, _, _ in told] == list(range(1, result.steps + 1))
    assert {total for _, total, _ in told} == {result.steps}
    assert [line["loss"] for line in lines] == [loss for _, _, loss in told]
    assert sum(line["places"] for line in lines) == result.places <= CONFIG.budget
    assert result.tokens > result.places
    assert torch.equal(weights(TorchEngine(load(result.checkpoint))), weights(engine))
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [result.checkpoint.name]


class Crash(Exception):
    """Stands for a process that ends in the middle."""


@pytest.fixture
def fresh(loaded):
    """Makes an engine as another process would: with the weights every run starts from."""
    start = {name: value.clone() for name, value in loaded.model.state_dict().items()}

    def engine():
        loaded.model.load_state_dict(start)
        return TorchEngine(loaded, places=256)

    return engine


@pytest.mark.parametrize("crash_after", [3, 4, 5])
def test_a_resumed_run_is_bit_equal_to_an_unbroken_one(fresh, tmp_path, crash_after):
    engine = fresh
    whole = engine()
    unbroken = train_sft(whole, prepared(), CONFIG, tmp_path / "whole")
    wanted = weights(whole).clone()
    assert unbroken.steps > 6

    def crash(step, total, metrics):
        if step == crash_after:
            raise Crash

    with pytest.raises(Crash):
        train_sft(engine(), prepared(), CONFIG, tmp_path / "broken", progress=crash)
    assert latest_checkpoint(tmp_path / "broken").step == (crash_after - 1) // 2 * 2
    again = engine()
    resumed = train_sft(again, prepared(), CONFIG, tmp_path / "broken")
    assert torch.equal(weights(again), wanted)
    assert resumed.loss_last == unbroken.loss_last
    lines = (tmp_path / "broken" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(1, unbroken.steps + 1))


def test_a_run_that_is_asked_to_stop_can_go_on_later(fresh, tmp_path):
    stopped = train_sft(fresh(), prepared(), CONFIG, tmp_path, stop=lambda: True)
    assert (stopped.steps, stopped.resumed_from, stopped.loss_after) == (1, 0, None)
    told = []
    done = train_sft(
        fresh(),
        prepared(),
        CONFIG,
        tmp_path,
        progress=lambda step, total, metrics: told.append((step, metrics["loss"])),
    )
    assert done.resumed_from == 1
    assert [step for step, _ in told] == list(range(1, done.steps + 1))
    assert told[0] == (1, stopped.loss_first)


def test_when_checkpoints_are_written_may_differ_between_sessions(fresh, tmp_path):
    train_sft(fresh(), prepared(), CONFIG, tmp_path, stop=lambda: True)
    seldom = replace(CONFIG, checkpoint_every=0, checkpoint_s=7.0)
    assert train_sft(fresh(), prepared(), seldom, tmp_path).resumed_from == 1


def test_a_finished_run_is_not_trained_again(fresh, tmp_path):
    first = train_sft(fresh(), prepared(), CONFIG, tmp_path)
    again = fresh()
    second = train_sft(again, prepared(), CONFIG, tmp_path)
    assert (second.steps, second.loss_last) == (first.steps, first.loss_last)
    assert (second.resumed_from, second.loss_after) == (first.steps, first.loss_after)
    assert again.version == 1  # the weights were loaded, no step was taken


def test_loss_before_and_after_are_of_the_same_rows(engine, tmp_path):
    data = prepared()
    first = plan_steps(data, CONFIG, places=256)[0]
    result = train_sft(engine, data, CONFIG, tmp_path)
    rows = [data.rows[index] for index in first]
    logprobs = [value for row in engine.forward(rows).logprobs for value in row]
    assert result.loss_after == pytest.approx(-sum(logprobs) / len(logprobs))
    assert result.loss_after < result.loss_first - 1


def test_another_model_of_the_same_name_does_not_go_on_with_the_run(fresh, tmp_path):
    train_sft(fresh(), prepared(), CONFIG, tmp_path, stop=lambda: True)
    other = fresh()
    with torch.no_grad():
        next(other.model.parameters()).mul_(1.01)
    with pytest.raises(BadInput, match="of another model"):
        train_sft(other, prepared(), CONFIG, tmp_path)


def test_other_settings_in_the_same_folder_are_refused(engine, tmp_path):
    train_sft(engine, prepared(), CONFIG, tmp_path, stop=lambda: True)
    with pytest.raises(BadInput, match="other settings or data"):
        train_sft(engine, prepared(), SftConfig(lr=1e-5), tmp_path)


def test_no_rows_are_one_clear_line(engine, tmp_path):
    with pytest.raises(BadInput, match="no rows"):
        train_sft(engine, Prepared((), (), {}), CONFIG, tmp_path)
