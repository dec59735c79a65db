"""The reinforcement loop on a task small enough to know the answer."""

import asyncio
import json
import math

import pytest

from synth.core.errors import BadInput
from train.batches import Row
from train.engine import Sampling
from train.rl import RlConfig, Sample, learn, measure, train_rl

CONFIG = RlConfig(iterations=12, tasks=2, k=16, lr=1e-2, inner_steps=2, tau=0.1, temperature=1.0)


class Bandit:
    """One token is asked for; tokens of the right parity pay 1. Some pulls pay nothing known."""

    prompts = ([5, 6, 7], [8, 9])

    def __init__(self, lost=0.0):
        self.lost = lost

    def __len__(self):
        return len(self.prompts)

    async def __call__(self, engine, tasks, k, *, temperature, seed):
        one = Sampling(stop=(), max_tokens=1, temperature=temperature)
        groups = []
        for n, task in enumerate(tasks):
            prompt = self.prompts[task]
            drawn = engine.sample([prompt] * k, one, [seed + 1000 * n + i for i in range(k)])
            groups.append(
                [
                    Sample(
                        Row(prompt + d.ids, [0.0] * len(prompt) + [1.0]),
                        d.logprobs,
                        None if i < self.lost * k else float(d.ids[0] % 2 == task),
                    )
                    for i, d in enumerate(drawn)
                ]
            )
        return groups


def run(engine, folder, rollouts=None, config=CONFIG, **options):
    return asyncio.run(train_rl(engine, rollouts or Bandit(), config, folder, **options))


def test_a_bandit_is_learned(engine, tmp_path):
    told = []
    result = run(engine, tmp_path, progress=lambda step, total, m: told.append((step, total)))
    late = [row["reward"] for row in result.history[-3:]]
    assert result.reward_first < 0.75
    assert sum(late) / 3 > 0.9
    assert told == [(n, 12) for n in range(1, 13)]
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["reward"] for line in lines] == [r["reward"] for r in result.history]


def test_samples_without_a_score_change_nothing_and_are_counted(engine, tmp_path):
    result = run(engine, tmp_path, rollouts=Bandit(lost=0.25))
    assert {row["unscored"] for row in result.history} == {8}
    assert sum(row["reward"] for row in result.history[-3:]) / 3 > 0.75


def test_nothing_scored_is_no_reward_and_no_step(engine, tmp_path):
    result = run(engine, tmp_path, rollouts=Bandit(lost=1.0))
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


def test_the_run_ends_when_the_next_iteration_would_not_fit(engine, tmp_path):
    result = run(engine, tmp_path, seconds=0.0)
    assert result.iterations == 1
    assert run(engine, tmp_path, stop=lambda: True).iterations == 1


def test_all_tasks_take_their_turn():
    from train.rl import _tasks

    drawn = [task for n in range(6) for task in _tasks(4, CONFIG, n)]
    assert sorted(drawn) == sorted([*range(4)] * 3)


def test_fewer_than_two_samples_or_no_tasks_are_refused(engine, tmp_path):
    with pytest.raises(BadInput, match="least there is to compare"):
        run(engine, tmp_path, config=RlConfig(k=1))


def test_unscored_groups_do_not_break_the_figures():
    assert math.isnan(measure([samples([None, None])])["reward"])
