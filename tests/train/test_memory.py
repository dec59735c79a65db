"""What sampling remembers between calls: never another conversation's words."""

import random

import pytest

from train.batches import Row
from train.engine import Sampling, TorchEngine
from train.memory import Known, Memory, Node

ONE = Sampling(stop=(), max_tokens=3)


def apart(engine, prompts, seed):
    """Sample; return how far the log-probabilities are from those of a forward pass, and rows."""
    drawn = engine.sample(prompts, ONE, [seed + n for n in range(len(prompts))])
    rows = [
        Row(list(prompt) + one.ids, [0.0] * len(prompt) + [1.0] * len(one.ids))
        for prompt, one in zip(prompts, drawn, strict=True)
    ]
    wanted = engine.forward(rows).logprobs
    pairs = zip(drawn, wanted, strict=True)
    far = max(abs(a - b) for one, x in pairs for a, b in zip(one.logprobs, x, strict=True))
    return far, [list(row.ids) for row in rows]


def test_a_request_that_leaves_a_shared_beginning_early_keeps_its_own_words(engine):
    # Two requests go on alike ("I would like to ..."), a third of the same agent does not.
    agent = [(7 * n) % 400 + 20 for n in range(100)]
    alike = [(5 * n) % 300 + 30 for n in range(40)]
    prompts = [[*agent, *alike, 9], [*agent, *alike, 10, 11], [*agent, 400, 401, 402, 403]]
    far, rows = apart(engine, prompts, 0)
    assert far < 1e-4
    for turn in range(1, 4):
        far, rows = apart(engine, [[*row, 50 + turn, 60] for row in rows], turn)
        assert far < 1e-4


@pytest.mark.parametrize("seed", range(12))
def test_conversations_of_any_likeness_are_sampled_as_if_each_were_alone(loaded, seed):
    rng = random.Random(seed)
    engine = TorchEngine(loaded, cache_tokens=rng.choice([60, 400, 8_192]))

    def words(most):
        return [rng.randrange(20, 24) for _ in range(rng.randrange(1, most))]

    agents = [[rng.randrange(30, 400) for _ in range(rng.choice([3, 70, 100]))] for _ in range(2)]
    shared = [rng.choice(agents) + words(60) for _ in range(3)]
    rows = [rng.choice(shared) + words(6) for _ in range(5)]
    for turn in range(4):
        asked = [rng.choice(rows) + words(40) for _ in range(rng.randrange(1, 6))]
        far, more = apart(engine, asked, 100 * turn)
        assert far < 1e-4
        rows += more


def node(ids, start=0, parent=None):
    return Node(ids=ids, start=start, parent=parent, keys=[], values=[])


def test_a_forgotten_beginning_is_found_through_its_descendant():
    root = node([1, 2, 3, 4])
    child = node([1, 2, 3, 4, 5, 6], 4, root)
    memory = Memory(100)
    memory.add(child)
    assert memory.match([1, 2, 3, 4, 5, 6, 7]) == Known(child, 6)
    assert memory.match([1, 2, 9]) == Known(root, 2)
    assert memory.match([8, 9]) == Known()


def test_what_a_path_has_of_its_root_ends_where_it_leaves_it():
    root = node([1, 2, 3, 4])
    early = node([1, 2, 9, 9], 2, root)
    assert root.of_root() == 4
    assert node([1, 2, 9, 9, 5], 4, early).of_root() == 2
