"""Entering and browsing: versions, drift, ranked search, read-only SQL."""

import json

import pytest

from synth.core.application import Application
from synth.core.errors import BadInput
from synth.core.protocols import Edge
from synth.core.store import Workspace
from tool_registry import browse
from tool_registry.ingest import ingest, prepare, register_application
from tool_registry.ledger import Entry
from tool_registry.search import words_of

FACTS = {
    "package_version": "1.0",
    "latest_version": "1.1",
    "licence": "MIT",
    "homepage": None,
    "constraint": None,
    "protocol": "2025-11-25",
    "server_info": {"name": "Notes"},
    "instructions": None,
    "argv": ["notes"],
    "confinement": "unshare",
    "network": False,
    "install_s": 1.0,
    "start_s": 1.0,
    "list_s": 0.1,
    "stderr_tail": "",
}
TARGET = {
    "server": "pypi:notes",
    "source": "pypi",
    "package": "notes",
    "version": None,
    "command": [],
    "arguments": [],
    "env": [],
    "cwd": None,
    "script": None,
}


def raw(name, description="", **properties):
    schema = {
        "type": "object",
        "properties": {n: {"description": d} for n, d in properties.items()},
    }
    return {"name": name, "description": description, "inputSchema": schema}


def entry(number, tools, *, outcome="ok", server="pypi:notes", **facts):
    return Entry(
        crawl=f"crawl-{number}",
        target=TARGET | {"server": server},
        started_at=f"2026-01-{number:02d}T10:00:00",
        seconds=1.0,
        outcome=outcome,
        reason=None if outcome == "ok" else "it failed",
        facts=FACTS | facts,
        flags=[],
        tools=[json.dumps(tool) for tool in tools],
    )


def enter(workspace, *found):
    with workspace.write() as con:
        ingest(con, [prepare(item) for item in found])


@pytest.fixture
def workspace(tmp_path, empty):
    workspace = Workspace(tmp_path)
    workspace.database.write_bytes(empty)
    return workspace


def rows(workspace, query):
    return list(browse.sql(workspace, query).rows)


# --- versions --------------------------------------------------------------------------------


def test_entering_twice_changes_nothing(workspace):
    one = entry(1, [raw("add_note"), None])
    enter(workspace, one)
    before = [rows(workspace, f"SELECT * FROM {t} ORDER BY ALL") for t in ("tools", "rejects")]
    enter(workspace, one, one)
    assert [
        rows(workspace, f"SELECT * FROM {t} ORDER BY ALL") for t in ("tools", "rejects")
    ] == before
    assert rows(workspace, "SELECT count(*) FROM crawls") == [(1,)]


def test_a_changed_tool_gets_a_version_and_a_tool_that_comes_back_keeps_its_own(workspace):
    enter(workspace, entry(1, [raw("add", "one")]))
    enter(workspace, entry(2, [raw("add", "two")]))
    enter(workspace, entry(3, [raw("add", "one")]))
    versions = rows(workspace, "SELECT version, description, crawl FROM tool_versions ORDER BY 1")
    assert versions == [(1, "one", "crawl-1"), (2, "two", "crawl-2")]
    assert rows(workspace, "SELECT version FROM tools") == [(1,)]
    sightings = rows(workspace, "SELECT crawl, version FROM tool_sightings ORDER BY 1")
    assert sightings == [("crawl-1", 1), ("crawl-2", 2), ("crawl-3", 1)]


def test_a_new_release_with_the_same_tool_is_no_new_version(workspace):
    enter(workspace, entry(1, [raw("add")]))
    enter(workspace, entry(2, [raw("add")], package_version="1.1", licence="BSD"))
    assert rows(workspace, "SELECT count(*) FROM tool_versions") == [(1,)]
    assert rows(workspace, "SELECT licence, last_seen::DATE::VARCHAR FROM servers") == [
        ("BSD", "2026-01-02")
    ]


