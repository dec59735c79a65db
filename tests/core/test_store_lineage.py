"""Both questions of lineage are one query each: which rows used a tool, where a row came from."""

import pytest

from synth.core.store import Workspace, insert, now

AT = now()
JSON = "{}"
EVOLVED = [("annex", "descended"), ("branch", "descended")]


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


@pytest.fixture(scope="module")
def family(tmp_path_factory):
    """Tools of `library`, one agent of each; `branch` evolved from it, `annex` from that.

    A model that wrote `inn` was shown a crawled tool.
    """
    workspace = Workspace(tmp_path_factory.mktemp("family"))
    worlds = {
        "library": ("lend", "find"),
        "branch": ("lend", "open"),
        "annex": ("open",),
        "inn": ("book",),
    }
    tools, versions = [tool()], [version(1, "spec-1"), version(2, "spec-2")]
    agents, shown, played, exported = [], [], [], []
    for number, (world, names) in enumerate(worlds.items()):
        for position, name in enumerate(names):
            key, spec = f"application:{world}/{name}", f"spec-{world}-{name}"
            server = {"tool": key, "server": f"application:{world}", "name": name}
            tools.append({**tool(), **server, "function_name": name, "application": world})
            versions.append(version(1, spec) | {"tool": key})
            agents.append({"agent": world, "position": position, "name": name})
            shown.append({"run": "r", "application": world, "name": name, "spec": spec})
        played.append(episode("r", f"e-{world}") | {"world": world, "agent": world})
        exported.append({"export": "x", "row": number, "run": "r", "episode": f"e-{world}"})
    called = step("r", "e-library") | {"name": "find"}
    change = {
        "operator": "breadth",
        "kind": "breadth",
        "words": "",
        "tools": [],
        "generation": 1,
        "seed": 0,
    }
    tables = {
        "tools": tools, "tool_versions": versions, "agent_tools": agents, "run_tools": shown,
        "episodes": played, "steps": [called], "export_rows": exported,
        "ancestry": [
            {"application": child, "step": 0, "parents": [parent], **change}
            for child, parent in (
                ("branch", "library"), ("annex", "branch"), ("inn", "pypi:notes/add_note"),
            )
        ],
    }  # fmt: skip
    with workspace.write() as con:
        for table, rows in tables.items():
            insert(con, table, rows)
    return workspace


@pytest.mark.parametrize(
    ("which", "rows"),
    [
        ("application:library/find", [*EVOLVED, ("library", "called")]),
        ("application:library/lend", [*EVOLVED, ("library", "shown")]),
        ("application:library", [*EVOLVED, ("library", "called")]),
        ("library", [*EVOLVED, ("library", "called")]),
        ("branch", [("annex", "descended"), ("branch", "shown")]),
        ("application:annex/open", [("annex", "shown")]),
        ("pypi:notes/add_note", [("inn", "descended")]),
        ("pypi:notes", [("inn", "descended")]),
        ("application:nowhere", []),
    ],
)  # fmt: skip
def test_a_poisoned_tool_server_or_application_leads_to_every_row_it_reached(family, which, rows):
    query = f"SELECT episode, how FROM affected('{which}') WHERE export = 'x' ORDER BY episode"
    assert ask(family, query) == [(f"e-{world}", how) for world, how in rows]


def test_a_poisoned_crawled_tool_leads_to_what_was_trained_on_its_rows(workspace):
    query = "SELECT run, episode, row, how, tools, checkpoint FROM affected('pypi:notes')"
    tools = ["pypi:notes/add_note"]
    assert ask(workspace, query) == [
        ("run-1", "e1", None, "called", tools, None),
        ("run-2", "e2", 7, "called", tools, "sft-1@100"),
        ("run-2", "e3", None, "shown", tools, None),
    ]


def test_a_row_leads_back_to_the_tools_of_its_prompt(family):
    query = "SELECT tool, calls FROM lineage('e-library') ORDER BY tool"
    assert ask(family, query) == [("application:library/find", 1), ("application:library/lend", 0)]
