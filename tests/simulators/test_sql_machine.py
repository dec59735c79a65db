"""Random lives of environments, against a model that keeps whole tables in Python.

The model never looks at changesets: it reads all rows after each step. What it checks: a failed
call changes nothing, the diff is the difference to the rows at reset, restore and fork give the
same rows, the same identifiers and the same answers, and undoing leaves nothing.
"""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from simulators.sql.engine import Engine
from simulators.sql.load import load_application

pytestmark = pytest.mark.claim("k2-state")

ENGINE = Engine(load_application(Path(__file__).parent / "data" / "library.yaml"))
IGNORED = {("loans", "note")}
CALLS = st.one_of(
    st.tuples(
        st.just("lend_book"),
        st.fixed_dictionaries(
            {
                "book_id": st.sampled_from(["B1", "B2", "B3", "B4", "B99"]),
                "member_id": st.sampled_from(["M001", "M002", "M003"]),
            },
            optional={"note": st.sampled_from(["a", "L31"])},
        ),
    ),
    st.tuples(
        st.just("return_loans"),
        st.fixed_dictionaries(
            {
                "loan_ids": st.lists(
                    st.sampled_from(["L1", "L2", "L3", "L31", "L32", "L33"]), max_size=3
                )
            }
        ),
    ),
    st.tuples(
        st.just("extend_loan"),
        st.fixed_dictionaries(
            {"loan_id": st.sampled_from(["L1", "L31", "L32"]), "days": st.integers(0, 3)}
        ),
    ),
    st.tuples(
        st.just("place_hold"),
        st.fixed_dictionaries(
            {"book_id": st.sampled_from(["B1", "B2"]), "member_id": st.just("M001")}
        ),
    ),
    st.tuples(
        st.just("change_email"),
        st.fixed_dictionaries(
            {
                "member_id": st.sampled_from(["M001", "M002"]),
                "email": st.sampled_from(["a@b.c", "d@e.f", "nonsense"]),
            }
        ),
    ),
    st.tuples(st.just("waive_fees"), st.fixed_dictionaries({"member_id": st.just("M001")})),
    st.tuples(st.just("list_loans"), st.fixed_dictionaries({"member_id": st.just("M001")})),
    st.tuples(st.just("no_such_tool"), st.just({})),
)


def rows(environment):
    """Return every row of every table, by table and id."""
    return {
        (table, row["id"]): row
        for table in ENGINE.tables
        for row in environment.query(f"SELECT * FROM {table}")
    }


def plain(row, table):
    return {
        name: int(value) if isinstance(value, bool) else value
        for name, value in row.items()
        if (table, name) not in IGNORED
    }


def difference(before, after):
    """Return what changed, as the lines of a diff without renaming, as a sorted list of objects."""
    out = []
    for table, key in before.keys() | after.keys():
        old, new = before.get((table, key)), after.get((table, key))
        if old is None:
            out.append([table, "insert", None, plain(new, table)])
        elif new is None:
            out.append([table, "delete", plain(old, table), None])
        else:
            old, new = plain(old, table), plain(new, table)
            changed = [name for name in old if old[name] != new[name]]
            if changed:
                names = ["id", *changed]
                out.append(
                    [table, "update", {n: old[n] for n in names}, {n: new[n] for n in names}]
                )
    return out


def shape(lines):
    """Blank out generated identifiers (and their names), which the model does not rename."""

    def blank(row):
        return row and {
            k: "~" if isinstance(v, str) and (v[:1] == "~" or is_new(v)) else v
            for k, v in row.items()
        }

    return sorted(json.dumps([t, op, blank(a), blank(b)], sort_keys=True) for t, op, a, b in lines)


def is_new(text):
    return text[:1] in "LH" and text[1:].isdigit() and (text[0] == "H" or int(text[1:]) > LAST_LOAN)


def fresh(seed=1):
    environment = ENGINE.environment()
    environment.reset_now(seed)
    return environment


LAST_LOAN = max(int(row["id"][1:]) for row in fresh().query("SELECT id FROM loans"))


class Life(RuleBasedStateMachine):
    """One environment, its forks and its snapshots."""

    @initialize()
    def start(self):
        self.live = fresh()
        self.base = rows(self.live)
        self.calls = []
        self.kept = []

    @rule(call=CALLS)
    def call(self, call):
        before = rows(self.live)
        result = self.live.call_now(*call)
        after = rows(self.live)
        if result.ok and call[0] != "list_loans":
            self.calls.append(call)
        else:
            assert after == before
        assert json.loads(result.content).get("error") == (
            result.error.code if result.error else None
        )

    @rule()
    def keep(self):
        self.kept.append((self.live.snapshot_now(), rows(self.live), list(self.calls)))

    @rule(pick=st.integers(0, 9), elsewhere=st.booleans())
    def go_back(self, pick, elsewhere):
        if not self.kept:
            return
        state, expected, calls = self.kept[pick % len(self.kept)]
        if elsewhere:
            self.live = fresh(2)
        self.live.restore_now(state)
        self.calls = list(calls)
        assert rows(self.live) == expected

    @rule(call=CALLS)
    def fork(self, call):
        before, twin = rows(self.live), self.live.fork_now()
        assert twin.diff_now() == self.live.diff_now()
        answer = twin.call_now(*call)
        assert rows(self.live) == before
        assert self.live.call_now(*call) == answer
        assert rows(self.live) == rows(twin)
        if answer.ok and call[0] != "list_loans":
            self.calls.append(call)
        self.live = twin

    @rule(seed=st.sampled_from([1, 1, 2]))
    def reset(self, seed):
        self.live.reset_now(seed)
        self.live.reset_now(1)
        self.calls.clear()
        assert rows(self.live) == self.base

    @rule()
    def replay(self):
        other = fresh()
        for name, arguments in self.calls:
            assert other.call_now(name, arguments).ok
        assert rows(other) == rows(self.live)
        assert other.diff_now() == self.live.diff_now()
        other.close_now()

    @invariant()
    def the_diff_is_the_difference_to_the_rows_at_reset(self):
        found = self.live.diff_now()
        assert list(found) == sorted(found)
        lines = [json.loads(line) for line in found]
        assert shape(lines) == shape(difference(self.base, rows(self.live)))


LIVES = settings(
    max_examples=20,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)


def test_any_life_of_an_environment_keeps_its_promises():
    run_state_machine_as_test(Life, settings=LIVES)
