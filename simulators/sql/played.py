"""The part of the lint that plays: calls and goals on seeded states, counted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from simulators.sql import lookups, refusals, writes
from simulators.sql.acts import user_act
from simulators.sql.asking import Unknowable
from simulators.sql.attempt import Attempt, Plot
from simulators.sql.finding import Finding
from simulators.sql.owners import owned
from simulators.sql.stage import Stage
from simulators.sql.wild import Wild
from synth.core.errors import NotSuitable
from synth.core.seeds import rng
from synth.core.types import Effect

SOLVABLE = 0.8
"""Least share of valid goals that the tools can solve (design 4.1)."""
ACCEPTED = 0.05
"""Least share of sampled goals that become tasks (design 4.1)."""
_UNSOLVED = ("ambiguous", "unsolvable")


@dataclass(slots=True)
class Figures:
    """What playing one tool gave."""

    calls: Counter[str] = field(default_factory=Counter)
    """Outcomes of calls: `ok` or the code of the error."""
    goals: Counter[str] = field(default_factory=Counter)
    """Outcomes of sampled goals: `ok` or the reason."""
    examples: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Arguments of a few calls by their outcome, some made after others."""

    @property
    def solvable(self) -> float | None:
        """Share of valid goals that can be solved; None where no goal was valid."""
        valid = self.goals["ok"] + sum(self.goals[reason] for reason in _UNSOLVED)
        return self.goals["ok"] / valid if valid else None

    @property
    def accepted(self) -> float | None:
        """Share of sampled goals that became tasks; None where none was sampled."""
        sampled = self.goals.total()
        return self.goals["ok"] / sampled if sampled else None

    def __str__(self) -> str:
        parts = [", ".join(f"{name} {count}" for name, count in self.calls.most_common())]
        if self.goals:
            goals = ", ".join(f"{name} {count}" for name, count in self.goals.most_common())
            parts.append(f"goals: {goals}")
        if self.solvable is not None:
            parts.append(f"solvable {self.solvable:.0%}")
        return "; ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Sampling:
    """How much is played."""

    seeds: Sequence[int]
    """Seeded states to play."""
    draws: int
    """Goals sampled for each tool, question and rule, at most."""
    enough: int | None = None
    """Stop sampling where so many can be used and none was unsolvable; None samples all."""
    only: Collection[str] | None = None
    """Sample for these tools only; the others are but called. None means all."""

    def wants(self, tool: str) -> bool:
        """Say whether goals of a tool are to be sampled."""
        return self.only is None or tool in self.only


def lint_played(stage: Stage, sampling: Sampling, figures: dict[str, Figures]) -> Iterator[Finding]:
    """Yield what playing an application shows to be wrong with it.

    Args:
        stage: the application.
        sampling: how much is played.
        figures: filled with what each tool gave.
    """
    for name in stage.application.tools:
        figures[name] = Figures()
    play = _Play(stage, sampling, figures)
    yield from play.speakers()
    yield from play.keys()
    yield from play.calls()
    yield from play.goals()
    yield from play.questions()
    yield from play.rules()
    yield from play.acts()


