"""The map: one place for each tool, near duplicates found, drawn for people."""

import json
import re

import pytest

from simulators.sql.load import load_application
from synth.core.errors import BadInput, ToolloomError
from synth.core.store import Workspace, now
from synth.core.types import Provenance
from tool_registry import coverage
from tool_registry.duplicates import clusters, near_pairs, refresh
from tool_registry.ingest import ToolList, enter_lists, register_application
from tool_registry.map import make_map
from tool_registry.normalize import normalize_list
from tool_registry.vectors import Vectors

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")
FIELDS = ("invoice payment refund", "song album playlist", "forecast rain wind", "pod node cluster")


def raw(name, description):
    return {"name": name, "description": description}


def enter(workspace, server, *tools):
    with workspace.write() as con:
        found = normalize_list(tools, Provenance(source="x"))
        enter_lists(con, [ToolList(server, None, now(), found)])


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Servers of four fields, one application, and a name that nobody would choose kindly."""
    workspace = Workspace(tmp_path_factory.mktemp("filled"))
    for number, words in enumerate(FIELDS):
        things = words.split()
        enter(
            workspace,
            f"npm:server{number}",
            *(raw(f"{verb}_{t}", f"{verb} the {t} of a {words}") for verb in ("get", "delete")
              for t in things),
        )  # fmt: skip
    enter(workspace, "npm:copy", raw("get_song", "get the song of a song album playlist"))
    hostile = "</script><script>alert(1)</script>\u2028"
    enter(workspace, f"npm:{hostile}", raw("evil", f"song {hostile}"))
    with workspace.write() as con:
        register_application(con, load_application("bank"))
    return workspace


@pytest.fixture(scope="module")
def made(filled, tmp_path_factory):
    return make_map(filled, tmp_path_factory.mktemp("drawn"))


def rows(workspace, query):
    with workspace.read() as con:
        return con.execute(query).fetchall()


def test_every_listed_tool_has_one_place_and_the_nearest_of_the_other_kind(filled, made):
    places = rows(filled, "SELECT count(*), count(DISTINCT tool) FROM map_points")
    assert places == rows(filled, "SELECT count(*), count(*) FROM tools WHERE listed")
    assert made.tools == places[0][0]
    kinds = rows(
        filled,
        "SELECT DISTINCT a.application IS NULL, b.application IS NULL FROM map_points m "
        "JOIN tools a ON a.tool = m.tool JOIN tools b ON b.tool = m.neighbour",
    )
    assert sorted(kinds) == [(False, True), (True, False)]
    assert rows(filled, "SELECT min(distance) >= 0, max(distance) <= 1 FROM map_points") == [
        (True, True)
    ]


def test_tools_that_read_alike_lie_together(filled, made):
    query = (
        "SELECT avg((a.x-b.x)**2 + (a.y-b.y)**2) FROM map_points a, map_points b "
        "WHERE a.tool < b.tool AND a.tool LIKE 'npm:server%' AND b.tool LIKE 'npm:server%' "
        "AND (left(a.tool, 11) = left(b.tool, 11)) = {}"
    )
    (within,), (between,) = rows(filled, query.format("true")) + rows(filled, query.format("false"))
    assert within < between / 2


def test_the_same_registry_gives_the_same_places(filled, made, tmp_path):
    before = rows(filled, "SELECT * FROM map_points ORDER BY tool")
    make_map(filled, tmp_path)
    assert rows(filled, "SELECT * FROM map_points ORDER BY tool") == before


def test_near_duplicates_of_other_servers_are_clustered_about_the_first_seen(filled, made):
    found = rows(filled, "SELECT tool, cluster FROM near_duplicates ORDER BY tool")
    assert found == [
        ("npm:copy/get_song", "npm:server1/get_song"),
        ("npm:server1/get_song", "npm:server1/get_song"),
    ]
    assert made.clusters == 1


def test_the_page_is_one_file_that_no_name_can_break_out_of(made):
    page = made.html.read_text(encoding="utf-8")
    assert page.count("<script>") == page.count("</script>") == 1
    assert "alert(1)" in page
    assert not re.search(r'(?:src|href)="?http|@import|url\(', page)
    data = re.search(r"^const DATA = (.*);$", page, re.M)[1]
    assert "\u2028" not in data
    points = json.loads(data)["points"]
    assert len(points) == made.tools
    assert any("</script><script>alert(1)" in point[0] for point in points)


def test_the_picture_is_drawn(made):
    data = made.png.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert len(data) > 10_000


def test_a_registry_without_tools_has_no_map(tmp_path):
    workspace = Workspace(tmp_path)
    with workspace.write():
        pass
    with pytest.raises(BadInput, match="no tools are listed"):
        make_map(workspace, tmp_path / "map")


def test_a_folder_that_cannot_be_written_is_found_out_before_the_work(filled, tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    steps = []
    with pytest.raises(ToolloomError, match="file"):
        make_map(filled, tmp_path / "file" / "map", lambda done, total, note: steps.append(note))
    assert steps == []


def test_coverage_counts_cells_of_both_kinds_and_finds_the_thin_ones(filled, made):
    with filled.read() as con:
        found = coverage.coverage(con)
        thin = coverage.thin_cells(con, 3)
    cells = {(c.category, c.effect): c for c in found["cells"]}
    assert len(cells) == len({c for c, _ in cells}) * 3
    music = cells["music", "read"]
    assert (music.held_by, music.synthetic) == ("real", 0)
    assert music.real == 4
    assert cells["finance", "read"].held_by == "synthetic"
    assert 0 < cells["finance", "read"].synthetic_to_real <= 1
    assert sum(found["held_by"].values()) == len(cells)
    sizes = sorted(c.real + c.synthetic for c in cells.values())
    assert [c.real + c.synthetic for c in thin] == sizes[:3]
    both = coverage.Cell("x", "read", real=4, synthetic=1)
    more = coverage.Cell("a", "read", real=0, synthetic=6)
    fewer = coverage.Cell("y", "write", real=5, synthetic=0)
    assert coverage.thinnest_first([more, both, fewer]) == [fewer, both, more]


@pytest.mark.parametrize(
    ("counts", "bits"), [([1, 1, 1, 1], 2.0), ([5, 0], 0.0), ([3, 1], 0.8112781), ([], None)]
)
def test_entropy_is_in_bits(counts, bits):
    assert coverage.entropy(counts) == (None if bits is None else pytest.approx(bits))


def test_the_tree_goes_from_categories_to_servers_and_adds_up(filled):
    with filled.read() as con:
        tree = coverage.tree(con)
        music = coverage.tree(con, "music")
    (listed,) = rows(filled, "SELECT count(*) FROM tools WHERE listed")[0]
    assert tree.nodes["tools",]["tools"] == listed
    for node in tree:
        children = list(tree.successors(node))
        if children:
            assert tree.nodes[node]["tools"] == sum(tree.nodes[c]["tools"] for c in children)
    assert ("tools", "music", "npm:server1") in music
    assert {node[1] for node in music if len(node) > 1} == {"music"}


def test_near_duplicates_are_found_anew_without_a_map(tmp_path):
    workspace = Workspace(tmp_path)
    song = raw("get_song", "get the song of a song album playlist")
    for server in ("npm:one", "npm:two"):
        enter(workspace, server, song, raw("get_pod", f"pod {server}"))
    assert refresh(workspace) == 1
    query = "SELECT tool, cluster, similarity FROM near_duplicates ORDER BY tool"
    assert rows(workspace, query) == [
        ("npm:one/get_song", "npm:one/get_song", 1.0),
        ("npm:two/get_song", "npm:one/get_song", pytest.approx(0.9, abs=0.01)),
    ]
    enter(workspace, "npm:two", raw("get_pod", "pod"))
    assert refresh(workspace) == 0
    assert rows(workspace, query) == []


def test_tools_that_went_while_words_were_compared_are_in_no_cluster(tmp_path):
    workspace = Workspace(tmp_path)
    for server in ("npm:one", "npm:two"):
        enter(workspace, server, raw("get_song", "get the song of a song album playlist"))
    with workspace.read() as con:
        vectors = Vectors.of(con)
    enter(workspace, "npm:two")
    with workspace.read() as con:
        assert clusters(con, vectors) == []


def test_what_is_alike_is_what_a_product_of_all_with_all_finds(real):
    with real.read() as con:
        vectors = Vectors.of(con)
    found = {(one, other) for one, others, _ in vectors.alike(0.75) for other in others.tolist()}
    expected = set()
    for start in range(0, len(vectors.tools), 500):
        product = (vectors.matrix[start : start + 500] @ vectors.matrix.T).tocoo()
        alike = (product.data >= 0.75) & (product.col > product.row + start)
        expected |= set(
            zip((product.row[alike] + start).tolist(), product.col[alike].tolist(), strict=True)
        )
    assert found == expected
    assert len(found) > 5_000


def test_near_duplicates_of_real_tools_agree_with_a_reader(real, labelled):
    """100 pairs from four bands of likeness; the threshold was chosen on the same pairs."""
    with real.read() as con:
        vectors = Vectors.of(con)
    found = {frozenset((vectors.tools[a], vectors.tools[b])) for a, b, _ in near_pairs(vectors)}
    pairs = labelled("near_duplicates")
    told = [pair["same"] for pair in pairs if frozenset(pair["tools"]) in found]
    assert len(pairs) == 100
    assert sum(told) / len(told) >= 0.94
    assert sum(told) >= 39
