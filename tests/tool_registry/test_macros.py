"""What people find who open a registry with DuckDB alone, nothing of ours loaded."""

import json
import subprocess
import sys

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_registry import browse
from tool_registry.search import ranked, words_of

QUERIES = (
    "send an e-mail", "listFiles of HTTPServer", "companies' queries", "the", "", "x²",
    "a's keys", "Größe 查询天气", "E-Mails", "class pass days ABc aBCd", "don't stop", "٣ files",
    "movie movies", "查", "查询天气を探すファイル 한국어 검색ABc", "größe查询öl・ー漢",
    "what do I have to do with which of the files",
)  # fmt: skip


@pytest.fixture(scope="module")
def terms(empty, tmp_path_factory):
    """Ask the macro for the words of a text."""
    file = tmp_path_factory.mktemp("terms") / "registry.duckdb"
    file.write_bytes(empty)
    with duckdb.connect(str(file), read_only=True) as con:
        yield lambda text: con.execute("SELECT search_terms(?)", [text]).fetchone()[0]


@pytest.mark.parametrize("text", QUERIES)
def test_the_macro_takes_the_same_words_from_a_text(terms, text):
    assert sorted(terms(text)) == sorted(set(words_of(text)))


letters = st.characters(
    codec="utf-8", exclude_characters="\0", categories=("L", "N", "P", "Z", "S")
)
# Lower case of a few capitals (İ) is two characters in one of the two and one in the other.
texts = st.text(letters.filter(lambda c: len(c.lower()) == 1), max_size=40)


@given(texts | st.text("aAeEsSyY -_1", max_size=30) | st.text("查询天データ한ö aB1・", max_size=60))
def test_the_macro_takes_the_same_words_from_any_text(terms, text):
    assert sorted(terms(text)) == sorted(set(words_of(text)))


def test_the_macro_ranks_real_tools_as_the_command_does(real):
    with real.read() as con:
        for query in ("delete an e-mail", "stock price history", "read files", "weather forecast"):
            found = con.execute("SELECT tool, score FROM search(?) LIMIT 20", [query]).fetchall()
            assert found == [(row["tool"], row["score"]) for row in ranked(con, query, 20)]
            assert len(found) == 20


def test_likes_of_a_tool_are_those_of_the_command(real):
    tool = "catalog:live-crawl#@modelcontextprotocol/server-github/search_code"
    with real.read() as con:
        found = con.execute("SELECT tool, score FROM similar_to(?) LIMIT 5", [tool]).fetchall()
    assert found == [(row["tool"], row["score"]) for row in browse.similar(real, tool, 5)]
    assert found[0][1] > 0.5


def test_a_file_is_searched_by_another_process_that_has_duckdb_only(real):
    code = (
        "import duckdb, json, sys; con = duckdb.connect(sys.argv[1], read_only=True); "
        "print(json.dumps(con.execute(sys.argv[2]).fetchall())); "
        "assert not [name for name in sys.modules if name.startswith(('synth', 'tool_registry'))]"
    )
    query = (
        "SELECT DISTINCT effect, category FROM search('delete an e-mail') "
        "WHERE effect = 'destructive' AND category = 'communication' LIMIT 5"
    )
    said = subprocess.run(
        [sys.executable, "-I", "-c", code, str(real.database), query],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(said.stdout) == [["destructive", "communication"]]
