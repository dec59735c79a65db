"""State diffs: canonical lines that are equal exactly when the states are the same."""

import copy
import json
import random

import pytest

from simulators.sql.engine import Engine
from synth.core.application import Application

WORLD = {
    "application": "graph",
    "category": "test",
    "summary": "Rows that refer to rows.",
    "clock": "2026-03-02T09:00:00",
    "schema": """
        CREATE TABLE nodes (
          id TEXT PRIMARY KEY, label TEXT, next_id TEXT REFERENCES nodes, size REAL, note TEXT
        ) STRICT;
        CREATE TABLE marks (id TEXT PRIMARY KEY, node_id TEXT REFERENCES nodes) STRICT;
    """,
    "seed": {
        "nodes": {"rows": [{"id": "S1", "label": "s"}, {"id": "S2", "label": "t", "size": 0.1}]},
        "marks": {"rows": [{"id": "K1"}, {"id": "K2"}]},
    },
    "compare": {"nodes.note": "ignore"},
    "policy": "none",
    "tools": {},
}
TEXT = {"type": "string", "optional": True}


def tool(sql, **parameters):
    return {
        "description": "x",
        "effect": "write",
        "parameters": parameters or dict.fromkeys(("id", "to", "label", "note"), TEXT),
        "steps": [{"write": sql}],
    }


def engine(replacing=None, **changes):
    value = copy.deepcopy(WORLD) | changes
    value["tools"] = {
        "add": tool(
            "INSERT INTO nodes (id, label, next_id, note) VALUES (next_id('N'), :label, :to, :note)"
        ),
        "label": tool("UPDATE nodes SET label = :label, note = :note WHERE id = :id"),
        "link": tool("UPDATE nodes SET next_id = :to WHERE id = :id"),
        "mark": tool("UPDATE marks SET node_id = :to WHERE id = :id"),
        "drop": tool("DELETE FROM nodes WHERE id = :id"),
        "rename": tool("UPDATE nodes SET id = :to WHERE id = :id"),
        "size": tool(
            "UPDATE nodes SET size = :size WHERE id = :id", id=TEXT, size={"type": "number"}
        ),
        "blow": tool("UPDATE nodes SET size = 9e999"),
        "insert": tool("INSERT INTO nodes (id, label) VALUES (:id, :label)"),
    } | ({"replacing": replacing} if replacing else {})
    return Engine(Application.model_validate(value))


GRAPH = engine()


def played(*calls, on=GRAPH):
    environment = on.environment()
    environment.reset_now(0)
    for name, arguments in calls:
        assert environment.call_now(name, arguments).ok
    return environment


def diff(*calls, on=GRAPH):
    return played(*calls, on=on).diff_now()


def add(label=None, to=None, note=None):
    given = {"label": label, "to": to, "note": note}
    return "add", {key: value for key, value in given.items() if value is not None}


def test_a_line_is_canonical_json_of_table_operation_before_and_after():
    lines = diff(
        ("label", {"id": "S1", "label": "ü"}),
        ("drop", {"id": "S2"}),
        ("insert", {"id": "S3", "label": "new"}),
        ("mark", {"id": "K1", "to": "S1"}),
    )
    assert lines == (
        '["marks","update",{"id":"K1","node_id":null},{"id":"K1","node_id":"S1"}]',
        '["nodes","delete",{"id":"S2","label":"t","next_id":null,"size":0.1},null]',
        '["nodes","insert",null,{"id":"S3","label":"new","next_id":null,"size":null}]',
        '["nodes","update",{"id":"S1","label":"s"},{"id":"S1","label":"ü"}]',
    )


def test_what_was_undone_leaves_nothing():
    assert diff(("label", {"id": "S1", "label": "x"}), ("label", {"id": "S1", "label": "s"})) == ()
    assert diff(("insert", {"id": "S3"}), ("drop", {"id": "S3"})) == ()
    back = [("drop", {"id": "S1"}), ("insert", {"id": "S1", "label": "s"})]
    assert diff(*back) == ()


