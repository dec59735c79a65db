"""Layouts of batches: every row once, shared beginnings computed once, no loss changed."""

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from train.batches import Row, batches, common
from train.engine import TorchEngine
from train.models import Loaded
from train.objective import CrossEntropy


def rows_of_agents(agents=2, each=4, prefix=60, seed=0):
    """Rows that begin alike and end differently; the endings are trained in part."""
    rng = random.Random(seed)
    rows = []
    for _ in range(agents):
        start = [rng.randrange(3, 500) for _ in range(prefix)]
        for _ in range(each):
            ending = [rng.randrange(3, 500) for _ in range(rng.randrange(2, 30))]
            weights = [0.0] * prefix + [float(rng.random() < 0.6) for _ in ending]
            weights[-1] = 1.0
            rows.append(Row(start + ending, weights))
    return rows


tokens = st.lists(st.integers(0, 3), min_size=2, max_size=60)


@given(st.lists(tokens, max_size=8), st.integers(20, 200), st.randoms())
def test_every_trained_token_is_predicted_exactly_once(all_ids, places, rng):
    rows = [Row(ids, [float(rng.random() < 0.5) for _ in ids]) for ids in all_ids]
    seen = []
    for batch in batches(rows, places=places, pad=0):
        assert batch.places <= max(places, *(len(row.ids) for row in rows))
        seen += zip(
            batch.row_N.tolist(), batch.target_N.tolist(), batch.weight_N.tolist(), strict=True
        )
    wanted = [
        (index, row.ids[t], row.weights[t]) for index, row in enumerate(rows) for t in row.trained()
    ]
    assert sorted(seen) == sorted(wanted)


@given(st.lists(tokens, max_size=8), st.integers(20, 200), st.randoms())
def test_a_detached_beginning_predicts_nothing_and_no_token_is_lost(all_ids, places, rng):
    rows = [Row(ids, [float(rng.random() < 0.5) for _ in ids]) for ids in all_ids]
    seen = []
    for batch in batches(rows, places=places, pad=0, detach=True):
        if batch.layout is not None:
            assert batch.layout.prefix <= batch.source_N.min()
        seen += zip(batch.row_N.tolist(), batch.target_N.tolist(), strict=True)
    wanted = [(index, row.ids[t]) for index, row in enumerate(rows) for t in row.trained()]
    assert sorted(seen) == sorted(wanted)


@given(tokens, tokens, st.integers(0, 60))
def test_common_beginnings_are_measured_right(a, b, most):
    n = common(a, b, most)
    assert a[:n] == b[:n]
    assert n == min(len(a), len(b), most) or a[n] != b[n]


def test_shared_beginnings_are_computed_once():
    rows = rows_of_agents(agents=2, each=4, prefix=60)
    laid = batches(rows, places=1000, pad=0)
    assert [batch.layout.prefix for batch in laid] == [60, 60]
    endings = sum(len(row.ids) - 60 for row in rows)
    assert sum(batch.places for batch in laid) == 2 * 60 + endings


def test_rows_of_like_length_share_a_bucket():
    rows = [Row([1, 2] * n, [1.0] * 2 * n) for n in (50, 3, 49, 2)]
    laid = batches(rows, places=200, pad=0, share=False)
    assert [sorted(set(batch.row_N.tolist())) for batch in laid] == [[1, 3], [0, 2]]


def gradient(engine):
    return torch.cat([weight.grad.flatten() for weight in engine.model.parameters()])


