"""Users with tools of their own: the same state, other hands, and just what they are asked."""

import asyncio
import json
import random

import pytest
from pydantic import ValidationError

from simulators.faulty import Faulty
from simulators.sql.acts import user_act
from simulators.sql.attempt import Attempt
from simulators.sql.declared import lint_declared
from simulators.sql.engine import Engine
from simulators.sql.lint import lint
from simulators.sql.promises import lint_promises
from simulators.sql.stage import Stage
from simulators.sql.world import SqlWorld
from synth.core.application import Application
from synth.core.errors import BadApplication, NotSuitable, ToolloomError
from synth.core.outcomes import Outcomes
from synth.core.protocols import Shared, run_call
from synth.core.types import Effect, TaskKind


def _gate(key, driver, name, plugged, pin):
    row = {"id": key, "driver_id": driver, "name": name}
    return {**row, "plugged": plugged, "open": 0, "pin": pin}


PLUG = "UPDATE gates SET plugged = {} WHERE name = :gate AND driver_id = :user_id"
GARAGE = {
    "application": "garage",
    "category": "parking",
    "summary": "Gates of a car park.",
    "clock": "2026-03-02T09:00:00",
    "schema": """
        CREATE TABLE drivers (id TEXT PRIMARY KEY, name TEXT NOT NULL) STRICT;
        CREATE TABLE gates (id TEXT PRIMARY KEY, driver_id TEXT NOT NULL REFERENCES drivers,
          name TEXT NOT NULL, plugged INTEGER NOT NULL CHECK (plugged IN (0, 1)),
          open INTEGER NOT NULL CHECK (open IN (0, 1)), pin TEXT NOT NULL) STRICT;""",
    "seed": {
        "drivers": {"rows": [{"id": "D1", "name": "Ann"}, {"id": "D2", "name": "Bo"}]},
        "gates": {
            "rows": [
                _gate("G1", "D1", "east gate", 0, "11-22"),
                _gate("G2", "D1", "west gate", 1, "33-44"),
                _gate("G3", "D2", "east gate", 0, "55-66"),
            ]
        },
    },
    "user": {"table": "drivers"},
    "identify": ["name"],
    "known": {"drivers": ["name"], "gates": ["name"]},
    "never": {"a gate is open and not plugged": "SELECT 1 FROM gates WHERE open AND NOT plugged"},
    "policy": "You watch over gates.",
    "tools": {
        "list_gates": {
            "description": "List gates.",
            "effect": "read",
            "parameters": {"name": {"type": "string", "match": "drivers.name"}},
            "steps": [
                {
                    "return": "SELECT g.id, g.name, g.plugged FROM gates g JOIN drivers d "
                    "ON d.id = g.driver_id WHERE d.name = :name ORDER BY g.id",
                    "shape": "list",
                }
            ],
        },
        "open_gate": {
            "description": "Open a gate.",
            "effect": "write",
            "parameters": {"gate_id": {"type": "string", "entity": "gates.id"}},
            "steps": [
                {
                    "require": "SELECT plugged FROM gates WHERE id = :gate_id",
                    "error": "no_power",
                    "message": "{gate_id!r} has no power.",
                },
                {"write": "UPDATE gates SET open = 1 WHERE id = :gate_id"},
            ],
            "intent": "have the {{ gate_id.name }} opened",
        },
        "plug_in": {
            "by": "user",
            "description": "Plug a gate of yours in.",
            "effect": "write",
            "parameters": {"gate": {"type": "string", "match": "gates.name"}},
            "steps": [
                {
                    "require": "SELECT NOT plugged FROM gates WHERE name = :gate "
                    "AND driver_id = :user_id",
                    "error": "not_there",
                    "message": "There is no such plug.",
                },
                {"write": PLUG.format(1)},
            ],
            "intent": "plug in the {{ gate }}",
        },
    },
}


def garage(**changes):
    """Return the application with some of its tools changed, by name; None takes one away."""
    tools = {**GARAGE["tools"]}
    for name, change in changes.items():
        tools[name] = {**tools.get(name, {}), **change}
    return Application.model_validate({**GARAGE, "tools": tools})


@pytest.fixture(name="environment")
def _environment():
    environment = Engine(garage()).environment()
    environment.reset_now(0)
    return environment


# --- whose tools ------------------------------------------------------------------------------


def test_a_users_tool_is_no_tool_of_world_or_environment(environment):
    world = SqlWorld(Engine(garage()))
    assert [spec.name for spec in world.tools()] == ["list_gates", "open_gate"]
    assert [spec.name for spec in environment.tools()] == ["list_gates", "open_gate"]
    assert [(s.name, s.effect) for s in environment.user_tools()] == [("plug_in", Effect.WRITE)]
    assert not any("plug_in" in (edge.source, edge.target) for edge in world.edges())


