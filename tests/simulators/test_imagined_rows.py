"""A state of JSON rows: typed by a schema, consistent whatever a model says."""

import asyncio
import json

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from simulators.check import check_environment
from simulators.imagined.asking import Scene
from simulators.imagined.environment import FAULT, ImaginedEnvironment
from simulators.imagined.json_state import JsonState, Kind
from simulators.imagined.patch import Change, Refused
from simulators.imagined.world import tools_stage
from synth.core.errors import BadInput
from synth.core.llm.scripted import ScriptedLLM
from synth.core.types import Effect, Provenance, ToolSpec

pytestmark = pytest.mark.claim("k2-world-model")
SCHEMA = {
    "type": "object",
    "properties": {
        "floors": {
            "type": "array",
            "items": {
                "properties": {"id": {}, "level": {"type": "integer"}},
                "required": ["level"],
            },
        },
        "rooms": {
            "type": "array",
            "items": {
                "properties": {
                    "id": {},
                    "name": {"type": "string"},
                    "floor_id": {"type": "string", "x-references": "floors"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["name", "floor_id"],
            },
        },
    },
}
ROWS = {
    "floors": [{"id": "F1", "level": 0}, {"id": "F2", "level": 1}],
    "rooms": [{"id": "R07", "name": "Oak", "floor_id": "F1", "tags": ["quiet"]}],
}
NEVER = {"two rooms share a name": lambda tables: (
    len({row["name"] for row in tables["rooms"].values()}) < len(tables["rooms"])
)}  # fmt: skip


def kind():
    return Kind(SCHEMA, lambda seed: ROWS, NEVER)


def state():
    made = JsonState(kind())
    made.reset(7)
    return made


def refusal(made, *changes):
    before = made.snapshot()
    with pytest.raises(Refused) as caught:
        made.apply(changes)
    made.restore(before)
    return caught.value.code


def insert(table, key="", **values):
    return Change("insert", table, key, values)


def test_rows_take_the_next_keys_of_their_table():
    made = state()
    assert made.fresh("rooms", 2) == ["R08", "R09"]
    made.apply([insert("rooms", name="Elm", floor_id="F2"), insert("floors", "F3", level=2)])
    assert made.row("rooms", "R08") == {"id": "R08", "name": "Elm", "floor_id": "F2"}
    made.apply([Change("delete", "rooms", "R08", {})])
    assert made.fresh("rooms", 1) == ["R09"]  # a key that was given out never comes again


def test_a_diff_is_net_and_names_new_rows_by_content():
    made = state()
    made.apply([insert("rooms", name="Elm", floor_id="F2")])
    (line,) = made.diff()
    assert json.loads(line)[:3] == ["rooms", "insert", None]
    assert json.loads(line)[3]["id"].startswith("~")
    made.apply([Change("delete", "rooms", "R08", {})])
    assert made.diff() == ()
    made.apply([Change("update", "rooms", "R07", {"name": "Ash"})])
    made.apply([Change("update", "rooms", "R07", {"name": "Oak"})])
    assert made.diff() == ()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (insert("halls", name="x"), "table"),
        (insert("rooms", "R99", name="Elm", floor_id="F1"), "key"),
        (insert("rooms", name="Elm", floor_id="F9"), "reference"),
        (insert("rooms", name="Oak", floor_id="F1"), "promise"),
        (insert("rooms", name="Elm"), "type"),
        (insert("rooms", name="Elm", floor_id="F1", size=4), "type"),
        (insert("rooms", name="\ud800", floor_id="F1"), "type"),
        (Change("update", "rooms", "R99", {"name": "x"}), "row"),
        (Change("update", "rooms", "R07", {"tags": [1]}), "type"),
        (Change("delete", "floors", "F1", {}), "reference"),
    ],
)
def test_a_change_that_breaks_the_types_or_rules_is_refused_by_name(change, code):
    assert refusal(state(), change) == code


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"type": "object", "properties": {}},
        {"type": "object", "properties": {"rooms": {"type": "array"}}},
        {"type": "object", "properties": {"rooms": {"items": {"properties": {"name": {}}}}}},
        {
            "type": "object",
            "properties": {
                "rooms": {"items": {"properties": {"id": {}, "of": {"x-references": "halls"}}}}
            },
        },
    ],
)
def test_a_schema_that_gives_no_tables_is_refused(schema):
    with pytest.raises(BadInput, match="the schema of a state"):
        Kind(schema, lambda seed: {})


def test_seeded_rows_that_are_not_of_their_type_are_refused():
    with pytest.raises(BadInput, match="state 3: floors 'F1': level"):
        Kind(SCHEMA, lambda seed: {"floors": [{"id": "F1", "level": "ground"}]}).seeded(3)


