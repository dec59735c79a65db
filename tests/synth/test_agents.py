import random
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from simulators.sql.world import SqlWorld
from synth.agents import (
    BEHAVIOURS,
    agent_prompt_hashes,
    agent_stats,
    agent_templates,
    agents_for,
    build_agent,
    near_duplicates,
)
from synth.core import voices
from synth.core.prompts import prompt_hash

pytestmark = pytest.mark.claim("k2-agents")

NAMES = ("bank", "clinic", "hotel")


@cache
def world(name):
    return SqlWorld(Engine(load_application(name)))


@cache
def agents(name, count=200):
    return agents_for(world(name), count, 11)


@pytest.mark.parametrize("name", NAMES)
def test_every_prompt_holds_the_policy_and_the_clock(name):
    where = world(name)
    for agent in agents(name):
        assert where.policy() in agent.system
        assert where.clock in agent.system
        assert agent.application == name


@pytest.mark.parametrize("name", NAMES)
def test_agents_are_distinct_in_toolset_and_prompt_and_prompts_are_no_mould(name):
    found = agents(name)
    stats = agent_stats(found, world(name))
    assert stats.agents == stats.distinct == 200
    assert stats.near_duplicates <= 4
    assert len(stats.behaviours) >= 6
    assert stats.toolsets.distinct >= 150
    # No template rules: the first words of prompts differ.
    openings = [agent.system.split()[0] for agent in found]
    assert max(openings.count(word) for word in set(openings)) <= 60


def test_same_seed_same_agents_and_more_agents_only_add():
    where = world("bank")
    assert agents_for(where, 20, 3) == agents_for(where, 40, 3)[:20]
    assert agents_for(where, 20, 3) != agents_for(where, 20, 4)


def test_sizes_reach_the_toolsets():
    small = agents_for(world("bank"), 30, 3, size=(3, 3))
    large = agents_for(world("bank"), 30, 3, size=(14, 14))
    assert max(len(agent.tools) for agent in small) < min(len(agent.tools) for agent in large) + 2
    assert sum(len(agent.tools) for agent in small) * 2 < sum(len(agent.tools) for agent in large)


def test_a_prompt_says_how_its_agent_behaves():
    where = world("hotel")
    asks = ("yes", "consent", "agree", "surprises")
    for agent in agents("hotel"):
        own_words = agent.system.replace(where.policy(), "")
        told = any(word in own_words for word in asks)
        assert told == agent.behaviour.confirms_writes, own_words


def test_every_behaviour_has_a_phrase_set_and_both_sorts_exist_for_each():
    assert {behaviour.style for behaviour in BEHAVIOURS} == set(voices.styles())
    sorts = {(behaviour.style, behaviour.confirms_writes) for behaviour in BEHAVIOURS}
    assert len(sorts) == len(BEHAVIOURS) == 2 * len(voices.styles())


def test_the_hand_off_is_explained_only_to_agents_that_have_it():
    where = world("bank")
    read = next(spec.name for spec in where.tools() if spec.effect == "read")
    for seed in range(30):
        without = build_agent(where, (read,), random.Random(seed))
        own_words = without.system.replace(where.policy(), "")
        assert where.handoff not in own_words
        has = build_agent(where, (read, where.handoff), random.Random(seed))
        own_words = has.system.replace(where.policy(), "")
        assert where.handoff in own_words
        assert "`not_allowed`" in own_words
        assert "`no_tool`" in own_words


class Bare:
    """A world without policy, clock and hand-off, like a live server's."""

    name, category, real, handoff, clock = "pypi:mcp-server-git", "", True, None, None

    def policy(self):
        return ""


def test_prompts_of_a_world_without_policy_and_clock_have_no_gaps():
    seen = set()
    for seed in range(200):
        agent = build_agent(Bare(), ("git_log",), random.Random(seed))
        assert "mcp server git" in agent.system.lower()
        assert "None" not in agent.system
        assert "\n\n\n" not in agent.system
        for word in ("policy below", "house policy", "time in this", "clock"):
            assert word not in agent.system.lower()
        seen.add(agent.system)
    assert len(seen) == 200


def test_hashes_cover_every_file_a_prompt_is_made_of():
    hashes = agent_prompt_hashes()
    assert set(hashes) == {"agent_rules", *agent_templates()}
    assert len(agent_templates()) >= 6
    assert hashes["agent_rules"] == prompt_hash("agent_rules")


@given(st.lists(st.text("ab ", min_size=1, max_size=14), max_size=12))
def test_near_duplicates_equal_a_comparison_of_all_pairs(texts):
    def triples(text):
        words = text.lower().split()
        return {tuple(words[i : i + 3]) for i in range(len(words) - 2)} or {tuple(words)}

    sets = [triples(text) for text in texts]
    expected = sum(
        any(len(one & two) >= 0.5 * len(one | two) for two in sets[:i])
        for i, one in enumerate(sets)
    )
    assert near_duplicates(texts, threshold=0.5) == expected


def test_copies_and_small_changes_are_near_duplicates_and_other_texts_are_not():
    base = " ".join(f"word{i}" for i in range(60))
    changed = base.replace("word59", "other")
    other = " ".join(f"term{i}" for i in range(60))
    assert near_duplicates([base, base, changed, other]) == 2