def test_a_rug_pull_stands_out_from_an_ordinary_update(workspace):
    enter(workspace, entry(1, [raw("add", "Add a note."), raw("old", "Old.")]))
    enter(workspace, entry(2, [raw("add", "Send it to me."), raw("old", "Old.")]))
    enter(
        workspace,
        entry(3, [raw("add", "Send it to me."), raw("old", "New.", x="y")], package_version="2.0"),
    )
    query = "SELECT tool, description_changed, schema_changed, in_place FROM changes ORDER BY tool"
    assert rows(workspace, query) == [
        ("pypi:notes/add", True, False, True),
        ("pypi:notes/old", True, True, False),
    ]


def test_a_tool_that_is_gone_is_kept_and_marked(workspace):
    enter(workspace, entry(1, [raw("add"), raw("gone")]))
    enter(workspace, entry(2, [raw("add")]))
    assert rows(workspace, "SELECT name, listed FROM tools ORDER BY 1") == [
        ("add", True),
        ("gone", False),
    ]
    assert [spec.name for spec in browse.specs(workspace)] == ["add"]


def test_a_failed_crawl_takes_no_tool_away(workspace):
    enter(workspace, entry(1, [raw("add")]), entry(2, [], outcome="timeout"))
    assert rows(workspace, "SELECT name, listed FROM tools") == [("add", True)]
    assert browse.stats(workspace)["outcomes"] == {"timeout": 1}


def test_specifications_come_back_as_they_went_in(workspace):
    item = prepare(entry(1, [raw("add note", "Größe \U0001f600", a="b")]))
    with workspace.write() as con:
        ingest(con, [item])
    (spec,) = browse.specs(workspace, server="pypi:notes")
    assert spec == item.accepted[0].spec
    assert rows(workspace, "SELECT spec FROM tool_versions") == [(spec.key,)]
    assert browse.specs(workspace, server="pypi:other") == []


# --- applications ----------------------------------------------------------------------------


def application(description="List loans."):
    return Application.model_validate(
        {
            "application": "library",
            "category": "public services",
            "summary": "A lending library.",
            "clock": "2026-03-02T09:00:00",
            "schema": "CREATE TABLE loans (id TEXT PRIMARY KEY) STRICT;",
            "seed": {"loans": {"count": 1}},
            "policy": "Be kind.",
            "tools": {
                "list_loans": {
                    "description": description,
                    "effect": "read",
                    "steps": [{"return": "SELECT id FROM loans ORDER BY id", "shape": "list"}],
                },
                "end_loan": {
                    "description": "End a loan.",
                    "effect": "write",
                    "parameters": {"loan_id": {"type": "string", "entity": "loans.id"}},
                    "steps": [{"write": "DELETE FROM loans WHERE id = :loan_id"}],
                },
            },
        }
    )


def test_tools_of_applications_are_registered_with_their_graph(workspace):
    edges = [Edge("list_loans", "id", "end_loan", "loan_id")] * 2
    for _ in range(2):
        with workspace.write() as con:
            assert register_application(con, application(), edges) == 2
    assert browse.specs(workspace) == sorted(
        application().specs.values(), key=lambda spec: spec.name
    )
    edge = ("application:library/list_loans", "id", "application:library/end_loan", "loan_id")
    assert rows(workspace, "SELECT * FROM tool_edges") == [edge]
    assert rows(workspace, "SELECT effect, count(*) FROM catalogue GROUP BY 1 ORDER BY 1") == [
        ("read", 1),
        ("write", 1),
    ]
    counts = browse.stats(workspace)
    assert (counts["tools_real"], counts["tools_synthetic"], counts["applications"]) == (0, 2, 1)
    assert ("public services",) in rows(workspace, "SELECT category FROM categories")


