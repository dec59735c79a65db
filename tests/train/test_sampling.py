"""Sampling: equal to the library's, whatever is batched together or remembered."""

import math
import random

import pytest
import torch

from train.batches import Row
from train.engine import Sampling, Step, TorchEngine
from train.objective import CrossEntropy
from train.sampling import Generator

GREEDY = Sampling(stop=(2,), max_tokens=12, temperature=0)


def prompts(seed=0):
    """Ragged prompts: some begin alike, one is very short."""
    rng = random.Random(seed)
    start = [rng.randrange(3, 500) for _ in range(90)]
    tails = [[rng.randrange(3, 500) for _ in range(n)] for n in (3, 80, 40, 1)]
    return [start + tail for tail in tails] + [[5, 6, 7]]


def greedy(model, prompt, count=12):
    """The same continuation by the library's own generation."""
    ids = torch.tensor([prompt])
    out = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=count,
        do_sample=False,
        eos_token_id=2,
        pad_token_id=0,
    )
    return out[0, len(prompt) :].tolist()


def test_greedy_sampling_equals_the_library_row_by_row(engine):
    given = prompts()
    drawn = engine.sample(given, GREEDY, [0] * len(given))
    assert [one.ids for one in drawn] == [greedy(engine.model, prompt) for prompt in given]


def test_a_second_turn_computes_only_what_is_new(engine):
    given = prompts()
    drawn = engine.sample(given, GREEDY, [0] * len(given))
    before = engine.meter.prefilled_tokens
    longer = [p + one.ids + [9, 9] for p, one in zip(given, drawn, strict=True)]
    again = engine.sample(longer, GREEDY, [0] * len(given))
    assert [one.ids for one in again] == [greedy(engine.model, prompt) for prompt in longer]
    # The last sampled token was never computed, two are new.
    assert engine.meter.prefilled_tokens - before == 3 * len(given)


def test_common_beginnings_are_computed_once(engine):
    given = prompts()[:4]
    engine.sample(given, GREEDY, [0] * 4)
    assert engine.meter.prefilled_tokens == 90 + sum(len(p) - 90 for p in given)


def test_remembered_state_is_dropped_when_the_weights_change(engine):
    given = prompts()
    engine.sample(given, GREEDY, [0] * len(given))
    row = Row(given[0], [1.0] * len(given[0]))
    engine.forward_backward([row], CrossEntropy(total=len(row.ids) - 1))
    engine.optim_step(Step(lr=0.05))
    drawn = engine.sample(given, GREEDY, [0] * len(given))
    assert [one.ids for one in drawn] == [greedy(engine.model, prompt) for prompt in given]
    assert {one.version for one in drawn} == {1}


def test_a_small_memory_forgets_and_stays_right(loaded):
    engine = TorchEngine(loaded, cache_tokens=50)
    given = prompts()
    for _ in range(2):
        drawn = engine.sample(given, GREEDY, [0] * len(given))
        assert [one.ids for one in drawn] == [greedy(engine.model, p) for p in given]


def test_rows_with_copies_of_their_beginning_draw_the_same(engine):
    # The way of models whose attention is not ours.
    generator = Generator(engine.model, cache_tokens=1000, share=False)
    given = prompts()
    for _ in range(2):
        drawn = generator.sample(given, GREEDY, [0] * len(given), version=0)
        assert [one.ids for one in drawn] == [greedy(engine.model, p) for p in given]


def test_log_probabilities_are_those_of_the_training_forward(engine):
    sampling = Sampling(stop=(2,), max_tokens=10, temperature=0.7)
    given = prompts()
    drawn = engine.sample(given, sampling, range(len(given)))
    rows = [
        Row(p + one.ids, [0.0] * len(p) + [1.0] * len(one.ids))
        for p, one in zip(given, drawn, strict=True)
    ]
    again = engine.forward(rows, temperature=0.7).logprobs
    for one, logprobs in zip(drawn, again, strict=True):
        assert one.logprobs == pytest.approx(logprobs, abs=1e-4)


def test_a_draw_depends_on_its_own_seed_and_not_on_its_neighbours(engine):
    sampling = Sampling(stop=(2,), max_tokens=10)
    given = prompts()
    together = engine.sample(given, sampling, [7, 8, 9, 10, 11])
    alone = [
        engine.sample([prompt], sampling, [seed])[0].ids
        for prompt, seed in zip(given, [7, 8, 9, 10, 11], strict=True)
    ]
    assert [one.ids for one in together] == alone
    other = engine.sample(given, sampling, [17, 18, 19, 20, 21])
    assert [one.ids for one in other] != alone


def test_draws_follow_the_distribution_and_top_p_cuts_its_tail(engine):
    prompt = [5, 6, 7]
    with torch.no_grad():
        p_V = engine.model(torch.tensor([prompt])).logits[0, -1].softmax(-1)
    count = 600
    one = Sampling(stop=(), max_tokens=1)
    drawn = engine.sample([prompt] * count, one, range(count))
    likeliest = int(p_V.argmax())
    share = sum(d.ids[0] == likeliest for d in drawn) / count
    spread = math.sqrt(p_V[likeliest].item() * (1 - p_V[likeliest].item()) / count)
    assert abs(share - p_V[likeliest].item()) < 4 * spread + 1e-9
    ordered, tokens = p_V.sort(descending=True)
    size = int((ordered.cumsum(0) < 0.02).sum()) + 1
    nucleus = Sampling(stop=(), max_tokens=1, top_p=0.02)
    cut = {d.ids[0] for d in engine.sample([prompt] * count, nucleus, range(count))}
    assert cut <= set(tokens[:size].tolist())
    assert len(cut) > 1


def test_a_continuation_ends_at_the_stop_token_or_at_the_limit(engine):
    prompt = [5, 6, 7]
    free = engine.sample([prompt], Sampling(stop=(), max_tokens=6, temperature=0), [0])[0]
    assert (free.finish, len(free.ids)) == ("length", 6)
    stop = free.ids[3]
    ended = engine.sample([prompt], Sampling(stop=(stop,), max_tokens=6, temperature=0), [0])[0]
    assert ended.finish == "stop"
    assert ended.ids == free.ids[: free.ids.index(stop) + 1]


def test_no_prompts_give_no_samples(engine):
    assert engine.sample([], GREEDY, []) == []
