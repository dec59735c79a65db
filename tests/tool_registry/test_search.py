"""Search: what it finds, what it leaves out, and how often a reader agrees."""

import pytest

from synth.core.errors import UnknownName
from tool_registry import browse
from tool_registry.search import Filter


def found(workspace, text, limit=10, **only):
    return browse.search(workspace, text, limit, Filter(**only))


def test_filters_leave_out_what_is_not_asked_for(real):
    rows = found(real, "delete an e-mail", effect="destructive", category="communication")
    assert rows[0]["tool"].endswith("#gmail/delete_email")
    assert {row["effect"] for row in rows} == {"destructive"}
    assert {row["category"] for row in rows} == {"communication"}
    good = found(real, "delete an e-mail", min_quality=0.9, licence="mit")
    assert good
    assert all(row["quality"] >= 0.9 and row["licence"] == "MIT" for row in good)
    assert found(real, "mysql", language="zh")
    assert not found(real, "mysql", language="de")
    begin = "catalog:live-crawl#@modelcontextprotocol/server-github"
    assert {r["server"] for r in found(real, "create an issue", server=begin)} == {begin}
    assert not found(real, "send an e-mail", synthetic=True)
    assert found(real, "send an e-mail", synthetic=False)


def test_the_best_that_pass_a_filter_are_found_however_far_down_they_are(real):
    everything = found(real, "list files", 5000)
    wanted = [row for row in everything if row["effect"] == "destructive"][:3]
    assert [row["tool"] for row in found(real, "list files", 3, effect="destructive")] == [
        row["tool"] for row in wanted
    ]
    assert everything.index(wanted[0]) > 20


def test_chinese_is_found_by_what_stands_within_a_sentence_without_spaces(real):
    rows = found(real, "天气预报", 5)
    assert len(rows) == 4
    assert all("天气" in row["description"] for row in rows)
    assert all("数据库" in row["description"] for row in found(real, "数据库", 5))


def test_a_category_that_no_tool_has_is_named_with_near_ones(real):
    with pytest.raises(UnknownName, match="did you mean 'communication'"):
        found(real, "x", category="comunication")


def test_which_mail_tools_delete_something_under_which_licence_and_how_good_is_one_query(real):
    query = (
        "SELECT tool, licence, quality FROM search('delete e-mail') "
        "WHERE category = 'communication' AND effect = 'destructive' LIMIT 5"
    )
    asked = browse.sql(real, query)
    told = found(real, "delete e-mail", 5, category="communication", effect="destructive")
    assert [tuple(row) for row in asked.rows] == [
        (row["tool"], row["licence"], row["quality"]) for row in told
    ]
    assert len(told) == 5


def test_a_reader_agrees_with_what_is_found_for_a_hundred_queries(real, labelled):
    """Labels are of the five best of two rankings; what nobody looked at counts as wrong."""
    asked = labelled("queries")
    first = among = 0
    for row in asked:
        tools = [tool["tool"] for tool in found(real, row["query"], 5)]
        right = [tool in row["relevant"] for tool in tools]
        first += right[0]
        among += sum(right)
    assert len(asked) == 100
    assert first >= 55
    assert among >= 205
