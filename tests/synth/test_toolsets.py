import asyncio
import random
from functools import cache
from itertools import combinations

import pytest

from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.world import SqlWorld
from synth.core.errors import NotSuitable
from synth.core.protocols import Edge
from synth.core.types import Effect, Provenance, TaskKind, ToolSpec
from synth.toolsets import sample_toolset, tool_graph, toolset_stats

NAMES = ("bank", "clinic", "hotel")


@cache
def world(name):
    return SqlWorld(Engine(load_application(name)))


class Shelf:
    """A world of bare tools: name -> (effect, required parameters)."""

    category, real, clock = "test", False, None

    def __init__(self, tools, edges=(), handoff=None):
        self.name, self.handoff, self._edges = "shelf", handoff, tuple(edges)
        self._tools = tuple(
            ToolSpec(
                name=name,
                description="",
                parameters={"type": "object", "required": list(required)},
                effect=Effect(effect),
                provenance=Provenance(source="test"),
            )
            for name, (effect, *required) in tools.items()
        )

    def tools(self):
        return self._tools

    def edges(self):
        return self._edges


def draw(where, count=200, **more):
    return [sample_toolset(where, random.Random(i), **more) for i in range(count)]


@pytest.mark.parametrize("name", NAMES)
def test_a_toolset_holds_the_hand_off_no_tool_twice_and_as_many_as_asked(name):
    where = world(name)
    known = {spec.name for spec in where.tools()}
    for tools in draw(where, size=(4, 7), missing=False):
        assert where.handoff in tools
        assert set(tools) <= known
        assert len(set(tools)) == len(tools)
        # The hand-off comes on top; the look-ups of an anchor may need one or two more.
        assert 4 + 1 <= len(tools) <= 7 + 1 + 2


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_set_in_the_same_order_and_orders_vary(name):
    where = world(name)
    assert draw(where, 50) == draw(where, 50)
    places = {tools.index(where.handoff) for tools in draw(where, 100)}
    assert len(places) > 3


@pytest.mark.parametrize("name", NAMES)
def test_sets_are_various_and_every_tool_is_used(name):
    stats = toolset_stats(draw(world(name), 300, size=(4, 9)), world(name))
    assert stats.unused == ()
    assert stats.distinct > 200
    assert stats.overlap[5] < 0.6


def test_a_set_can_be_larger_than_the_world():
    where = Shelf({"a": ("read",), "b": ("write",)})
    assert sorted(sample_toolset(where, random.Random(1), size=(5, 9), missing=False)) == ["a", "b"]


def test_a_world_without_tools_has_no_set():
    with pytest.raises(NotSuitable, match="no_tools"):
        sample_toolset(Shelf({"bye": ("write",)}, handoff="bye"), random.Random(1))


LIBRARY = Shelf(
    {
        "find_member": ("read", "email"),
        "find_books": ("read", "title"),
        "list_loans": ("read", "member_id"),
        "renew": ("write", "loan_id"),
        "lend": ("write", "member_id", "book_id"),
        "weather": ("read",),
        "transfer": ("write", "reason"),
    },
    [
        Edge("find_member", "id", "list_loans", "member_id"),
        Edge("find_member", "id", "lend", "member_id"),
        Edge("find_books", "id", "lend", "book_id"),
        Edge("list_loans", "id", "renew", "loan_id"),
        Edge("lend", "loan_id", "renew", "loan_id"),
        Edge("list_loans", "member_email", "find_member", "email"),
    ],
    handoff="transfer",
)


def test_look_ups_are_followed_to_what_a_person_can_say():
    graph = tool_graph(LIBRARY)
    rng = random.Random(1)
    assert graph.lookups("renew", rng) == ["list_loans", "find_member"]
    assert sorted(graph.lookups("lend", rng)) == ["find_books", "find_member"]
    # An e-mail address comes out of a tool too, but its owner knows it.
    assert graph.lookups("find_member", rng) == []


def test_a_look_up_is_preferred_over_a_write_that_returns_the_same_key():
    graph = tool_graph(LIBRARY)
    for seed in range(30):
        assert "lend" not in graph.lookups("renew", random.Random(seed))


def test_the_anchor_is_taken_away_and_its_look_ups_stay():
    for tools in draw(LIBRARY, 60, size=(3, 3), missing=True):
        assert "transfer" in tools
    kept = [t for t in draw(LIBRARY, 60, size=(3, 3), missing=True) if "renew" not in t]
    assert any({"list_loans", "find_member"} <= set(tools) for tools in kept)


def test_about_one_set_in_seven_lacks_the_tool_it_was_grown_around():
    where = Shelf(dict.fromkeys("abcdef", ("write",)))
    sizes = [len(tools) for tools in draw(where, 400, size=(3, 3))]
    assert set(sizes) == {2, 3}
    assert 30 <= sizes.count(2) <= 90


def test_stats_count_sizes_overlap_and_unused_tools():
    sets = [("a", "b"), ("b", "a"), ("a", "c"), ("a", "b", "c", "d")]
    stats = toolset_stats(sets, Shelf(dict.fromkeys("abcde", ("read",))))
    assert (stats.toolsets, stats.distinct) == (4, 3)
    assert stats.sizes == {2: 3, 4: 1}
    assert stats.unused == ("e",)
    distinct = [frozenset(s) for s in {frozenset(s) for s in sets}]
    overlaps = sorted(len(a & b) / len(a | b) for a, b in combinations(distinct, 2))
    assert stats.overlap[0] == round(overlaps[0], 4)
    assert stats.overlap[-1] == round(overlaps[-1], 4)
    assert stats.overlap[5] == round(overlaps[1], 4)
    assert toolset_stats([("a",)]).overlap == ()


def test_overlap_of_very_many_sets_is_estimated_from_the_same_pairs_every_time():
    rng = random.Random(2)
    sets = [tuple(rng.sample(range(60), 5)) for _ in range(400)]
    named = [tuple(f"t{i}" for i in s) for s in sets]
    assert toolset_stats(named) == toolset_stats(named)
    assert 0.0 <= toolset_stats(named).overlap[5] <= 0.2


@pytest.mark.parametrize("name", NAMES)
def test_chains_can_be_asked_of_far_more_walked_sets_than_of_uniform_ones(name):
    where = world(name)
    every = [spec.name for spec in where.tools() if spec.name != where.handoff]

    async def served(tools):
        for attempt in range(2):
            try:
                kind = TaskKind.SINGLE_WRITE
                await where.blueprint(kind, tools, attempt, random.Random(attempt))
            except NotSuitable:
                continue
            return True
        return False

    walked = draw(where, 30, size=(5, 7), missing=False)
    uniform = [
        (*random.Random(i).sample(every, len(tools) - 1), where.handoff)
        for i, tools in enumerate(walked)
    ]
    assert sum(asyncio.run(served(tools)) for tools in walked) >= 25
    assert sum(asyncio.run(served(tools)) for tools in uniform) <= 15
