"""Checkpoints: whole or not there, whatever happens while one is written."""

import resource
from contextlib import contextmanager

import pytest
import torch

from synth.core.errors import BadInput, ToolloomError
from train.batches import Row
from train.checkpoint import latest_checkpoint, sweep, weights_key, write_checkpoint
from train.engine import Step
from train.models import load
from train.objective import CrossEntropy

ROW = Row([5, 6, 7, 8], [0.0, 1.0, 1.0, 1.0])
CURSOR = {"fingerprint": "f"}


@contextmanager
def files_no_larger_than(size):
    """Writes beyond `size` bytes fail, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def step(engine):
    engine.forward_backward([ROW], CrossEntropy(total=3))
    engine.optim_step(Step(lr=1e-2))


def weights(model):
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


@pytest.mark.parametrize("size", [100_000, 500_000])
def test_a_failed_write_leaves_the_older_checkpoint_and_nothing_else(engine, tmp_path, size):
    step(engine)
    write_checkpoint(engine, tmp_path, step=1, cursor=CURSOR)
    kept = weights(engine.model).clone()
    step(engine)
    # The weights are 400 kB, the optimizer's state twice that: either write may be the one to fail.
    with files_no_larger_than(size), pytest.raises(ToolloomError, match="step-000002"):
        write_checkpoint(engine, tmp_path, step=2, cursor=CURSOR)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001"]
    found = latest_checkpoint(tmp_path)
    assert found.step == 1
    assert torch.equal(weights(load(found.folder).model), kept)


def test_a_folder_that_was_never_finished_is_not_a_checkpoint(engine, tmp_path):
    write_checkpoint(engine, tmp_path, step=3, cursor=CURSOR)
    (tmp_path / "step-000009").mkdir()
    (tmp_path / ".writing-x").mkdir()
    assert latest_checkpoint(tmp_path).step == 3
    assert latest_checkpoint(tmp_path / "none") is None


def test_only_the_newest_checkpoint_is_kept(engine, tmp_path):
    for number in (1, 2, 10):
        write_checkpoint(engine, tmp_path, step=number, cursor=CURSOR, state=False)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000010"]


def test_what_a_killed_process_left_is_swept_away_and_the_newest_stays(engine, tmp_path):
    write_checkpoint(engine, tmp_path, step=7, cursor=CURSOR, state=False)
    for name in ("step-000003", "step-000009", ".writing-x/checkpoint", "mine", "step-by-step"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "step-000003" / "cursor.json").write_text("{}")
    sweep(tmp_path)
    kept = {path.name for path in tmp_path.iterdir()}
    assert kept == {"step-000007", "mine", "step-by-step"}
    assert latest_checkpoint(tmp_path).step == 7


def test_a_checkpoint_of_the_same_step_is_replaced(engine, tmp_path):
    write_checkpoint(engine, tmp_path, step=3, cursor=CURSOR)
    step(engine)
    written = write_checkpoint(engine, tmp_path, step=3, cursor=CURSOR)
    assert torch.equal(weights(load(written.folder).model), weights(engine.model))
    assert [path.name for path in tmp_path.iterdir()] == ["step-000003"]


def test_the_newest_is_the_one_of_most_steps(engine, tmp_path):
    write_checkpoint(engine, tmp_path, step=999_999, cursor=CURSOR, state=False)
    write_checkpoint(engine, tmp_path, step=1_000_000, cursor=CURSOR, state=False)
    assert latest_checkpoint(tmp_path).step == 1_000_000


def test_the_key_of_weights_changes_with_any_of_them(engine):
    before = weights_key(engine)
    assert weights_key(engine) == before
    with torch.no_grad():
        list(engine.model.parameters())[-1][-1].add_(1e-3)
    assert weights_key(engine) != before


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"step": 3}', '{"step": "x"}'])
def test_a_damaged_cursor_is_named(engine, tmp_path, text):
    written = write_checkpoint(engine, tmp_path, step=3, cursor=CURSOR)
    (written.folder / "cursor.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadInput, match=r"step-000003/cursor\.json: not a checkpoint's cursor"):
        latest_checkpoint(tmp_path)