def test_shared_bucketed_recomputed_and_plain_batches_give_one_loss_and_one_gradient(loaded):
    rows = rows_of_agents()
    loss = CrossEntropy(total=sum(sum(row.weights[1:]) for row in rows))
    results = []
    for share, places, recompute in (
        (True, 1000, 0.0),
        (True, 1000, 0.5),
        (True, 150, 1.0),
        (False, 1000, 0.0),
        (False, 1, 0.0),
    ):
        engine = TorchEngine(loaded, places=places, share=share, recompute=recompute)
        loaded.model.zero_grad()
        passed = engine.forward_backward(rows, loss)
        results.append((passed.loss, gradient(engine), passed.logprobs))
    plain_loss, plain_gradient, plain_logprobs = results[-1]
    for value, found, logprobs in results[:-1]:
        assert value == pytest.approx(plain_loss, abs=1e-5)
        assert torch.allclose(found, plain_gradient, atol=1e-6)
        for a, b in zip(logprobs, plain_logprobs, strict=True):
            assert a == pytest.approx(b, abs=1e-4)


def test_without_a_gradient_through_the_prompt_the_rest_is_that_of_the_library(loaded):
    rows = rows_of_agents(agents=2, each=3) + rows_of_agents(agents=1, each=1, seed=1)
    total = sum(sum(row.weights[1:]) for row in rows)
    engine = TorchEngine(loaded, through_prompt=False)
    prefixes = {
        index: batch.layout.prefix
        for batch in engine.batches(rows)
        for index in batch.row_N.tolist()
    }
    assert len(prefixes) == 7
    loaded.model.zero_grad()
    passed = engine.forward_backward(rows, CrossEntropy(total=total))
    found = gradient(engine)
    loaded.model.zero_grad()
    loaded.model.set_attn_implementation("sdpa")
    wanted = 0.0
    for index, row in enumerate(rows):
        prefix, ids = prefixes[index], torch.tensor([row.ids])
        state = DynamicCache()
        with torch.no_grad():
            loaded.model(input_ids=ids[:, :prefix], cache=state, use_cache=True)
        logits = loaded.model(input_ids=ids[:, prefix:], cache=state, use_cache=True).logits
        weights = torch.tensor(row.weights[prefix + 1 :])
        losses = cross_entropy(logits[0, :-1].float(), ids[0, prefix + 1 :], reduction="none")
        loss = (losses * weights).sum() / total
        loss.backward()
        wanted += loss.item()
    assert passed.loss == pytest.approx(wanted, abs=1e-5)
    assert torch.allclose(found, gradient(engine), atol=1e-6)


def test_leaving_the_prompt_s_gradient_out_changes_the_gradient_and_not_the_loss(loaded):
    rows = rows_of_agents()
    loss = CrossEntropy(total=sum(sum(row.weights[1:]) for row in rows))
    results = []
    for through_prompt in (True, False):
        engine = TorchEngine(loaded, through_prompt=through_prompt)
        loaded.model.zero_grad()
        results.append((engine.forward_backward(rows, loss).loss, gradient(engine)))
    (exact, whole), (same, part) = results
    assert same == pytest.approx(exact, abs=1e-5)
    likeness = torch.nn.functional.cosine_similarity(whole, part, dim=0)
    assert 0.5 < likeness < 0.9999


def test_the_loss_is_that_of_the_library(loaded):
    row = rows_of_agents(agents=1, each=1)[0]
    labels = [token if w else -100 for token, w in zip(row.ids, row.weights, strict=True)]
    with torch.no_grad():
        wanted = loaded.model(
            input_ids=torch.tensor([row.ids]), labels=torch.tensor([labels])
        ).loss.item()
    engine = TorchEngine(loaded)
    found = engine.forward_backward([row], CrossEntropy(total=sum(row.weights))).loss
    assert found == pytest.approx(wanted, abs=1e-5)


def test_a_model_with_a_sliding_window_takes_no_shared_sequences(loaded):
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape = {
        "vocab_size": 512,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    windowed = Qwen2ForCausalLM(
        Qwen2Config(**shape, use_sliding_window=True, sliding_window=8, max_window_layers=1)
    )
    plain = LlamaForCausalLM(LlamaConfig(**shape))
    assert not TorchEngine(Loaded(windowed, loaded.tokenizer, "w")).share
    assert TorchEngine(Loaded(plain, loaded.tokenizer, "p")).share
