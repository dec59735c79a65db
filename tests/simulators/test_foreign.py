"""Classes of others as environments: schemas from signatures, states compared by content."""

import asyncio
import datetime
import json
import math
import pickle
import typing
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.check import check_environment
from simulators.foreign.environment import ForeignEnvironment, Kind
from simulators.foreign.signature import schema_of, specs_of
from simulators.foreign.state import changes, parts_of, plain
from synth.core.errors import BadInput, ToolloomError


class Note:
    def __init__(self, text, pad=None):
        self.text, self.pad, self._hidden = text, pad, 0


class Pad:
    """A pad of notes."""

    def __init__(self, seed):
        self.notes: dict[int, Note] = {}
        self.title = f"pad {seed}"
        self.tags: list[str] = []
        self._drawn = seed
        self.write("first")

    def write(self, text: str, tags: list[str] | None = None) -> dict[str, int]:
        """Write a note.

        Args:
            text (str): What it says,
                in so many words.
            tags (List[str]): [Optional] Words to find it by.

        Returns:
            number (int): Of the note.
        """
        number = len(self.notes) + 1
        self.notes[number] = Note(text, self)
        self.tags += tags or []
        if text == "full":
            raise ValueError("the pad is full")
        return {"number": number}

    def read(self, number: int):
        """Read a note."""
        if number not in self.notes:
            return {"error": f"no note {number}"}
        return self.notes[number].text

    def draw(self) -> int:
        self._drawn = self._drawn * 5 % 97
        return self._drawn

    def tear(self, number: int) -> None:
        """Tear a note off."""
        self.notes.pop(number)

    def leave(self) -> None:
        raise SystemExit(3)

    def keep(self, things: dict) -> None:
        """Keep what is given, the very object."""
        self.things = things

    def _private(self):
        """No tool."""


def failed(result):
    return result.get("error") if isinstance(result, dict) else None


PAD = Kind("Pad", specs_of(Pad, "test"), Pad, failed)
CALLS = [
    ("write", {"text": "a", "tags": ["x"]}),
    ("draw", {}),
    ("read", {"number": 2}),
    ("read", {"number": 9}),
    ("tear", {"number": 1}),
    ("write", {"text": "full"}),
    ("draw", {}),
    ("keep", {"things": {"a": [1, None]}}),
]


def after(*calls, seed=7):
    """Return an environment after some calls, and their results."""

    async def go():
        environment = ForeignEnvironment(PAD)
        await environment.reset(seed)
        return environment, [await environment.call(*call) for call in calls]

    return asyncio.run(go())


def test_any_class_keeps_the_contract_of_environments():
    assert asyncio.run(check_environment(lambda: ForeignEnvironment(PAD), CALLS)) == []


