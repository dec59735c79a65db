"""Agents: a system prompt, a toolset and a way to behave (K2 report 3.1.1, agent diversification).

A system prompt is drawn in independent parts: one of several templates that differ in structure
(`prompts/agent_*.j2`), a job, a register, a wording and an order of the rules of conduct, and the
policy of the world. It says what the reference agent of that behaviour does, so that a model
trained on the episodes learns to follow its prompt. It never holds a rubric or a fact of a user.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil

from synth.core import seeds
from synth.core.prompts import prompt_hash, prompts
from synth.core.protocols import World
from synth.core.types import Agent, Behaviour
from synth.toolsets import ToolsetStats, sample_toolset, toolset_stats

BEHAVIOURS: tuple[Behaviour, ...] = (
    Behaviour(name="steady", style="plain"),
    Behaviour(name="swift", style="brief"),
    Behaviour(name="friendly", style="warm"),
    Behaviour(name="official", style="formal"),
    Behaviour(name="careful", style="plain", confirms_writes=True),
    Behaviour(name="exact", style="brief", confirms_writes=True),
    Behaviour(name="considerate", style="warm", confirms_writes=True),
    Behaviour(name="by_the_book", style="formal", confirms_writes=True),
)
CONFIRMING_SHARE = 0.25
"""Share of agents that ask before each write: they cost a turn, and most products do not."""

_REGISTERS = {"plain": "plain", "brief": "terse", "warm": "warm", "formal": "formal"}
_TOPICS = ("ground", "ask", "confirm", "refuse", "report", "tone")
_JOBS = (
    "assistant",
    "service agent",
    "desk agent",
    "support agent",
    "support specialist",
    "front-desk assistant",
    "back-office assistant",
    "operations assistant",
    "case worker",
    "clerk",
    "coordinator",
    "digital assistant",
    "service desk employee",
    "online assistant",
    "account assistant",
    "duty officer",
    "first contact for all requests",
    "administrator on duty",
    "helper with access to the system",
    "trained member of the service team",
)
_PLACES = (
    "the {}",
    "the {} desk",
    "the {} service",
    "the {} team",
    "the {} office",
    "our {} system",
)
NEAR_DUPLICATE = 0.8
"""Jaccard similarity of word triples from which two prompts count as nearly the same."""


@cache
def agent_templates() -> tuple[str, ...]:
    """Return the names of the system prompt templates."""
    return tuple(
        name for name in prompts().names() if name.startswith("agent_") and name != "agent_rules"
    )


@cache
def _rules(handoff: str | None, confirms: bool, register: str) -> dict[str, tuple[str, ...]]:
    """Topic -> wordings of its rule in one register."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in prompts().render("agent_rules", handoff=handoff, confirms=confirms).splitlines():
        head, _, text = line.partition(": ")
        topic, _, where = head.partition(" ")
        if where == register:
            found[topic].append(text)
    return {topic: tuple(found[topic]) for topic in _TOPICS}


def _subject(world: World) -> str:
    """How the world is called in a sentence: `pypi:mcp-server-git` is `mcp server git`."""
    return world.name.rsplit(":", 1)[-1].replace("_", " ").replace("-", " ").replace("/", " ")


def _draw_behaviour(rng: random.Random) -> Behaviour:
    confirms = rng.random() < CONFIRMING_SHARE
    return rng.choice([b for b in BEHAVIOURS if b.confirms_writes is confirms])


def _draw_rules(pool: dict[str, tuple[str, ...]], rng: random.Random) -> list[str]:
    """One wording a topic, in any order; the tone is said by half of the prompts."""
    topics = [topic for topic in _TOPICS if topic != "tone" or rng.random() < 0.5]
    rng.shuffle(topics)
    return [rng.choice(pool[topic]) for topic in topics]


