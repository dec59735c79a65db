"""What the reference agent gets wrong on purpose, so that the judge has something to reject.

Each kind is a fault that models make. Nothing of it is written down where the judge could see it:
a trajectory holds only what was said and done.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

from synth.core.types import Effect, OutputValue, PlannedCall, Scalar, Task
from synth.rubrics import REFUSALS


@dataclass(frozen=True, slots=True)
class ErrorRates:
    """Probability of each kind of mistake in an episode.

    Their sum is the probability that an episode has one. Where a task does not allow a kind (no
    write to drop, nobody to mistake for another), its share goes to the kinds that it does allow.
    """

    wrong_entity: float = 0.0
    """Does the right thing to the wrong row."""
    dropped_call: float = 0.0
    """Leaves a call out and talks as if it had been made."""
    superfluous_write: float = 0.0
    """Changes something nobody asked for."""
    false_claim: float = 0.0
    """Claims success without having changed anything."""
    ungrounded_argument: float = 0.0
    """Tries an invented identifier before it does things properly."""
    invalid_argument: float = 0.0
    """Sends arguments the schema forbids, and gives up."""
    wrong_output: float = 0.0
    """Tells a wrong value."""
    wrongful_compliance: float = 0.0
    """Does what the policy forbids."""

    @classmethod
    def uniform(cls, rate: float) -> ErrorRates:
        """Return rates that sum to `rate`, each kind alike."""
        kinds = fields(cls)
        return cls(**{kind.name: rate / len(kinds) for kind in kinds})


@dataclass(frozen=True, slots=True)
class Plan:
    """What the reference agent sets out to do and to say."""

    calls: tuple[PlannedCall, ...]
    outputs: tuple[OutputValue, ...]
    claims: bool
    """Reports the wishes as fulfilled; otherwise refuses them."""
    persists: bool = True
    """Goes on after an error and retries; otherwise the first error is the end."""


def right_plan(task: Task) -> Plan:
    """Return the plan that fulfils the task."""
    blueprint = task.blueprint
    return Plan(blueprint.solution, blueprint.outputs, claims=blueprint.kind not in REFUSALS)


def draw_mistake(task: Task, rates: ErrorRates, rng: random.Random) -> str | None:
    """Draw at most one kind of mistake that this task allows."""
    shares = {kind.name: getattr(rates, kind.name) for kind in fields(rates)}
    allowed = [name for name, share in shares.items() if share and _allows(task, name)]
    if rng.random() >= sum(shares.values()) or not allowed:
        return None
    return rng.choices(allowed, [shares[name] for name in allowed])[0]


def _allows(task: Task, mistake: str) -> bool:
    blueprint = task.blueprint
    match mistake:
        case "wrong_entity" | "wrongful_compliance":
            return bool(blueprint.decoys.get(mistake))
        case "superfluous_write":
            return bool(blueprint.decoys.get("over_write"))
        case "dropped_call":
            return bool(blueprint.solution)
        case "false_claim":
            return not blueprint.outputs and (blueprint.kind in REFUSALS or bool(_writes(task)))
        case "ungrounded_argument":
            return any(True for _ in _identifiers(blueprint.solution))
        case "invalid_argument":
            return any(call.arguments and call.by == "agent" for call in blueprint.solution)
        case _:
            return any(output.value is not None for output in blueprint.outputs)


def _writes(task: Task) -> list[PlannedCall]:
    return [call for call in task.blueprint.solution if call.effect is not Effect.READ]


def spoil(task: Task, mistake: str, rng: random.Random) -> Plan:
    """Return a plan with this mistake in it.

    Args:
        task: allows it (see `draw_mistake`).
        mistake: a field of `ErrorRates`.
        rng: the only source of chance.
    """
    right = right_plan(task)
    decoys = task.blueprint.decoys
    match mistake:
        case "wrong_entity" | "wrongful_compliance":
            # Who read the wrong row tells its values.
            outputs = tuple(map(_wrong, right.outputs))
            return replace(right, calls=decoys[mistake], outputs=outputs, claims=True)
        case "superfluous_write":
            return replace(right, calls=decoys["over_write"])
        case "dropped_call":
            return _without_one(right, rng)
        case "false_claim":
            reads = [c for c in right.calls if c.effect is Effect.READ and c.by == "agent"]
            return replace(right, calls=tuple(reads), claims=True)
        case "ungrounded_argument":
            return replace(right, calls=(_invented(right.calls, rng), *right.calls))
        case "invalid_argument":
            return _invalid(right, rng)
        case _:
            return replace(right, outputs=_wrong_one(right.outputs, rng))


def _without_one(plan: Plan, rng: random.Random) -> Plan:
    writes = [i for i, call in enumerate(plan.calls) if call.effect is not Effect.READ]
    index = rng.choice(writes) if writes else len(plan.calls) - 1
    calls = plan.calls[:index] + plan.calls[index + 1 :]
    # Without the look-up the values can only be guessed.
    outputs = plan.outputs if writes else tuple(map(_wrong, plan.outputs))
    return replace(plan, calls=calls, outputs=outputs)


def _identifiers(calls: tuple[PlannedCall, ...]) -> Iterator[tuple[PlannedCall, str]]:
    """Arguments that look like keys: letters and digits, no space, no date."""
    for call in calls:
        for name, value in call.arguments.items() if call.by == "agent" else ():
            if (
                isinstance(value, str)
                and name.endswith("id")
                and any(c.isdigit() for c in value)
                and not any(c.isspace() for c in value)
            ):
                yield call, name


def _invented(calls: tuple[PlannedCall, ...], rng: random.Random) -> PlannedCall:
    call, name = rng.choice(list(_identifiers(calls)))
    value = "".join(str(rng.randrange(10)) if c.isdigit() else c for c in call.arguments[name])
    while value in str([c.arguments for c in calls]):
        value += str(rng.randrange(10))
    group = min(call.group for call in calls) - 1
    return call.model_copy(update={"arguments": {**call.arguments, name: value}, "group": group})


def _invalid(plan: Plan, rng: random.Random) -> Plan:
    given = [i for i, call in enumerate(plan.calls) if call.arguments and call.by == "agent"]
    index = rng.choice(given)
    call = plan.calls[index]
    arguments: dict[str, Any] = {**call.arguments}
    arguments[rng.choice(list(arguments))] = {"value": None}
    broken = call.model_copy(update={"arguments": arguments})
    return replace(plan, calls=(*plan.calls[:index], broken), persists=False)


def _wrong_one(outputs: tuple[OutputValue, ...], rng: random.Random) -> tuple[OutputValue, ...]:
    index = rng.choice([i for i, output in enumerate(outputs) if output.value is not None])
    return (*outputs[:index], _wrong(outputs[index]), *outputs[index + 1 :])


def _wrong(output: OutputValue) -> OutputValue:
    return output.model_copy(update={"value": _other(output)})


def _other(output: OutputValue) -> Scalar:
    """Return a near miss of the value, of the same type."""
    value = output.value
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + (100 if output.type == "money" else 1)
    text = str(value)
    if output.type in ("date", "datetime"):
        day = datetime.datetime.fromisoformat(text) + datetime.timedelta(days=1)
        return day.isoformat()[: len(text)]
    if any(c.isdigit() for c in text):
        return "".join(str((int(c) + 1) % 10) if c.isdecimal() else c for c in text)
    turned = text[::-1].strip().capitalize()
    return "unknown" if len(text) < 3 or turned.casefold() == text.casefold() else turned