class _Play:
    def __init__(self, stage: Stage, sampling: Sampling, figures: dict[str, Figures]) -> None:
        self.stage, self.figures, self.wants = stage, figures, sampling.wants
        self.seeds, self.draws, self.enough = sampling.seeds, sampling.draws, sampling.enough
        self.application = stage.application
        self.tools = tuple(stage.application.specs)

    def found(
        self, level: Literal["error", "warning"], path: str, what: str, remedy: str = ""
    ) -> Finding:
        return Finding(level, f"{self.application.application}: {path}", what, remedy)

    def chance(self, *path: str | int) -> random.Random:
        return rng("lint", self.application.application, *path)

    def speakers(self) -> Iterator[Finding]:
        for seed in self.seeds:
            if not self.stage.scene(seed).speakers():
                yield self.found("error", "user", f"nobody may speak in state {seed}", "seed rows")

    def keys(self) -> Iterator[Finding]:
        """Every column that stands for a row must mean one row."""
        scene = self.stage.scene(self.seeds[0])
        for name in self.application.tools:
            for leaf in self.stage.graph.leaves[name]:
                entity = leaf.parameter.entity
                if entity is None or self.stage.graph.is_key(entity):
                    continue
                table, column = entity.split(".")
                values = [row[column] for row in owned(scene, table, None)]
                if len(set(values)) < len(values):
                    path = f"tools.{name}.parameters.{leaf.name}.entity"
                    what = f"several rows share one {entity}"
                    yield self.found("error", path, what, "use a key, or match")

    # --- calls ---------------------------------------------------------------------------

    def calls(self) -> Iterator[Finding]:
        """Every tool can succeed, every condition can fail; that reads only read is enforced."""
        for name in self.application.tools:
            wild = Wild(self.stage, name, self.chance("calls", name), breaks=self.wants(name))
            wild.play(self.seeds, self.enough or self.draws)
            self.figures[name].calls = wild.outcomes
            self.figures[name].examples = wild.examples
            path = f"tools.{name}"
            if not wild.outcomes["ok"]:
                listed = ", ".join(f"{k} {v}" for k, v in wild.outcomes.most_common(3))
                what = f"no call succeeds ({listed})"
                yield self.found("error", path, what, "seed rows that it suits, or sample them")
            if wild.outcomes["tool_fault"]:
                what = f"a call fails with tool_fault: {wild.fault}"
                yield self.found("error", path, what, "repair the statement")
            for number, step in wild.unbroken():
                where = f"{path}.steps[{number}].require"
                what = f"nothing in the seeded states breaks it ({step.error})"
                yield self.found("error", where, what, "seed rows that break it, or drop it")

    # --- goals ---------------------------------------------------------------------------

    def sample(self, plot: Callable[[Attempt], Plot], *path: str) -> Counter[str]:
        """Sample goals and count what comes of them."""
        outcomes: Counter[str] = Counter()
        for draw in range(self.draws):
            chance = self.chance(*path, draw)
            seed = self.seeds[draw % len(self.seeds)]
            try:
                attempt = Attempt(self.stage, self.tools, seed, chance)
                attempt.blueprint(plot(attempt))
                outcomes["ok"] += 1
            except NotSuitable as reason:
                outcomes[reason.what] += 1
                if isinstance(reason.__cause__, Unknowable):
                    outcomes[f"says {reason.__cause__}"] += 1
            unsolved = any(outcomes[reason] for reason in _UNSOLVED)
            if self.enough and outcomes["ok"] >= self.enough and not unsolved:
                break
        return outcomes

    def goals(self) -> Iterator[Finding]:
        for name in self.stage.writes(self.tools):
            if name not in self.stage.intents or not self.wants(name):
                continue
            outcomes = self.sample(partial(writes.single, tool=name), "goals", name)
            yield from self.unknowable(outcomes, f"tools.{name}.intent")
            figures = self.figures[name]
            figures.goals = outcomes
            path = f"tools.{name}"
            if (figures.accepted or 0) < ACCEPTED:
                what = f"of {outcomes.total()} sampled goals {outcomes['ok']} can be used"
                yield self.found("error", path, f"{what} ({_listed(outcomes)})", "add sample:")
            elif (figures.solvable or 0) < SOLVABLE:
                what = f"only {figures.solvable:.0%} of valid goals can be solved"
                remedy = "let reads show what users know, or let users know more"
                yield self.found("error", path, f"{what} ({_listed(outcomes)})", remedy)

    def questions(self) -> Iterator[Finding]:
        for name, questions in self.stage.questions.items():
            if self.stage.effects[name] is not Effect.READ or not self.wants(name):
                continue
            for column in questions:
                if column not in self.stage.graph.outputs[name]:
                    continue
                plot = partial(lookups.lookup, question=(name, column))
                outcomes = self.sample(plot, "questions", name, column)
                self.figures[name].goals += outcomes
                path = f"tools.{name}.questions.{column}"
                yield from self.unknowable(outcomes, path)
                if outcomes["ok"] < ACCEPTED * outcomes.total():
                    what = f"of {outcomes.total()} sampled questions {outcomes['ok']} can be used"
                    yield self.found("error", path, f"{what} ({_listed(outcomes)})")

    def rules(self) -> Iterator[Finding]:
        for rule in self.application.policy_rules:
            asked = rule.tool in self.stage.intents and self.wants(rule.tool)
            if not asked or self.application.handoff is None:
                continue
            plot = partial(refusals.forbidden, rule=rule)
            outcomes = self.sample(plot, "rules", rule.name)
            if outcomes["ok"] < ACCEPTED * outcomes.total():
                what = f"of {outcomes.total()} sampled goals {outcomes['ok']} break the rule"
                path = f"policy_rules.{rule.name}"
                yield self.found("error", path, f"{what} ({_listed(outcomes)})", "seed such rows")

    def acts(self) -> Iterator[Finding]:
        """What users can do has to be of use to somebody who asks for it."""
        for name in filter(self.wants, self.stage.requests):
            aids = [aid for aid in self.stage.aids if aid.by == name]
            outcomes = self.figures[name].goals
            for number, aid in enumerate(aids):
                outcomes += self.sample(partial(user_act, aid=aid), "acts", name, str(number))
            if not outcomes["ok"]:
                listed = _listed(outcomes) or "no write reads what it changes or shows"
                what = f"no call of an agent waits for it ({listed})"
                remedy = "require what it brings about, or drop it"
                yield self.found("warning", f"tools.{name}", what, remedy)

    def unknowable(self, outcomes: Counter[str], path: str) -> Iterator[Finding]:
        """Take from the counts what a template says although the user cannot know it."""
        for key in [key for key in outcomes if key.startswith("says ")]:
            column = key.removeprefix("says ")
            del outcomes[key]
            what = f"says {column}, which the user cannot know"
            table, name = column.split(".")
            yield self.found("error", path, what, f"add {name!r} to known.{table}")


def _listed(outcomes: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in outcomes.most_common())