def build_agent(world: World, tools: Sequence[str], rng: random.Random) -> Agent:
    """Return an agent of `world` with the tools `tools`, its prompt and behaviour drawn.

    Args:
        world: gives the policy, the clock and the hand-off tool.
        tools: names in the order shown.
        rng: the only source of chance.
    """
    behaviour = _draw_behaviour(rng)
    handoff = world.handoff if world.handoff in tools else None
    pool = _rules(handoff, behaviour.confirms_writes, _REGISTERS[behaviour.style])
    job = rng.choice(_JOBS)
    system = prompts().render(
        rng.choice(agent_templates()),
        job=job,
        a_job=("an " if job[0] in "aeiou" else "a ") + job,
        subject=rng.choice(_PLACES).format(_subject(world)),
        category=world.category,
        rules=_draw_rules(pool, rng),
        tools=tools,
        policy=world.policy().strip(),
        clock=world.clock,
    )
    return Agent(application=world.name, system=system, tools=tuple(tools), behaviour=behaviour)


def agents_for(world: World, n: int, seed: int, *, size: tuple[int, int] = (4, 9)) -> list[Agent]:
    """Return `n` agents of one world, no two alike in toolset and system prompt.

    Args:
        world: where they work.
        n: how many.
        seed: same seed, same agents; a larger `n` only adds agents at the end.
        size: fewest and most tools, see `sample_toolset`.

    Returns:
        `n` agents; fewer only if 20 draws in a row gave nothing new (a world of very few tools).
    """
    found: dict[tuple[tuple[str, ...], str], Agent] = {}
    index = stale = 0
    while len(found) < n and stale < 20:
        rng = seeds.rng(seed, "agent", world.name, index)
        index += 1
        agent = build_agent(world, sample_toolset(world, rng, size=size), rng)
        identity = (tuple(sorted(agent.tools)), agent.system)
        stale = stale + 1 if identity in found else 0
        found.setdefault(identity, agent)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class AgentStats:
    """How various a collection of agents is."""

    agents: int
    distinct: int
    """Different pairs of toolset and system prompt."""
    near_duplicates: int
    """Agents whose prompt is nearly that of an earlier one (`NEAR_DUPLICATE`)."""
    behaviours: dict[str, int]
    toolsets: ToolsetStats


def agent_stats(agents: Sequence[Agent], world: World) -> AgentStats:
    """Measure diversity (K2 report 3.1.1).

    Args:
        agents: agents of one world.
        world: theirs. Its policy is left out before prompts are compared, because a page that all
            of them share makes any two prompts alike.
    """
    shared = world.policy().strip()
    texts = [a.system.replace(shared, " ") if shared else a.system for a in agents]
    return AgentStats(
        agents=len(agents),
        distinct=len({(tuple(sorted(a.tools)), a.system) for a in agents}),
        near_duplicates=near_duplicates(texts),
        behaviours=dict(sorted(Counter(a.behaviour.name for a in agents).items())),
        toolsets=toolset_stats([a.tools for a in agents], world),
    )


def near_duplicates(texts: Sequence[str], *, threshold: float = NEAR_DUPLICATE) -> int:
    """Count texts that share at least `threshold` of their word triples with an earlier text.

    Exact: two sets with Jaccard similarity t share one of the rarest |s| - ceil(t |s|) + 1 members
    of each, so only texts that meet in that prefix are compared.
    """
    sets = [_triples(text) for text in texts]
    rarity = Counter(triple for triples in sets for triple in triples)
    index: dict[tuple[str, ...], list[int]] = defaultdict(list)
    count = 0
    for i, triples in enumerate(sets):
        ordered = sorted(triples, key=lambda triple: (rarity[triple], triple))
        prefix = ordered[: len(ordered) - ceil(threshold * len(ordered)) + 1]
        candidates = dict.fromkeys(j for triple in prefix for j in index[triple])
        if any(len(triples & sets[j]) >= threshold * len(triples | sets[j]) for j in candidates):
            count += 1
        for triple in prefix:
            index[triple].append(i)
    return count


def _triples(text: str) -> frozenset[tuple[str, ...]]:
    words = text.lower().split()
    return frozenset(zip(words, words[1:], words[2:], strict=False)) or frozenset({tuple(words)})


def agent_prompt_hashes() -> dict[str, str]:
    """Return the hash of every file a system prompt is made of, for provenance."""
    return {name: prompt_hash(name) for name in ("agent_rules", *agent_templates())}
