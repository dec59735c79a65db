"""The classes of BFCL's multi-turn tasks as environments (package `bfcl-eval`, tried 2026.3.23).

They are foreign code that runs in this process; see `simulators.foreign.environment`. Their data is
a public benchmark: measure on it, and keep it out of what you train on. Install the package without
its dependencies (`pip install --no-deps bfcl-eval`), which none of these classes needs.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from simulators.foreign.environment import ForeignEnvironment, Kind
from simulators.foreign.signature import specs_of
from synth.core.errors import BadInput, UnknownName
from synth.core.optional import package

CLASSES: Mapping[str, str] = {
    "GorillaFileSystem": "gorilla_file_system",
    "MessageAPI": "message_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "TwitterAPI": "posting_api",
    "VehicleControlAPI": "vehicle_control",
}
"""Those with a state -> their modules."""
_LEFT_OUT: Mapping[str, tuple[str, ...]] = {"TravelAPI": ("verify_traveler_information",)}
"""Methods that look at the clock of the machine: their answers do not repeat."""
_INSTALL = "--no-deps bfcl-eval"
_MODULES = "bfcl_eval.eval_checker.multi_turn_eval.func_source_code"
_TASKS = "data/BFCL_v4_multi_turn_base.json"


def bfcl_kind(name: str, scenarios: Sequence[Mapping[str, Any]] = ()) -> Kind:
    """Return one of BFCL's classes as a kind of environment.

    Args:
        name: a key of `CLASSES`.
        scenarios: states to start from: seed n takes number n modulo their count. Without any,
            an object starts from the state that its class has by default. Unless a scenario says
            otherwise, the seed is also that of the object's chance.

    Raises:
        UnknownName: no such class.
        BadInput: the package is not installed.
    """
    if name not in CLASSES:
        raise UnknownName("class", name, CLASSES)
    kind = getattr(package(f"{_MODULES}.{CLASSES[name]}", _INSTALL), name)

    def make(seed: int) -> Any:
        scenario = dict(scenarios[seed % len(scenarios)]) if scenarios else {}
        subject = kind()
        subject._load_scenario(copy.deepcopy({"random_seed": seed, **scenario}))
        return subject

    specs = specs_of(kind, "pypi:bfcl-eval", _LEFT_OUT.get(name, ()))
    return Kind(name, specs, make, _failed)


def bfcl_environment(name: str, scenarios: Sequence[Mapping[str, Any]] = ()) -> ForeignEnvironment:
    """Return a new environment; see `bfcl_kind`."""
    return ForeignEnvironment(bfcl_kind(name, scenarios))


def bfcl_scenarios(name: str) -> list[dict[str, Any]]:
    """Return the states in which BFCL's own multi-turn tasks with this class begin.

    Raises:
        BadInput: the package is not installed.
    """
    data = resources.files(package("bfcl_eval", _INSTALL)).joinpath(_TASKS)
    try:
        text = data.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise BadInput(
            f"BFCL's tasks are not here: {error}", remedy=f"pip install {_INSTALL}"
        ) from error
    tasks = [json.loads(line) for line in text.splitlines() if line.strip()]
    return [task["initial_config"][name] for task in tasks if name in task["initial_config"]]


def _failed(result: Any) -> str | None:
    """Return why a call failed: these classes say so in a field of their result."""
    if isinstance(result, dict) and "error" in result:
        return str(result["error"])
    return None