def test_each_side_gets_the_ordinary_refusal_for_a_tool_of_the_other(environment):
    agents = environment.call_now("plug_in", {"gate": "east gate"})
    users = environment.act_now("D1", "open_gate", {"gate_id": "G2"})
    nobodys = environment.call_now("fly", {})
    assert agents.error.code == users.error.code == nobodys.error.code == "unknown_tool"
    assert agents.content == nobodys.content.replace("fly", "plug_in")
    assert environment.diff_now() == ()


def test_a_user_acts_on_what_is_theirs(environment):
    assert environment.act_now("D2", "plug_in", {"gate": "east gate"}).ok
    (line,) = environment.diff_now()
    assert json.loads(line)[3]["id"] == "G3"
    assert environment.call_now("open_gate", {"gate_id": "G3"}).ok
    assert environment.call_now("open_gate", {"gate_id": "G1"}).error.code == "no_power"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({}, "invalid_arguments"),
        ({"gate": 7}, "invalid_arguments"),
        ({"gate": "east gate", "user_id": "D2"}, "invalid_arguments"),
        ({"gate": "moon gate"}, "not_there"),
        ({"gate": "west gate"}, "not_there"),
    ],
)
def test_a_users_call_is_validated_as_any_other(environment, arguments, code):
    assert environment.act_now("D1", "plug_in", arguments).error.code == code
    assert environment.diff_now() == ()


def test_snapshot_and_fork_hold_what_a_user_did(environment):
    environment.act_now("D1", "plug_in", {"gate": "east gate"})
    state, diff = environment.snapshot_now(), environment.diff_now()
    twin = environment.fork_now()
    environment.reset_now(0)
    assert (environment.diff_now(), twin.diff_now()) == ((), diff)
    environment.restore_now(state)
    assert environment.diff_now() == diff
    assert environment.act_now("D1", "plug_in", {"gate": "east gate"}).error.code == "not_there"


def test_an_environment_without_users_tools_refuses_their_calls(environment):
    class Bare:
        call = environment.call

    assert isinstance(environment, Shared)
    assert asyncio.run(run_call(environment, "user", "D1", "plug_in", {"gate": "east gate"})).ok
    with pytest.raises(ToolloomError, match="users hold no tools"):
        asyncio.run(run_call(Bare(), "user", "D1", "plug_in", {}))


def test_faults_of_tools_do_not_strike_what_users_do(environment):
    faulty = Faulty(environment, Outcomes(transient=0.9), seed=3)

    async def play(*, with_acts):
        await faulty.reset(0)
        codes = []
        for _ in range(6):
            if with_acts:
                await faulty.act("D1", "plug_in", {"gate": "moon gate"})
            result = await faulty.call("list_gates", {"name": "Ann"})
            codes.append(result.error.code if result.error else "ok")
        return codes

    assert [spec.name for spec in faulty.user_tools()] == ["plug_in"]
    codes = asyncio.run(play(with_acts=True))
    assert codes == asyncio.run(play(with_acts=False))
    assert len(set(codes)) > 1


# --- applications that are wrong ----------------------------------------------------------------


def test_a_parameter_cannot_be_called_as_who_calls():
    parameters = {"user_id": {"type": "string", "match": "drivers.name"}}
    with pytest.raises(BadApplication, match="'user_id' is who calls it"):
        Engine(garage(plug_in={"parameters": parameters, "intent": ""}))


def test_an_agents_tool_knows_no_caller():
    steps = [
        {"return": "SELECT id FROM gates WHERE driver_id = :user_id ORDER BY id", "shape": "list"}
    ]
    with pytest.raises(BadApplication, match="unknown parameter :user_id"):
        Engine(garage(list_gates={"steps": steps}))


@pytest.mark.parametrize(
    "more",
    [
        {"handoff": "plug_in"},
        {"policy_rules": [{"name": "r", "tool": "plug_in", "when": "SELECT 1", "text": "No."}]},
    ],
)
def test_hand_off_and_policy_rules_are_about_the_agents_tools(more):
    with pytest.raises(ValidationError, match="the user's, where a tool of the agent is meant"):
        Application.model_validate({**GARAGE, **more})


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"intent": {}}, "no agent can ask for it"),
        (
            {"parameters": {"gate": {"type": "string", "entity": "gates.name"}}},
            "no user knows a key",
        ),
    ],
)
def test_the_lint_finds_what_keeps_a_user_from_acting(change, what):
    assert what in [finding.what for finding in lint_declared(Engine(garage(plug_in=change)))]
    assert what not in [finding.what for finding in lint_declared(Engine(garage()))]


def test_the_lint_finds_a_users_tool_that_nobody_waits_for():
    whistle = {
        "by": "user",
        "description": "Whistle.",
        "effect": "read",
        "parameters": {},
        "steps": [{"return": "SELECT name FROM drivers WHERE id = :user_id", "shape": "object"}],
        "intent": "whistle",
    }
    late = {"steps": [{"write": "UPDATE gates SET open = 1 WHERE id = :gate_id AND plugged"}]}
    for changes, useless in (
        ({"whistle": whistle}, ["whistle"]),
        ({"open_gate": late}, ["plug_in"]),
    ):
        report = lint(Engine(garage(**changes)), seeds=(0,), draws=9)
        found = [f.where for f in report.warnings if "waits for it" in f.what]
        assert found == [f"garage: tools.{name}" for name in useless]
    assert not [
        f for f in lint(Engine(garage()), seeds=(0,), draws=9).warnings if "waits" in f.what
    ]


