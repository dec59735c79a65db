"""Proof that an application is sound: what its declarations say, and what playing it shows.

Loading and compiling an application already refuses what cannot run (`load`, `tables`, `compile`,
`references`). The lint finds what runs and is still of no use: a write that never succeeds, a
condition that nothing breaks, a goal that no agent can reach. Everything is found out by executing
calls on seeded states.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from simulators.sql.declared import lint_declared
from simulators.sql.engine import Engine
from simulators.sql.eventful import lint_events
from simulators.sql.finding import Finding
from simulators.sql.patience import PatientEngine
from simulators.sql.played import Figures, Sampling, lint_played
from simulators.sql.promises import lint_promises
from simulators.sql.stage import Stage
from simulators.sql.tongues import lint_languages
from simulators.sql.world import policy_text
from synth.core.application import Application
from synth.core.canonical import content_key
from synth.core.errors import ToolloomError

SEEDS = (0, 1, 2)
"""Seeded states that are played."""
DRAWS = 60
"""Goals sampled for each tool, question and rule."""


@dataclass(frozen=True, slots=True)
class LintReport:
    """What the lint found in one application."""

    application: str
    findings: tuple[Finding, ...]
    figures: dict[str, Figures] = field(default_factory=dict)
    """What playing each tool gave."""

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that make the application unsound."""
        return tuple(f for f in self.findings if f.level == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """The findings that only lessen its use."""
        return tuple(f for f in self.findings if f.level == "warning")

    def lines(self) -> list[str]:
        """Return the findings, errors first, and the figures, one line each."""
        found = sorted(self.findings, key=lambda f: f.level)
        return [str(f) for f in found] + [f"{n}: {f}" for n, f in sorted(self.figures.items())]


def lint(
    engine: Engine,
    *,
    seeds: Sequence[int] = SEEDS,
    draws: int = DRAWS,
    enough: int | None = None,
    only: Collection[str] | None = None,
) -> LintReport:
    """Examine an application that compiles.

    Args:
        engine: the compiled application.
        seeds: seeded states to play.
        draws: goals sampled for each tool, question and policy rule, at most.
        enough: stop sampling where so many can be used and none was unsolvable; None samples all.
        only: sample for these tools only, the others are known to be sound: they are but called.
    """
    name = engine.application.application
    findings = [*lint_declared(engine), *lint_languages(engine)]
    figures: dict[str, Figures] = {}
    patient = PatientEngine(engine)
    try:
        policy_text(engine)
        stage = Stage(patient)
        for finding in lint_played(stage, Sampling(seeds, draws, enough, only), figures):
            findings.append(finding)
        findings += lint_promises(stage, seeds=seeds, walks=enough or draws)
        findings += lint_events(patient, seeds=seeds)
    except ToolloomError as error:
        findings.append(Finding.of(error))
    findings += [Finding.of(error) for error in patient.endless.values()]
    return LintReport(name, tuple(dict.fromkeys(findings)), figures)


def check(application: Application) -> list[Finding]:
    """Return everything that is wrong with an application, compiled or not; empty means sound."""
    try:
        engine = Engine(application)
    except ToolloomError as error:
        return [Finding.of(error)]
    return list(lint(engine).errors)


def state_key(engine: Engine, seed: int) -> str:
    """Return a short key of the seeded state, the same in every process."""
    return content_key(engine.image(seed).hex())
