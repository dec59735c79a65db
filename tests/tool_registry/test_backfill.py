"""Registries of earlier versions get what they lack."""

import json

import pytest

from synth.core import store
from synth.core.store import Workspace
from tool_registry import browse
from tool_registry.catalogs import import_catalog
from tool_registry.sources.catalog import SOURCE


@pytest.fixture
def songs(tmp_path):
    """A catalog of one server; `get_item` alone tells nothing."""
    tools = [(f"{verb}_playlist", "Songs of an album.") for verb in ("get", "add", "drop")]
    tools += [("get_item", "Gets an item.")]
    rows = [{"server": "x", "tool": t, "description": d, "inputSchema": {}} for t, d in tools]
    path = tmp_path / "songs.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(path)


def test_a_registry_of_an_earlier_version_is_searched_as_before(tmp_path, monkeypatch):
    earlier = store._migrations()[:5]
    workspace = Workspace(tmp_path)
    at = "TIMESTAMP '2026-01-01'"
    with monkeypatch.context() as patched:
        patched.setattr(store, "_migrations", lambda: earlier)
        with workspace.write() as con:
            con.execute(
                f"INSERT INTO servers VALUES ('s', 'npm', 's', 's', 'MIT', NULL, {at}, {at})"
            )
            for name, listed in (("a", True), ("b", False)):
                con.execute(
                    f"INSERT INTO tools VALUES ('s/{name}', 's', '{name}', '{name}', NULL, NULL, "
                    f"1, {listed}, {at}, {at})"
                )
                con.execute(
                    "INSERT INTO tool_versions (tool, version, spec, definition, description, "
                    "parameters, effect, effect_source, provenance, document, raw_hash, "
                    "semantic_hash, description_hash, flags, seen_at) VALUES "
                    f"('s/{name}', 1, 'k', 'd', 'Reads.', '{{}}', 'read', 'inferred', '{{}}', "
                    f"'{{}}', 'h', 'h', 'h', '[]', {at})"
                )
                con.execute(f"INSERT INTO search_tools VALUES ('s/{name}', 4)")
                con.execute(
                    f"INSERT INTO search_words VALUES ('read', 's/{name}', 1), "
                    f"('{name}', 's/{name}', 3)"
                )
    (found,) = browse.search(workspace, "read")  # what is no longer listed is not found
    assert (found["tool"], found["effect"], found["description"]) == ("s/a", "read", "Reads.")


def test_an_import_that_brings_nothing_new_scores_what_an_earlier_version_entered(workspace, songs):
    query = (
        "SELECT tool, quality, quality_reasons, t.category, category_source, category_score "
        "FROM tools t JOIN tool_versions USING (tool, version) ORDER BY tool"
    )
    import_catalog(SOURCE, songs, workspace)
    scored = browse.sql(workspace, query).rows
    assert [row[3:5] for row in scored] == [("music", "inferred")] * 4
    assert all(row[1] > 0.3 for row in scored)
    with workspace.write() as con:
        con.execute("UPDATE tool_versions SET quality = NULL, quality_reasons = NULL")
        con.execute("UPDATE tools SET category = NULL, category_source = NULL")
    assert import_catalog(SOURCE, songs, workspace).changed == 0
    assert browse.sql(workspace, query).rows == scored


def test_a_tool_that_lacks_its_category_gets_it_from_all_tools_of_its_server(workspace, songs):
    query = "SELECT category FROM tools WHERE name = 'get_item'"
    import_catalog(SOURCE, songs, workspace)
    with workspace.write() as con:
        con.execute("UPDATE tool_versions SET quality = NULL WHERE contains(tool, 'get_item')")
        con.execute("UPDATE tools SET category = NULL WHERE name = 'get_item'")
    import_catalog(SOURCE, songs, workspace)
    assert browse.sql(workspace, query).rows == (("music",),)


def test_words_written_without_spaces_are_searched_by_pairs_after_the_migration(
    tmp_path, monkeypatch
):
    workspace = Workspace(tmp_path)
    earlier = store._migrations()[:9]
    with monkeypatch.context() as patched:
        patched.setattr(store, "_migrations", lambda: earlier)
        with workspace.write() as con:
            con.execute(
                "INSERT INTO search_tools VALUES (0, 's/a', 4, 's', 'a', 'a', 'read', ''), "
                "(1, 's/b', 1, 's', 'b', 'b', 'read', '')"
            )
            con.execute(
                "INSERT INTO search_words VALUES ('查询天气', 0, 1, 4), ('天气', 0, 2, 4), "
                "('city', 0, 1, 4), ('citie', 1, 1, 1)"
            )
    words = "SELECT word, times, length FROM search_words WHERE doc = {} ORDER BY word"
    assert browse.sql(workspace, words.format(0)).rows == (
        ("city", 1, 6), ("天气", 3, 6), ("查询", 1, 6), ("询天", 1, 6),
    )  # fmt: skip
    assert browse.sql(workspace, words.format(1)).rows == (("citie", 1, 1),)
    assert browse.sql(workspace, "SELECT words FROM search_tools ORDER BY doc").rows == ((6,), (1,))
