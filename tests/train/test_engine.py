"""The engine: steps that count in bfloat16 too, weights and state that come back."""

import pytest
import torch

from synth.core.errors import BadInput, ToolloomError
from train.batches import Row
from train.engine import Step, TorchEngine
from train.models import Loaded, load, save, tiny
from train.objective import CrossEntropy
from train.optimizer import MasterAdamW

ROW = Row(list(range(3, 40)), [0.0] * 5 + [1.0] * 32)
LOSS = CrossEntropy(total=32)


def learn(engine, steps=3, lr=1e-3):
    return [
        (engine.forward_backward([ROW], LOSS).loss, engine.optim_step(Step(lr=lr)))[0]
        for _ in range(steps)
    ]


def weights(engine):
    return torch.cat([w.detach().flatten().clone() for w in engine.model.parameters()])


def test_learning_lowers_the_loss_and_counts_versions(engine):
    losses = learn(engine, steps=8, lr=1e-2)
    assert losses[-1] < losses[0] * 0.7
    assert engine.version == 8
    assert engine.meter.training_speed() > 0


def test_measuring_the_speed_learns_nothing(engine):
    before = weights(engine)
    assert engine.training_speed([ROW, ROW]) > 0
    assert engine.version == 0
    assert torch.equal(weights(engine), before)
    assert all(weight.grad is None for weight in engine.model.parameters())


def test_a_step_too_small_for_bfloat16_is_kept_in_the_masters():
    weight = torch.nn.Parameter(torch.full((4, 4), 0.1, dtype=torch.bfloat16))
    before = weight.detach().clone()
    optimizer = MasterAdamW([weight])
    for step in range(1, 41):
        weight.grad = torch.ones_like(weight)
        optimizer.gather()
        optimizer.step(1e-5, clip=None)
        if step == 1:
            assert torch.equal(weight.detach(), before)
    assert torch.allclose(optimizer.masters[0], torch.full((4, 4), 0.1 - 40e-5), atol=1e-4)
    assert (weight.detach() < before).all()


def test_the_optimizer_is_the_library_s_on_a_float32_model():
    start = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    mine, theirs = (torch.nn.Parameter(start.clone()) for _ in range(2))
    optimizer = MasterAdamW([mine], weight_decay=0.1)
    reference = torch.optim.AdamW([theirs], lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
    for n in range(5):
        gradient = torch.full_like(start, 0.1 * n - 0.2)
        mine.grad, theirs.grad = gradient.clone(), gradient.clone()
        optimizer.gather()
        optimizer.step(1e-2, clip=None)
        reference.step()
    assert torch.allclose(mine, theirs, atol=1e-7)


def test_clipping_bounds_the_step_and_reports_the_norm_before_it():
    weight = torch.nn.Parameter(torch.zeros(2, 2))
    optimizer = MasterAdamW([weight])
    weight.grad = torch.full((2, 2), 3.0)
    assert optimizer.step(0.0, clip=1.0) == pytest.approx(6.0)


def test_resetting_forgets_the_moments(loaded):
    fresh, reset = TorchEngine(loaded), None
    start = weights(fresh)
    learn(fresh, steps=1)
    first = weights(fresh) - start
    other = TorchEngine(tiny(["x"], size="0.3M"))
    other.model.load_state_dict(loaded.model.state_dict())
    learn(fresh, steps=1)
    kept = weights(fresh)
    other.optimizer.reset()
    learn(other, steps=1)
    reset = weights(other)
    assert first.abs().max() > 0
    assert not torch.equal(kept, reset)


def test_a_gradient_that_is_not_finite_stops_the_run(engine):
    learn(engine, steps=1)
    before = weights(engine)
    next(engine.model.parameters()).grad = torch.full_like(
        next(engine.model.parameters()), float("nan")
    )
    with pytest.raises(ToolloomError, match="not finite"):
        engine.optim_step(Step(lr=1e-3))
    assert torch.equal(weights(engine), before)


def test_saved_weights_load_anywhere_and_give_the_same_model(engine, tmp_path):
    learn(engine)
    folder = engine.save_weights(tmp_path / "model")
    from transformers import AutoModelForCausalLM, AutoTokenizer

    other = AutoModelForCausalLM.from_pretrained(folder)
    assert torch.equal(torch.cat([w.flatten() for w in other.parameters()]), weights(engine))
    assert len(AutoTokenizer.from_pretrained(folder)) == len(engine.loaded.tokenizer)
    assert load(folder).parameters == engine.loaded.parameters


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_and_state_come_back_exactly(tmp_path, dtype):
    made = tiny(["x"], size="0.3M")
    engine = TorchEngine(Loaded(made.model.to(dtype), made.tokenizer, "t"))
    learn(engine)
    folder = engine.save_weights(tmp_path / "model")
    engine.save_state(folder)
    learn(engine)
    wanted = weights(engine)
    again = TorchEngine(load(folder, dtype=dtype))
    again.load_state(folder)
    assert again.version == 3
    learn(again)
    assert torch.equal(weights(again), wanted)


def test_weights_of_another_shape_are_refused(engine, tmp_path):
    save(tiny(["x"], size="1M"), tmp_path / "other")
    with pytest.raises(BadInput, match="another shape"):
        engine.load_weights(tmp_path / "other")
    with pytest.raises(BadInput, match="no usable training state"):
        engine.load_state(tmp_path / "other")
