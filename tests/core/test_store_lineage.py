"""Both questions of lineage are one query each: which rows used a tool, where a row came from."""

import pytest

from synth.core.store import Workspace, insert, now

AT = now()
JSON = "{}"


def version(number, spec):
    return {
        "tool": "pypi:notes/add_note",
        "version": number,
        "spec": spec,
        "definition": spec,
        "description": f"version {number}",
        "parameters": JSON,
        "returns": None,
        "annotations": JSON,
        "effect": "write",
        "effect_source": "inferred",
        "provenance": JSON,
        "document": JSON,
        "raw": JSON,
        "raw_hash": spec,
        "semantic_hash": "same",
        "description_hash": spec,
        "flags": "[]",
        "package_version": "1.0",
        "crawl": f"crawl-{number}",
        "seen_at": AT,
    }


def tool():
    return {
        "tool": "pypi:notes/add_note",
        "server": "pypi:notes",
        "name": "add_note",
        "function_name": "add_note",
        "application": None,
        "category": None,
        "version": 2,
        "listed": True,
        "first_seen": AT,
        "last_seen": AT,
    }


def episode(run, name):
    return {
        "run": run,
        "episode": name,
        "task": "t",
        "agent": "a",
        "world": "notes",
        "kind": "single_write",
        "real": True,
        "seed": 1,
        "stop": "user_done",
        "fault": None,
        "error": None,
        "players": JSON,
        "usage": JSON,
        "diff": "[]",
        "messages": "[]",
    }


def step(run, name):
    return {
        "run": run,
        "episode": name,
        "position": 0,
        "message": 2,
        "name": "add_note",
        "arguments": "{not json",
        "ok": True,
        "error": None,
        "outcome": "success",
        "effect": "write",
        "state": None,
        "content": "1 notes",
    }


def verdict(run, name, passed):
    return {
        "run": run,
        "episode": name,
        "passed": passed,
        "reason": "accepted" if passed else "state",
        "fault": None,
        "results": "[]",
    }


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    workspace = Workspace(tmp_path_factory.mktemp("lineage"))
    tables = {
        "tool_versions": [version(1, "spec-1"), version(2, "spec-2")],
        "tools": [tool()],
        "agent_tools": [{"agent": "a", "position": 0, "name": "add_note"}],
        "run_tools": [
            {"run": run, "application": "notes", "name": "add_note", "spec": f"spec-{run[-1]}"}
            for run in ("run-1", "run-2")
        ],
        "episodes": [episode("run-1", "e1"), episode("run-2", "e2"), episode("run-2", "e3")],
        "steps": [step("run-1", "e1"), step("run-2", "e2")],
        "verdicts": [
            verdict("run-1", "e1", True),
            verdict("run-2", "e2", True),
            verdict("run-2", "e3", None),
        ],
        "export_rows": [{"export": "x", "row": 7, "run": "run-2", "episode": "e2"}],
        "training_runs": [
            {
                "training": "sft-1",
                "method": "sft",
                "model": "tiny",
                "export": "x",
                "config": None,
                "report": None,
                "started_at": AT,
            }
        ],
        "checkpoints": [
            {
                "checkpoint": "sft-1@100",
                "training": "sft-1",
                "step": 100,
                "path": "checkpoints/sft-1",
                "created_at": AT,
            }
        ],
    }
    with workspace.write() as con:
        for table, rows in tables.items():
            insert(con, table, rows)
    return workspace


def ask(workspace, query):
    with workspace.read() as con:
        return con.execute(query).fetchall()


@pytest.mark.claim("b10")
def test_which_rows_and_which_model_used_version_2_of_a_tool(workspace):
    query = """SELECT run, episode, calls, passed, export, row, base_model, checkpoint
               FROM tool_usage WHERE tool = 'pypi:notes/add_note' AND version = 2
               ORDER BY episode"""
    assert ask(workspace, query) == [
        ("run-2", "e2", 1, True, "x", 7, "tiny", "sft-1@100"),
        ("run-2", "e3", 0, None, None, None, None, None),
    ]


def test_from_which_server_a_row_came(workspace):
    query = """SELECT server, version, package_version, crawl FROM row_origin
               WHERE run = 'run-1' AND episode = 'e1'"""
    assert ask(workspace, query) == [("pypi:notes", 1, "1.0", "crawl-1")]


@pytest.mark.claim("b10")
def test_a_description_that_changed_in_an_unchanged_package_stands_out(workspace):
    query = "SELECT version, description_changed, schema_changed, in_place FROM changes"
    assert ask(workspace, query) == [(2, True, False, True)]


def test_an_episode_nobody_judged_counts_neither_as_passed_nor_as_failed(workspace):
    query = "SELECT run, episodes, passed, failed, not_judged FROM funnel ORDER BY run"
    assert ask(workspace, query) == [("run-1", 1, 1, 0, 0), ("run-2", 2, 1, 0, 1)]