class Rows(RuleBasedStateMachine):
    """Any changes in any order, taken back where they are refused."""

    @initialize()
    def start(self):
        self.state, self.saved = state(), []

    @rule(
        op=st.sampled_from(["insert", "update", "delete"]),
        table=st.sampled_from(["rooms", "floors", "halls"]),
        key=st.sampled_from(["", "R07", "R08", "F1", "F2", "F3"]),
        values=st.dictionaries(
            st.sampled_from(["name", "floor_id", "level", "tags", "x"]),
            st.sampled_from(["Oak", "Elm", "F1", "F2", "F9", 1, 2.5, None, ["a"]]),
            max_size=3,
        ),
    )
    def change(self, op, table, key, values):
        before, refused = self.state.snapshot(), None
        try:
            self.state.apply([Change(op, table, key, values)])
        except Refused as error:
            refused = error.code
            self.state.restore(before)
            assert self.state.snapshot() == before
        assert refused in {None, "table", "key", "row", "type", "reference", "promise"}

    @rule()
    def save(self):
        self.saved.append((self.state.snapshot(), self.state.diff(), self.state.key()))

    @rule()
    def back(self):
        if self.saved:
            saved, diff, key = self.saved[-1]
            self.state.restore(saved)
            assert (self.state.diff(), self.state.key()) == (diff, key)

    @rule()
    def fork(self):
        twin = self.state.fork()
        assert twin.key() == self.state.key()
        twin.apply([insert("floors", level=9)])
        assert twin.key() != self.state.key()

    @invariant()
    def is_typed_and_consistent(self):
        tables = {name: {r["id"]: r for r in self.state.rows(name)} for name in self.state.shapes}
        for row in tables["rooms"].values():
            assert row["floor_id"] in tables["floors"]
            assert isinstance(row["name"], str)
        assert all(type(row["level"]) is int for row in tables["floors"].values())
        assert not NEVER["two rooms share a name"](tables)


TestRows = Rows.TestCase
TestRows.settings = settings(max_examples=30, stateful_step_count=15, deadline=None)


# --- tools without an application ----------------------------------------------------------------


def spec(name, effect, properties, returns=None):
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return ToolSpec(
        name=name,
        description=name,
        parameters=parameters,
        returns=returns,
        effect=effect,
        provenance=Provenance(source="test"),
    )


SPECS = [
    spec("add_room", Effect.WRITE, {"name": {"type": "string"}}),
    spec(
        "count_rooms",
        Effect.READ,
        {"floor_id": {"type": "string"}},
        {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]},
    ),
]
STAGE = tools_stage("office", SPECS, kind(), Scene("An office.", None))


def play(request):
    state = JsonState(kind())
    state.restore(request.state)
    if request.what.name == "count_rooms":
        rooms = [
            r for r in state.rows("rooms") if r["floor_id"] == request.what.arguments["floor_id"]
        ]
        return json.dumps({"observation": {"count": len(rooms)}})
    (key,) = state.fresh("rooms", 1)
    values = {"name": request.what.arguments["name"], "floor_id": "F2"}
    patch = [{"op": "insert", "table": "rooms", "id": key, "values": values}]
    return json.dumps({"patch": patch, "observation": {"id": key}})


def test_tools_without_an_application_keep_the_contract_over_rows_of_json():
    calls = [("add_room", {"name": "Elm"}), ("count_rooms", {"floor_id": "F2"})]
    calls = [*calls, ("add_room", {"name": "Fir"}), calls[1]]
    made = lambda: ImaginedEnvironment(STAGE, ScriptedLLM(play))  # noqa: E731
    assert asyncio.run(check_environment(made, calls)) == []


def test_a_result_that_the_tool_does_not_declare_is_refused_and_nothing_is_compared():
    environment = ImaginedEnvironment(STAGE, ScriptedLLM(['{"observation": {"count": "two"}}'] * 3))
    asyncio.run(environment.reset(1))
    result = asyncio.run(environment.call("count_rooms", {"floor_id": "F2"}))
    assert result.error == FAULT
    (only,) = environment.record().calls
    assert only.refused == ("observation",) * 3
    assert (only.result_equal, environment.record().end_equal) == (None, None)


def test_a_code_of_the_engine_is_not_for_tools_to_use():
    said = '{"observation": {"error": "timeout", "message": "?"}}'
    fine = '{"observation": {"error": "no_such_floor", "message": "There is none."}}'
    environment = ImaginedEnvironment(STAGE, ScriptedLLM([said, fine]))
    asyncio.run(environment.reset(1))
    result = asyncio.run(environment.call("count_rooms", {"floor_id": "F9"}))
    assert result.error.code == "no_such_floor"
    assert environment.record().calls[0].refused == ("error_code",)


EXTREME = ["1" + "0" * 400, str(2**64), "[" * 120 + "]" * 120, '{"a":' * 900 + "1" + "}" * 900]
EXTREME = [*EXTREME, "NaN", "1e999", '{"a":1,"a":2}', '"\\ud800"']


@pytest.mark.parametrize("value", EXTREME)
def test_what_not_all_readers_of_json_take_is_refused_in_a_reply_and_in_arguments(value):
    office = tools_stage(
        "office",
        [spec("note", Effect.WRITE, {"what": {}})],
        Kind({"properties": {"notes": {"items": {"properties": {"id": {}, "what": {}}}}},
              "type": "object"}, lambda seed: {}),
        Scene("An office.", None),
    )  # fmt: skip
    said = '{"patch": [{"op": "insert", "table": "notes", "values": {"what": %s}}], '
    shown = '{"patch": [], "observation": {"what": %s}}'
    llm = ScriptedLLM([(said + '"observation": {}}') % value, shown % value, "{}"])
    environment = ImaginedEnvironment(office, llm)
    asyncio.run(environment.reset(1))
    assert asyncio.run(environment.call("note", {"what": 1})).error == FAULT
    assert environment.record().calls[0].refused == ("json", "json", "shape")
    assert asyncio.run(environment.diff()) == ()
    what = json.loads(value)
    result = asyncio.run(environment.call("note", {"what": what, "more": 1}))
    assert result.error.code == "invalid_arguments"
    assert len(environment.record().calls) == 1