def test_tools_are_what_signatures_and_docstrings_say():
    tools = {tool.name: tool for tool in PAD.specs}
    assert set(tools) == {"write", "read", "draw", "tear", "leave", "keep"}
    assert tools["write"].description == "Write a note."
    assert tools["draw"].description == "draw"
    assert tools["write"].parameters == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "What it says, in so many words."},
            "tags": {
                "anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}],
                "description": "Words to find it by.",
            },
        },
        "required": ["text"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (int, {"type": "integer"}),
        (float | None, {"type": ["number", "null"]}),
        (typing.Any, {}),
        (Note, {}),
        (list, {"type": "array"}),
        (list[Note], {"type": "array"}),
        (set[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (typing.Literal["a", 1], {"enum": ["a", 1]}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (int | Note, {}),
    ],
)
def test_a_hint_becomes_a_schema(hint, schema):
    assert schema_of(hint) == schema


def test_hints_that_are_no_types_are_any():
    class Odd:
        def act(self, a: "NoSuchType", *rest: int, **more: int):  # noqa: F821
            """Act."""

    (tool,) = specs_of(Odd, "test")
    assert tool.parameters["properties"] == {"a": {}}


def test_results_are_json_whatever_they_were():
    _, results = after(("write", {"text": "a"}), ("read", {"number": 2}), ("tear", {"number": 2}))
    assert [r.content for r in results] == ['{"number":2}', '{"result":"a"}', '{"done":true}']


def test_a_call_that_fails_changes_nothing_not_even_what_is_hidden():
    environment, (failure,) = after(("write", {"text": "full", "tags": ["x"]}))
    assert json.loads(failure.content) == {
        "error": "failed",
        "message": "ValueError: the pad is full",
    }
    assert asyncio.run(environment.diff()) == ()
    assert asyncio.run(environment.call("write", {"text": "b"})).content == '{"number":2}'


def test_errors_that_are_returned_are_failures_too():
    _, (failure,) = after(("read", {"number": 9}))
    assert not failure.ok
    assert failure.error.message == "no note 9"


def test_a_class_that_wants_to_end_the_process_only_fails():
    _, (failure,) = after(("leave", {}))
    assert failure.error.message == "SystemExit: 3"


@pytest.mark.parametrize(
    "arguments", [{"text": math.nan}, {"text": object()}, {"text": 5}, {}, [], None, {"x": 1}]
)
def test_arguments_that_do_not_fit_never_reach_the_class(arguments):
    _, (failure,) = after(("write", arguments))
    assert failure.error.code == "invalid_arguments"


def test_what_is_given_is_not_shared_with_the_object():
    things = {"a": [1]}
    environment, _ = after(("keep", {"things": things}))
    before = asyncio.run(environment.diff())
    things["a"].append(2)
    assert asyncio.run(environment.diff()) == before


def test_a_diff_names_the_values_that_changed():
    environment, _ = after(("write", {"text": "a"}), ("draw", {}))
    diff = [json.loads(line) for line in asyncio.run(environment.diff())]
    assert {(table, kind) for table, kind, *_ in diff} == {("notes", "insert")}
    assert ["notes", "insert", None, {"at": [2, "text"], "is": "a"}] in diff


def test_what_was_undone_leaves_nothing():
    environment, _ = after(("write", {"text": "a"}), ("tear", {"number": 2}))
    assert asyncio.run(environment.diff()) == ()


def test_a_snapshot_is_json_and_nothing_in_it_is_run():
    environment, _ = after(*CALLS)
    state = asyncio.run(environment.snapshot())
    rows = [json.loads(line) for line in state.splitlines()]
    assert rows[0] == {"format": "toolloom/foreign/1", "class": "Pad", "seed": 7}
    for bad in (b"", b"no", pickle.dumps([]), b"[]", state.replace(b"/1", b"/2", 1)):
        with pytest.raises(BadInput):
            asyncio.run(environment.restore(bad))
    with pytest.raises(BadInput, match="another class"):
        asyncio.run(environment.restore(state.replace(b'"Pad"', b'"Pod"')))
    with pytest.raises(BadInput, match="'tear' fails"):
        asyncio.run(environment.restore(state + b'\n["tear",{"number":99}]'))


def test_an_environment_without_a_state_is_told():
    environment = ForeignEnvironment(PAD)
    with pytest.raises(ToolloomError, match="reset comes first"):
        asyncio.run(environment.call("draw", {}))

    def broken(seed):
        raise KeyError("root")

    with pytest.raises(ToolloomError, match="no state can be made"):
        asyncio.run(ForeignEnvironment(Kind("Pad", (), broken)).reset(0))


# --- states --------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class State:
    def __init__(self, values):
        self.__dict__.update(values)


STATES = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@given(STATES, STATES)
def test_a_diff_is_empty_only_between_equal_states(one, two):
    lines = changes(parts_of(State(one)), parts_of(State(two)))
    assert (lines == ()) == (
        repr(sorted(one.items())) == repr(sorted(two.items())) or same(one, two)
    )
    for line in lines:
        table, kind, before, now = json.loads(line)
        assert table in "abc"
        assert (before is None) == (kind == "insert")
        assert (now is None) == (kind == "delete")


def same(one, two):
    """Say whether two values are the same JSON; the order of keys does not count."""
    return json.dumps(plain(one), sort_keys=True) == json.dumps(plain(two), sort_keys=True)


@given(STATES, STATES)
def test_equal_diffs_mean_equal_states(one, two):
    base = parts_of(State({}))
    lines = [changes(base, parts_of(State(values))) for values in (one, two)]
    assert (lines[0] == lines[1]) == same(one, two)


def test_what_json_cannot_hold_is_named_and_never_by_its_address():
    loop = Note("x")
    loop.pad = loop
    odd = {
        "set": {"b", "a"},
        "when": datetime.datetime(2026, 3, 2, 9, tzinfo=datetime.UTC),
        "nan": math.nan,
        "half": "\ud800",
        "number": Decimal("1.5"),
        "loop": loop,
    }
    assert plain(odd) == {
        "set": ["a", "b"],
        "when": "2026-03-02T09:00:00+00:00",
        "nan": "nan",
        "half": "?",
        "number": {"$class": "Decimal"},
        "loop": {"text": "x", "pad": {"$ref": "Note"}},
    }