def test_only_the_net_change_counts():
    assert diff(
        ("label", {"id": "S1", "label": "x"}), ("label", {"id": "S1", "label": "y"})
    ) == diff(("label", {"id": "S1", "label": "y"}))
    assert diff(
        ("insert", {"id": "S3", "label": "x"}), ("label", {"id": "S3", "label": "y"})
    ) == diff(("insert", {"id": "S3", "label": "y"}))


def test_ignored_columns_are_absent_and_a_change_of_them_alone_is_none():
    assert diff(("label", {"id": "S1", "label": "s", "note": "said"})) == ()
    assert diff(add("a", note="one")) == diff(add("a", note="two"))
    assert "note" not in "".join(diff(add("a", note="one"), ("drop", {"id": "S1"})))
    noted = engine(compare={})
    assert diff(add("a", note="one"), on=noted) != diff(add("a", note="two"), on=noted)


def test_a_changed_key_is_a_deletion_and_an_insertion():
    kinds = [json.loads(line)[:2] for line in diff(("rename", {"id": "S2", "to": "S9"}))]
    assert kinds == [["nodes", "delete"], ["nodes", "insert"]]


def test_floats_are_written_in_full_and_infinity_is_complained_about():
    (line,) = diff(("size", {"id": "S1", "size": 0.1 + 0.2}))
    assert json.loads(line)[3] == {"id": "S1", "size": 0.30000000000000004}
    with pytest.raises(Exception, match="graph: the state is no JSON"):
        diff(("blow", {}))


# --- generated identifiers ---------------------------------------------------------------------


def test_the_order_of_independent_calls_does_not_count():
    assert diff(add("a"), add("b", to="S1")) == diff(add("b", to="S1"), add("a"))


def test_generated_ids_do_not_appear_and_given_ones_do():
    text = "".join(diff(add("a"), add("b", to="N1"), ("insert", {"id": "S3"})))
    assert "N1" not in text
    assert "N2" not in text
    assert '"S3"' in text


def test_an_identifier_that_was_given_out_and_dropped_does_not_shift_the_names():
    assert diff(add("x"), ("drop", {"id": "N1"}), add("a")) == diff(add("a"))


def test_two_equal_rows_stay_two_lines_with_two_names():
    lines = diff(add("a"), add("a"))
    assert len(lines) == 2
    assert len({json.loads(line)[3]["id"] for line in lines}) == 2
    assert lines != diff(add("a"))
    assert lines == diff(add("b"), add("a"), add("a"), ("drop", {"id": "N1"}))


def test_rows_that_refer_to_one_another_are_named_by_content():
    def pair(first, second):
        return [add(first), add(second, to="N1"), ("link", {"id": "N1", "to": "N2"})]

    assert diff(*pair("a", "b")) == diff(*pair("b", "a"))
    assert diff(*pair("a", "a")) != diff(*pair("a", "b"))
    assert len(diff(*pair("a", "a"))) == 2


def test_who_refers_to_which_of_two_equal_rows_counts():
    one_each = diff(
        add("a"), add("a"), ("mark", {"id": "K1", "to": "N1"}), ("mark", {"id": "K2", "to": "N2"})
    )
    crossed = diff(
        add("a"), add("a"), ("mark", {"id": "K1", "to": "N2"}), ("mark", {"id": "K2", "to": "N1"})
    )
    both_one = diff(
        add("a"), add("a"), ("mark", {"id": "K1", "to": "N1"}), ("mark", {"id": "K2", "to": "N1"})
    )
    other_one = diff(
        add("a"), add("a"), ("mark", {"id": "K1", "to": "N2"}), ("mark", {"id": "K2", "to": "N2"})
    )
    assert one_each == crossed
    assert both_one == other_one
    assert one_each != both_one


def ring(*lengths):
    """Equal rows in rings: colour refinement alone cannot tell 3 + 3 from 6."""
    calls, start = [], 1
    for length in lengths:
        calls += [add("r")] * length
        start += length
    start = 1
    for length in lengths:
        names = [f"N{start + n}" for n in range(length)]
        calls += [
            ("link", {"id": a, "to": b}) for a, b in zip(names, names[1:] + names[:1], strict=True)
        ]
        start += length
    return calls