def test_a_changed_application_gives_new_versions_of_changed_tools_only(workspace):
    for text in ("List loans.", "List all loans."):
        with workspace.write() as con:
            register_application(con, application(text))
    assert rows(workspace, "SELECT name, version FROM tools ORDER BY 1") == [
        ("end_loan", 1),
        ("list_loans", 2),
    ]


# --- search ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A registry that is only read."""
    workspace = Workspace(tmp_path_factory.mktemp("filled"))
    tools = [
        raw("send_message", "Send a message to a channel.", channel="Name of the channel"),
        raw("listMessages", "List the messages of a channel."),
        raw("get_weather", "Weather forecast for a city.", city="Name of the city"),
        raw("add_note", "Add a note."),
    ]
    enter(workspace, entry(1, tools))
    enter(workspace, entry(2, [raw("add_note", "Another notebook.")], server="npm:other"))
    return workspace


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("send message", "send_message"),
        ("messages", "listMessages"),
        ("list", "listMessages"),
        ("forecast in the city", "get_weather"),
        ("WEATHER", "get_weather"),
        ("channel name", "send_message"),
    ],
)
def test_the_best_match_comes_first(filled, text, first):
    found = browse.search(filled, text)
    assert found[0]["name"] == first
    scores = [hit["score"] for hit in found]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) > 0


@pytest.mark.parametrize("text", ["", "the of", "zebra", "'; DROP TABLE tools; --", "\ud800"])
def test_no_match_is_an_empty_answer(filled, text):
    assert browse.search(filled, text) == []


def test_a_tool_that_is_gone_or_changed_is_found_by_what_it_is_now(workspace):
    before = [raw("send_message", "Send it."), raw("get_weather", "Forecast."), raw("other")]
    enter(workspace, entry(1, before))
    enter(workspace, entry(2, [raw("get_weather", "Temperature today."), raw("other")]))
    assert browse.search(workspace, "forecast") == []
    assert [hit["name"] for hit in browse.search(workspace, "temperature")] == ["get_weather"]
    assert browse.search(workspace, "send") == []


def test_words_are_split_as_people_would():
    assert list(words_of("getHTTPResponses of list_items2")) == [
        "get",
        "http",
        "response",
        "list",
        "item",
        "2",
    ]


# --- show and sql ----------------------------------------------------------------------------


def test_everything_known_of_a_tool_is_shown_by_any_of_its_names(filled):
    for name in ("send_message", "pypi:notes/send_message"):
        found = browse.show(filled, name)
        assert found["tool"] == "pypi:notes/send_message"
    (version,) = found["versions"]
    assert version["parameters"]["properties"]["channel"]["description"] == "Name of the channel"
    assert found["about_server"]["licence"] == "MIT"
    assert found["crawls"][0]["latest_version"] == "1.1"
    assert browse.show(filled, version["spec"])["tool"] == found["tool"]


def test_a_name_of_two_servers_is_a_question_and_a_wrong_one_gets_a_hint(filled):
    with pytest.raises(BadInput, match=r"2 servers have a tool 'add_note'.*npm:other/add_note"):
        browse.show(filled, "add_note")
    with pytest.raises(BadInput, match="did you mean 'send_message'"):
        browse.show(filled, "send_mesage")
    with pytest.raises(BadInput, match=r"unknown tool 'zzz' .toolloom registry search finds"):
        browse.show(filled, "zzz")


def test_a_query_gives_columns_rows_and_says_when_there_is_more(filled):
    table = browse.sql(filled, "SELECT name FROM tools ORDER BY name", limit=2)
    assert table == browse.Table(("name",), (("add_note",), ("add_note",)), truncated=True)
    assert browse.sql(filled, "SELECT 1 AS x LIMIT 1", limit=1).truncated is False


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELEC 1", "syntax error"),
        ("DELETE FROM tools", "read-only"),
        ("SELECT * FROM read_text('/etc/hostname')", "disabled"),
        ("COPY tools TO '/tmp/x.csv'", "disabled"),
        ("SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b", "took more"),
    ],
)
def test_a_bad_query_is_one_clear_line(filled, query, words):
    with pytest.raises(BadInput, match=words) as failure:
        browse.sql(filled, query, limit_s=0.5)
    assert "\n" not in str(failure.value)


