"""The questions of the registry's page run, and give the right answers."""

import json
import re
from pathlib import Path

import pytest

from synth.core.store import Workspace, insert
from tool_registry import browse
from tool_registry.ingest import ingest, prepare
from tool_registry.ledger import Entry, facts_of
from tool_registry.listing import Listing
from tool_registry.source import Target

PAGE = Path(__file__).parents[2] / "docs" / "registry.md"
QUESTIONS = re.findall(r"^(\S[^\n]*\?)\n```sql\n([^`]*);\n```", PAGE.read_text("utf-8"), re.M)
SERVER = "pypi:mcp-server-git"


def listed(number, server, *tools, outcome="ok", reason=None):
    """What a crawl of a server brought."""
    raw = [
        {"name": n, "description": d, "inputSchema": {"type": "object", "properties": {}}}
        for n, d in tools
    ]
    return prepare(
        Entry(
            crawl=f"crawl-{number}",
            target=Target(server=server, source="pypi").record(),
            started_at=f"2026-01-{number:02d}T10:00:00",
            seconds=1.0,
            outcome=outcome,
            reason=reason,
            facts=facts_of(Listing()),
            flags=[],
            tools=[json.dumps(tool) for tool in raw],
        )
    )


@pytest.fixture(scope="module")
def crawled(tmp_path_factory):
    """Two crawls of a server, poisoned between them, one that failed, and a row that it is in."""
    workspace = Workspace(tmp_path_factory.mktemp("crawled"))
    log, diff = ("git_log", "Show the commits of a repository."), ("git_diff", "Show changes.")
    with workspace.write() as con:
        found = [
            listed(1, SERVER, log, diff),
            listed(2, "pypi:broken", outcome="timeout", reason="no answer in 30 s"),
            listed(3, SERVER, ("git_log", "Show the commits of a repository to me."), diff),
            listed(4, "pypi:other-git", ("log", "List the commits of a repository, oldest first.")),
        ]
        ingest(con, found)
        (spec,) = con.execute(
            "SELECT spec FROM tool_versions WHERE tool = $1 AND version = 2", [f"{SERVER}/git_log"]
        ).fetchall()[0]
        about = {"application": "git", "name": "git_log", "spec": spec}
        insert(con, "run_tools", [{"run": "run-1"} | about])
        insert(con, "agent_tools", [{"agent": "agent-1", "position": 0, "name": "git_log"}])
        con.execute(
            "INSERT INTO episodes VALUES ('run-1', 'episode-1', 'task', 'agent-1', 'git', 'live', "
            "true, 1, 'done', NULL, NULL, '{}', '{}', '[]', '[]')"
        )
        con.execute("INSERT INTO export_rows VALUES ('export-1', 7, 'run-1', 'episode-1')")
        con.execute(
            "INSERT INTO training_runs VALUES ('training-1', 'sft', 'small', 'export-1', NULL, "
            "NULL, now())"
        )
        con.execute("INSERT INTO checkpoints VALUES ('model-1', 'training-1', 10, 'path', now())")
    return workspace


def test_there_are_ten_questions():
    assert len(QUESTIONS) == 10


def asked(workspace, words):
    """Answer the one question that has these words."""
    (query,) = [query for question, query in QUESTIONS if words in question]
    answer = browse.sql(workspace, query)
    assert not answer.truncated
    return answer.rows


def test_which_mail_tools_delete_under_which_licences_and_how_good_they_are(real):
    rows = asked(real, "e-mail tools can delete")
    tools = [row[0].rpartition("#")[2] for row in rows]
    assert "gmail/delete_email" in tools
    assert len(rows) == 16
    known = browse.sql(real, "SELECT tool, licence, quality, quality_reasons FROM catalogue "
                       "WHERE effect = 'destructive' AND category = 'communication'")  # fmt: skip
    assert set(rows) <= set(known.rows)


def test_what_there_is_of_each_category(real):
    rows = asked(real, "each category")
    assert sum(row[1] for row in rows) == 9_623
    assert {row[2] for row in rows} == {0}
    counted = dict(row[:2] for row in rows)
    one = browse.sql(real, "SELECT count(*) FROM tools WHERE category = 'finance' AND listed")
    assert counted["finance"] == one.rows[0][0] > 50


def test_which_servers_gave_no_list(crawled):
    assert asked(crawled, "gave no list") == (("pypi:broken", "timeout", "no answer in 30 s"),)


def test_which_descriptions_changed_in_an_unchanged_package(crawled):
    ((tool, seen, before, now),) = asked(crawled, "rug pull")
    assert (tool, str(seen)) == (f"{SERVER}/git_log", "2026-01-03 10:00:00")
    assert (before, now) == (
        "Show the commits of a repository.", "Show the commits of a repository to me.",
    )  # fmt: skip


def test_what_a_person_should_read_first(real):
    rows = asked(real, "before a model does")
    flagged = browse.stats(real)["flags"]
    assert sum("suspicious" in row[1] for row in rows) == flagged["suspicious"] > 0


def test_what_is_wrong_with_the_definitions_of_a_server(crawled):
    rows = asked(crawled, "of a server")
    assert ("git_diff", "a description of 2 words") in [(row[0], row[2]) for row in rows]
    assert {row[0] for row in rows} <= {"git_diff", "git_log"}
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)


def test_which_tools_several_servers_offer_word_for_word(real):
    rows = asked(real, "word for word")
    texts = dict(browse.sql(real, "SELECT tool, description FROM catalogue", limit=10_000).rows)
    sizes = [len(tools) for _, tools in rows]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] >= 2
    for _, tools in rows[:50]:
        assert len({" ".join(texts[tool].split()) for tool in tools}) == 1


def test_which_tools_are_most_like_one(crawled):
    (first, *_) = asked(crawled, "most like this one")
    assert first[0] == "pypi:other-git/log"
    assert 0 < first[1] < 1


def test_what_was_rejected_and_why(real):
    rows = asked(real, "was rejected")
    assert [row[:2] for row in rows] == [
        ("invalid_schema", 8), ("duplicate", 3), ("dangling_ref", 2),
    ]  # fmt: skip
    assert all(row[2] for row in rows)


def test_which_rows_and_models_a_poisoned_server_is_in(crawled):
    assert asked(crawled, "was poisoned") == (
        (f"{SERVER}/git_log", 2, "run-1", "episode-1", "export-1", 7, "model-1"),
    )
