"""Tasks: an executed goal put into a user's words, with its rubric and its difficulty.

Blueprint first (APIGen-MT 4.1, papers 2.3): a world samples a goal and executes it, and only then
are the words written around it. A task never says more than its user knows; what was withheld is
told when the agent asks.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

from synth.core import voices
from synth.core.protocols import Polyglot, Wavering, World
from synth.core.types import Agent, Blueprint, Effect, Fact, Persona, Task, TaskKind
from synth.judge.values import at_token
from synth.personas import sample_persona
from synth.rubrics import rubric_for


def difficulty(blueprint: Blueprint) -> int:
    """Return how hard a task is: calls + writes + facts to ask for + distractor tools / 4.

    What the user does counts as much: they have to be asked.

    One read with nothing to distract is 1; so is a request that needs no call at all.
    """
    calls = blueprint.solution
    writes = sum(call.effect is not Effect.READ for call in calls)
    distractors = len(set(blueprint.tools) - {call.tool for call in calls})
    return max(1, len(calls) + writes + len(blueprint.withheld) + distractors // 4)


def write_task(blueprint: Blueprint, persona: Persona, rng: random.Random) -> Task:
    """Put a blueprint into words.

    Args:
        blueprint: the executed goal.
        persona: who asks. Where the user is a row with a name, the persona takes that name.
        rng: the only source of chance.
    """
    name = own_name(blueprint)
    if name is not None and name != persona.name:
        persona = persona.model_copy(update={"name": name})
    first = (blueprint.retracted,) if blueprint.retracted else blueprint.clauses
    return Task(
        blueprint=blueprint,
        persona=persona,
        request=voices.opening(persona, first, blueprint.opening, rng),
        rubric=rubric_for(blueprint),
        difficulty=difficulty(blueprint),
    )


async def sample_task(
    world: World,
    agent: Agent,
    kind: TaskKind,
    state_seed: int,
    rng: random.Random,
    language: str = "en",
    changes: float = 0.0,
) -> Task:
    """Sample a goal that the agent's toolset allows (or, for refusals, does not) and write it up.

    Args:
        world: where.
        agent: whose toolset decides what can be asked for.
        kind: of the task.
        state_seed: names the seeded state.
        rng: the only source of chance.
        language: what the user speaks, where the world has words in it; English otherwise.
        changes: share of tasks with a fact to ask for whose user changes their mind.

    Raises:
        NotSuitable: nothing of that kind here; the reason is counted by the caller.
    """
    spoken_in = world
    if language != "en" and isinstance(world, Polyglot) and language in world.languages:
        spoken_in = world.speaking(language)
    else:
        language = "en"
    may_waver = changes > 0 and kind is TaskKind.MISSING_FACT
    if may_waver and isinstance(spoken_in, Wavering) and rng.random() < changes:
        blueprint = await spoken_in.wavering(agent.tools, state_seed, rng)
    else:
        blueprint = await spoken_in.blueprint(kind, agent.tools, state_seed, rng)
    return write_task(blueprint, sample_persona(rng, language=language), rng)


def own_name(blueprint: Blueprint) -> str | None:
    """Return the name of the user's own row, if the user is a row that has one."""
    for fact in (*blueprint.opening, *blueprint.background):
        if fact.name in {"user.name", "user.full_name"}:
            return str(fact.value)
    return None


# --- what must not be said -------------------------------------------------------------------

_IDENTIFIER = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.:/@-]{3,}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def leaks(task: Task, agent: Agent) -> list[str]:
    """Return what the agent's prompt or the request gives away; empty means nothing.

    Looked for, as whole words: withheld facts in the request; identifiers of the solution that the
    user does not know, in request and prompt; texts of the rubric, in request and prompt. Facts of
    fewer than three characters are left out: a 2 in a request is not the 2 that was withheld.
    """
    blueprint = task.blueprint
    found = [
        f"withheld: {fact.name}"
        for fact in blueprint.withheld
        if any(at_token(task.request, text) for text in _forms(fact))
    ]
    spoken = (task.request, agent.system)
    known = _known_text(blueprint)
    for value in dict.fromkeys(_strings(call.arguments for call in blueprint.solution)):
        if (
            _IDENTIFIER.fullmatch(value)
            and not _DATE.match(value)
            and not at_token(known, value)
            and any(at_token(text, value) for text in spoken)
        ):
            found.append(f"argument: {value}")
    found.extend(
        f"rubric: {criterion.id}"
        for criterion in task.rubric.criteria()
        if any(criterion.text in text for text in spoken)
    )
    return found


def _forms(fact: Fact) -> tuple[str, ...]:
    plain = str(fact.value) if isinstance(fact.value, str) else ""
    return tuple({form for form in (plain, fact.spoken) if len(form) >= 3})


def _known_text(blueprint: Blueprint) -> str:
    facts = (*blueprint.opening, *blueprint.withheld, *blueprint.background)
    return "\n".join(
        [*blueprint.clauses, *(str(f.value) for f in facts), *(f.spoken for f in facts)]
    )


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _strings(item)
    elif not isinstance(value, (int, float, bool, type(None))):
        for item in value:
            yield from _strings(item)