def test_a_promise_that_a_users_tool_breaks_is_found():
    pull = {
        "by": "user",
        "description": "Pull the plug.",
        "effect": "write",
        "parameters": {"gate": {"type": "string", "match": "gates.name"}},
        "steps": [{"write": PLUG.format(0)}],
        "intent": "unplug the {{ gate }}",
    }
    (finding,) = lint_promises(Stage(Engine(garage(pull=pull))), seeds=(0,), walks=3)
    assert "a gate is open and not plugged" in finding.where
    assert finding.what.startswith("after pull(")
    assert not list(lint_promises(Stage(Engine(garage())), seeds=(0,), walks=3))


# --- tasks --------------------------------------------------------------------------------------

READ_PIN = {
    "by": "user",
    "description": "Read the pin.",
    "effect": "read",
    "parameters": {"gate": {"type": "string", "match": "gates.name"}},
    "steps": [
        {
            "return": "SELECT pin FROM gates WHERE name = :gate AND driver_id = :user_id",
            "shape": "object",
        }
    ],
    "intent": "read the pin on the {{ gate }}",
}
RESET_GATE = {
    "description": "Reset a gate.",
    "effect": "write",
    "parameters": {
        "gate_id": {"type": "string", "entity": "gates.id"},
        "pin": {
            "type": "string",
            "match": "gates.pin",
            "sample": "SELECT pin FROM gates WHERE id = :gate_id",
        },
    },
    "steps": [
        {
            "require": "SELECT pin = :pin FROM gates WHERE id = :gate_id",
            "error": "wrong_pin",
            "message": "Wrong.",
        },
        {"write": "UPDATE gates SET open = 0, pin = '00-00' WHERE id = :gate_id"},
    ],
    "intent": "have the {{ gate_id.name }} reset",
}


def test_what_waits_for_the_user_is_derived():
    found = Stage(Engine(garage(read_pin=READ_PIN, reset_gate=RESET_GATE))).aids
    assert [(a.tool, a.by, a.error, a.parameter) for a in found] == [
        ("open_gate", "plug_in", "no_power", None),
        ("reset_gate", "read_pin", "", "pin"),
    ]


def test_nothing_waits_for_a_tool_that_shows_what_an_agent_sees():
    steps = [{"return": "SELECT id, name, pin, plugged FROM gates ORDER BY id", "shape": "list"}]
    shown = garage(read_pin=READ_PIN, reset_gate=RESET_GATE, list_gates={"steps": steps})
    assert [aid.by for aid in Stage(Engine(shown)).aids] == ["plug_in"]


def sampled(application, tools=None, count=12):
    """Return tasks of the kind, and the engine."""
    world = SqlWorld(Engine(application))
    tools = tools or tuple(spec.name for spec in world.tools())

    async def draw():
        rngs = [random.Random(number) for number in range(count)]
        return [await world.blueprint(TaskKind.USER_ACT, tools, 0, rng) for rng in rngs]

    return asyncio.run(draw()), world.engine


def test_a_task_has_a_step_that_only_the_user_can_take():
    tasks, engine = sampled(garage(read_pin=READ_PIN, reset_gate=RESET_GATE))
    assert {call.tool for task in tasks for call in task.solution if call.by == "user"} == {
        "plug_in",
        "read_pin",
    }
    for task in tasks:
        *_, act, write = task.solution
        assert (act.by, write.by) == ("user", "agent")
        assert task.user in {"D1", "D2"}
        assert (act.tool, act.arguments) in [(a.tool, a.arguments) for a in task.acts]
        environment = engine.environment()
        environment.reset_now(0)
        if act.effect is Effect.WRITE:
            assert environment.call_now(write.tool, write.arguments).error.code == "no_power"
        shown = environment.act_now(task.user, act.tool, act.arguments)
        assert environment.call_now(write.tool, write.arguments).ok
        assert environment.diff_now() in task.diffs
        if act.effect is Effect.READ:
            pin = json.loads(shown.content)["pin"]
            told = [*task.clauses, *(f.spoken for f in (*task.opening, *task.background))]
            assert write.arguments["pin"] == pin
            assert not any(pin in text for text in told)


def test_without_a_tool_that_waits_there_is_no_such_task():
    attempt = Attempt(Stage(Engine(garage())), ("list_gates",), 0, random.Random(1))
    with pytest.raises(NotSuitable, match="no_act"):
        user_act(attempt)
    none = {name: tool for name, tool in GARAGE["tools"].items() if name != "plug_in"}
    world = SqlWorld(Engine(Application.model_validate({**GARAGE, "tools": none})))
    assert TaskKind.USER_ACT not in world.kinds()
