"""What a tool is for is told from its words and its server's, or not at all."""

from collections import Counter

import pytest

from simulators.sql.load import applications, load_application
from synth.core.types import Provenance, ToolSpec
from tool_registry.classify import CLEAR, classify, taxonomy
from tool_registry.search import words_of


def spec(name, description="", *parameters):
    return ToolSpec(
        name=name,
        description=description,
        parameters={"type": "object", "properties": {p: {"type": "string"} for p in parameters}},
        provenance=Provenance(source="x"),
    )


def category(server, *specs):
    return [found.category if found else None for found in classify(server, specs)]


def test_words_of_the_tool_tell_its_category():
    assert category("npm:x", spec("get_forecast", "Weather of the next days", "city")) == [
        "environment"
    ]
    assert category("npm:x", spec("create_invoice", "Bill a customer by card")) == ["payments"]


def test_nothing_is_forced_on_a_tool_whose_words_tell_nothing():
    assert category("npm:x", spec("get_item", "Gets an item", "id")) == [None]
    assert category("npm:x", spec("!")) == [None]
    assert category("npm:x") == []


def test_a_tool_that_says_nothing_itself_is_of_its_servers_category():
    told = [spec(f"{verb}_playlist", "Songs of an album") for verb in ("get", "add", "drop")]
    assert category("npm:x", spec("get_item", "Gets an item"), *told)[0] == "music"
    assert category("npm:@me/spotify-mcp-server", spec("get_item", "Gets an item")) == ["music"]


def test_what_is_done_tells_less_than_what_it_is_done_to():
    assert category("npm:x", spec("search_recipes", "Search for a dish by ingredient")) == ["food"]


def test_the_same_tools_are_classified_the_same_in_any_order():
    specs = [spec("list_pods"), spec("get_song", "a song"), spec("get_item")]
    one = dict(zip(specs and [s.name for s in specs], category("npm:k8s", *specs), strict=True))
    specs.reverse()
    other = dict(zip([s.name for s in specs], category("npm:k8s", *specs), strict=True))
    assert one == other


def test_scores_say_how_clearly():
    (found,) = classify("npm:x", [spec("get_forecast", "Weather of the next days")])
    assert CLEAR <= found.score <= 1


def test_the_taxonomy_has_categories_with_words_that_are_searched():
    assert len(taxonomy()) >= 40
    for found in taxonomy().values():
        assert len(found.words) >= 8, found.name
        assert all(list(words_of(word.replace("-", " "))) for word in found.words), found.name
    shared = Counter(word for found in taxonomy().values() for word in found.words)
    assert max(shared.values()) <= 4


@pytest.mark.parametrize("name", applications())
def test_every_application_of_ours_declares_a_category_of_the_taxonomy(name):
    assert load_application(name).category in taxonomy()


def test_categories_of_real_tools_agree_with_a_reader(real, labelled):
    """110 tools drawn at random that words were chosen by, and 105 that nobody looked at before.

    33 of these are of servers that have tools among the 110; the other 72 count by themselves.
    """
    with real.read() as con:
        found = dict(con.execute("SELECT tool, category FROM tools").fetchall())
    rows = labelled("categories")
    servers = {row["tool"].rpartition("/")[0] for row in rows if not row["held_out"]}
    held_out = [row for row in rows if row["held_out"]]
    apart = [row for row in held_out if row["tool"].rpartition("/")[0] not in servers]
    assert (len(held_out), len(apart)) == (105, 72)
    for some, least in ((held_out, 84), (apart, 53)):
        told = [row for row in some if found[row["tool"]]]
        right = [row for row in told if found[row["tool"]] in row["categories"]]
        assert len(right) >= least
        assert len(right) / len(told) >= 0.92
