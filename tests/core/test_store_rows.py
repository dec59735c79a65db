"""Rows on their way into the registry: many at once, odd ones, ones that are there."""

import time

import duckdb
import pytest

from synth.core.store import insert, now


@pytest.mark.parametrize("conflict", ["", "nothing", "replace"])
def test_many_rows_arrive_as_they_were_given(workspace, conflict):
    rows = [
        {
            "source": f"c{n}",
            "column": "sœur 😀" if n % 2 else "\ud800",
            "target": '{"a": [1, null]}',
            "parameter": "p",
        }
        for n in range(5001)
    ]
    with workspace.write() as con:
        assert insert(con, "tool_edges", iter(rows), conflict=conflict) == 5001
    with workspace.read() as con:
        found = con.execute('SELECT source, "column", target FROM tool_edges').fetchall()
    assert sorted(found) == sorted(
        (row["source"], row["column"].replace("\ud800", "\ufffd"), row["target"]) for row in rows
    )


def test_all_kinds_of_values_and_empty_columns_arrive(workspace):
    at = now()
    row = {
        "run": "r",
        "path": "p",
        "fingerprint": None,
        "config": '{"b": 1.5, "a": null}',
        "report": None,
        "ingested_at": at,
    }
    for name, conflict in (("one", ""), ("two", "nothing")):
        with workspace.write() as con:
            insert(con, "runs", [row | {"run": name}], conflict=conflict)
    with workspace.read() as con:
        found = con.execute("SELECT * FROM runs ORDER BY run").fetchall()
        typed = con.execute("SELECT config->>'b', typeof(config) FROM runs").fetchall()
    assert found == [
        ("one", "p", None, '{"b": 1.5, "a": null}', None, at),
        ("two", "p", None, '{"b": 1.5, "a": null}', None, at),
    ]
    assert typed == [("1.5", "JSON")] * 2


def test_on_a_conflict_the_old_or_the_new_row_stays(workspace):
    with workspace.write() as con:
        insert(con, "categories", [{"category": "a", "description": "old"}])
        insert(con, "categories", [{"category": "a", "description": "new"}], conflict="nothing")
        assert con.execute("FROM categories").fetchall() == [("a", "old")]
        insert(con, "categories", [{"category": "a", "description": "new"}], conflict="replace")
        assert con.execute("FROM categories").fetchall() == [("a", "new")]


def test_what_is_no_json_is_refused_in_a_json_column(workspace):
    row = {"toolset": "t", "application": "a", "tools": "{not json"}
    with workspace.write() as con, pytest.raises(duckdb.Error):
        insert(con, "toolsets", [row])


def test_bulk_insert_is_no_loop_over_rows(workspace):
    rows = [{"crawl": f"c{n}", "tool": "t", "version": n} for n in range(100_000)]
    with workspace.write() as con:
        begun = time.process_time()
        insert(con, "tool_sightings", rows)
        spent = time.process_time() - begun
    assert spent < 5  # 0.5 s measured; one statement a row takes 75 s