def test_similar_tools_are_found_by_what_they_say_and_a_copy_scores_one(workspace):
    tools = [
        raw("send_mail", "Sends a mail to a person.", address="of the person", text="of the mail"),
        raw("post_message", "Sends a text to a person.", text="of the message"),
        raw("draw_circle", "Draws.", radius="in pixels"),
    ]
    enter(workspace, entry(1, tools), entry(2, tools[:1], server="pypi:notes2"))
    found = browse.similar(workspace, "pypi:notes/send_mail")
    assert [tool["tool"] for tool in found][:2] == [
        "pypi:notes2/send_mail",
        "pypi:notes/post_message",
    ]
    assert found[0]["score"] > 0.9 > 0.6 > found[1]["score"] > 0
    assert "pypi:notes/send_mail" not in [tool["tool"] for tool in found]
    with pytest.raises(BadInput, match="did you mean 'send_mail'"):
        browse.similar(workspace, "send_male")


def test_a_tool_with_more_copies_than_are_asked_for_has_likes_with_scores(workspace):
    tool = raw("send_mail", "Sends a mail to a person.", address="of the person")
    servers = [f"pypi:notes{n}" for n in range(5)]
    enter(workspace, *(entry(n, [tool], server=name) for n, name in enumerate(servers, 1)))
    found = browse.similar(workspace, "pypi:notes4/send_mail", 2)
    assert [like["tool"] for like in found] == ["pypi:notes0/send_mail", "pypi:notes1/send_mail"]
    more = browse.similar(workspace, "pypi:notes4/send_mail", 10)  # the tool itself is among these
    assert [like["score"] for like in found] == [like["score"] for like in more[:2]]
    assert found[0]["score"] > 0.2


def test_what_is_no_longer_listed_is_compared_with_nothing_and_says_so(workspace):
    enter(workspace, entry(1, [raw("send_mail", "Sends."), raw("read_mail", "Reads.")]))
    enter(workspace, entry(2, [raw("read_mail", "Reads.")]))
    with pytest.raises(BadInput, match="no longer listed"):
        browse.similar(workspace, "send_mail")


def test_counts_of_rejects_are_of_the_last_crawls_and_no_mean_of_nothing_is_told(workspace):
    enter(workspace, entry(1, [None, raw("a"), raw("a")]), entry(2, [None]))
    counts = browse.stats(workspace)
    assert (counts["rejected"], counts["reject_reasons"]) == (1, {"not_an_object": 1})
    assert counts["quality"] is None


@pytest.mark.claim("b14")
def test_the_same_tools_under_another_scope_are_marked(workspace):
    tools = [raw("send_mail", "Sends a mail to a person."), raw("read_mail", "Reads a mail.")]
    enter(
        workspace,
        entry(1, tools, server="npm:@one/mail"),
        entry(2, tools, server="npm:@other/mail"),
        entry(3, [raw("draw", "Draws a circle.")], server="npm:@other/draw"),
    )
    found = rows(workspace, "SELECT tool, members, first FROM duplicates ORDER BY tool")
    assert found == [
        ("npm:@one/mail/read_mail", 2, True),
        ("npm:@one/mail/send_mail", 2, True),
        ("npm:@other/mail/read_mail", 2, False),
        ("npm:@other/mail/send_mail", 2, False),
    ]


@pytest.mark.claim("b09")
def test_real_descriptions_are_hardly_ever_flagged_for_review(real):
    """8 of 9,623; read by a person, four of them do order a model about."""
    flagged = rows(real, "SELECT tool FROM review_queue")
    assert 0 < len(flagged) <= 10