def test_rings_of_equal_rows_are_told_apart():
    assert diff(*ring(3, 3)) != diff(*ring(6))
    assert diff(*ring(2, 4)) == diff(*ring(4, 2))


def test_any_numbering_of_a_random_graph_gives_the_same_diff():
    rng = random.Random(5)
    for _ in range(25):
        size = rng.randint(2, 6)
        labels = [rng.choice("ab") for _ in range(size)]
        links = [rng.randrange(size) if rng.random() < 0.7 else None for _ in range(size)]
        marks = [rng.randrange(size), rng.randrange(size)]

        def build(order, labels=labels, links=links, marks=marks):
            name = {node: f"N{n + 1}" for n, node in enumerate(order)}
            calls = [add(labels[node]) for node in order]
            calls += [
                ("link", {"id": name[node], "to": name[to]})
                for node, to in enumerate(links)
                if to is not None
            ]
            return calls + [
                ("mark", {"id": f"K{n + 1}", "to": name[m]}) for n, m in enumerate(marks)
            ]

        order = list(range(size))
        expected = diff(*build(order))
        for _ in range(3):
            rng.shuffle(order)
            assert diff(*build(order)) == expected


def test_another_graph_gives_another_diff():
    seen = {}
    for first in (None, "N1", "N2", "N3"):
        for second in (None, "N1", "N2", "N3"):
            calls = [add("a"), add("b"), add("c")]
            calls += [("link", {"id": "N1", "to": first})] if first else []
            calls += [("link", {"id": "N2", "to": second})] if second else []
            seen[first, second] = diff(*calls)
    assert len(set(seen.values())) == 16


def test_reset_to_the_same_seed_forgets_everything_an_episode_did():
    environment = played(add("a"), ("drop", {"id": "S1"}), ("label", {"id": "S2", "label": "z"}))
    environment.reset_now(0)
    assert environment.diff_now() == ()
    environment.call_now("mark", {"id": "K1", "to": "S1"})
    assert environment.diff_now() == diff(("mark", {"id": "K1", "to": "S1"}))


def test_a_long_life_of_resets_keeps_the_diff_right():
    environment = GRAPH.environment()
    expected = diff(("label", {"id": "S1", "label": "x"}))
    for turn in range(450):
        environment.reset_now(0)
        environment.call_now("insert", {"id": f"T{turn}"})
        environment.reset_now(0)
        environment.call_now("label", {"id": "S1", "label": "x"})
    assert environment.diff_now() == expected


REPLACING = engine(
    schema="""
        CREATE TABLE nodes (
          id TEXT PRIMARY KEY, label TEXT UNIQUE, next_id TEXT, size REAL, note TEXT
        ) STRICT;
        CREATE TABLE marks (
          id TEXT PRIMARY KEY, node_id TEXT REFERENCES nodes ON DELETE CASCADE
        ) STRICT;
    """,
    replacing=tool("INSERT OR REPLACE INTO nodes (id, label, size) VALUES (:id, :label, 1)"),
)


def test_rows_that_a_replacement_or_a_cascade_removes_are_in_the_diff():
    """SQLite removes these rows on its own, without a statement of ours that names them."""
    linked = played(("mark", {"id": "K1", "to": "S2"}), on=REPLACING)
    assert linked.call_now("replacing", {"id": "S1", "label": "t"}).ok
    assert [json.loads(line)[:3] for line in linked.diff_now()] == [
        ["marks", "delete", {"id": "K1", "node_id": None}],
        ["nodes", "delete", {"id": "S2", "label": "t", "next_id": None, "size": 0.1}],
        ["nodes", "update", {"id": "S1", "label": "s", "size": None}],
    ]
    twin = linked.fork_now()
    assert twin.diff_now() == linked.diff_now()
    assert twin.query("SELECT * FROM marks") == [{"id": "K2", "node_id": None}]


def test_a_replacement_that_changes_nothing_leaves_no_diff():
    calls = [("size", {"id": "S1", "size": 1}), ("replacing", {"id": "S1", "label": "s"})]
    once = diff(calls[0], on=REPLACING)
    assert len(once) == 1
    assert diff(*calls, on=REPLACING) == once
