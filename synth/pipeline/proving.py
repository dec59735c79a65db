"""What evolution asks of the engine: what compiling and playing an application shows.

`tool_registry` and `simulators` never import one another; the pipeline hands over what is found.
"""

from __future__ import annotations

from collections.abc import Collection

from simulators.sql.engine import Engine
from simulators.sql.lint import LintReport, lint
from synth.core.application import Application
from synth.core.errors import ToolloomError
from synth.pipeline.alike import alike
from tool_registry.elimination import Example, Proof
from tool_registry.operator import Field, Subject


def subject_of(engine: Engine) -> Subject:
    """Return an application with what operators have to know of it."""
    tables = {
        name: {
            column.name: Field(
                column.type, column.not_null, column.boolean, table.foreign_keys.get(column.name)
            )
            for column in table.columns.values()
        }
        for name, table in engine.tables.items()
    }
    results = {
        name: {column.name: column.origin for column in columns}
        for name, columns in engine.results.items()
    }
    return Subject(engine.application, tables, results)


SEED = 0
"""The seeded state that applications are proved in, and in doubt the two after it."""
DRAWS = 60
ENOUGH = 2
_OF_SEEDS = ("nothing in the seeded states breaks it", "break the rule")


def prove(application: Application, only: Collection[str] | None = None) -> Proof:
    """Lint an application, and find for each tool a call that succeeds and one that fails.

    Sampling stops as soon as it shows that a tool is of use: half a second instead of four.

    Args:
        application: the candidate.
        only: its tools that a sound parent lacks; None proves all of them.
    """
    try:
        engine = Engine(application)
    except ToolloomError as error:
        return Proof((str(error),))
    report = lint(engine, seeds=(SEED,), draws=DRAWS, enough=ENOUGH, only=only)
    if report.errors and all(any(s in str(f) for s in _OF_SEEDS) for f in report.errors):
        report = lint(engine, draws=DRAWS, enough=ENOUGH, only=only)
    if report.errors:
        return Proof(tuple(str(finding) for finding in report.errors))
    examples = _examples(engine, report)
    succeeded = {name: figures.examples.get("ok", ()) for name, figures in report.figures.items()}
    environment = engine.environment()
    same = tuple(alike(environment, application, succeeded, SEED))
    environment.rest()
    return Proof((), examples, same)


def _examples(engine: Engine, report: LintReport) -> dict[str, Example]:
    """Make the calls of the lint again, each in a fresh state, and keep those that do the same."""
    environment = engine.environment()
    found: dict[str, Example] = {}
    for name in engine.application.specs:
        succeeds = fails = None
        error = ""
        for outcome, calls in report.figures[name].examples.items():
            for arguments in calls:
                environment.reset_now(SEED)
                result = environment.call_now(name, arguments)
                if result.ok and succeeds is None:
                    succeeds = arguments
                elif result.error and fails is None and outcome != "ok":
                    fails, error = arguments, result.error.code
        if fails is None:  # a tool that refuses nothing still refuses what is no argument of it
            environment.reset_now(SEED)
            bent = {**(succeeds or {}), "no_such_argument": 1}
            result = environment.call_now(name, bent)
            if result.error:
                fails, error = bent, result.error.code
        found[name] = Example(succeeds, fails, error)
    environment.rest()
    return found
