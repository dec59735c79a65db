"""Tasks of evolved applications hold: the reference passes, doing nothing fails."""

import asyncio
from collections import Counter

import orjson
import pytest

from synth.core.application import Application
from synth.core.seeds import rng
from synth.core.types import TaskKind
from synth.pipeline.admitting import admissions
from synth.pipeline.evolving import Candidate, make
from tool_registry.composer import categories


def candidates(count: int) -> list[Candidate]:
    """A fixed random sample of what a first round of an evolution would make."""
    chance = rng("evolved tasks", count)
    return [
        Candidate(
            number, chance.randrange(2**31), chance.choice(categories()), chance.randint(4, 12)
        )
        for number in range(count)
    ]


def evolved(count: int) -> list[Application]:
    rows = [orjson.loads(make(candidate)) for candidate in candidates(count)]
    kept = [Application.model_validate(row["document"]) for row in rows if "document" in row]
    assert len(kept) >= 0.9 * count
    return kept


def held(applications: list[Application], each: int) -> None:
    said: Counter[tuple[TaskKind, str]] = Counter()
    undrawn: Counter[tuple[TaskKind, str]] = Counter()
    for application in applications:
        found, missed = asyncio.run(admissions(application, each, tries=8 * each))
        said += found
        undrawn += missed
        drawn = {kind for kind, _ in found}
        assert {TaskKind.SINGLE_WRITE, TaskKind.LOOKUP, TaskKind.UNSERVED} <= drawn
    admitted = sum(count for (_, reason), count in said.items() if reason == "admitted")
    assert admitted >= 0.95 * said.total(), said
    assert said.total() >= 6 * each * len(applications)
    # A draw comes to nothing where an agent was given no tool with a rule, seldom otherwise: of
    # two hundred applications, one in twenty.
    others = sum(count for (kind, _), count in undrawn.items() if kind is not TaskKind.FORBIDDEN)
    assert others <= 0.2 * said.total(), undrawn


def test_tasks_of_evolved_applications_pass_the_gate() -> None:
    held(evolved(12), 1)


@pytest.mark.soak
def test_tasks_of_two_hundred_evolved_applications_pass_the_gate() -> None:
    held(evolved(200), 2)
