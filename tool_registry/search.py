"""Ranked search over tools: BM25 in SQL, because DuckDB's own full-text extension needs a download.

Okapi BM25 (Robertson and Zaragoza 2009, section 3) with k1 = 1.2 and b = 0.75. Words of the tool's
name count three times. `docs/decisions/0018-search-in-sql.md` has what else was measured.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

import duckdb

from synth.core.store import insert, insert_rows
from synth.core.types import ToolSpec

NAME_WEIGHT = 3
MOST_WORDS = 64
"""Different words of a query that count; more say nothing about what is sought."""
TELLING_WORDS = 24
"""Words of a tool that its likes are sought with."""
MAX_WORD = 40
MANY = 100_000
UNSORTED = 0.15
"""Words that come at once, alone and as a share of all, after which everything is sorted."""
_SHOWN = ("doc", "tool", "words", "server", "name", "function_name", "effect", "description")
_UNSPACED = (
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3"
)
"""Kana, Chinese characters, Hangul: texts in which spaces do not part words."""
WORD = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[{_UNSPACED}]+|[^\W\d_a-zA-Z{_UNSPACED}]+")
_RUN = re.compile(f"[{_UNSPACED}]")
_EMAIL = re.compile(r"(?i)\be-mail")
_ENDING = re.compile(r"([^aeiou])(?:ie|y)\Z")
"""`company`, `companies`; `movie`, `movies`: as step 1c of Porter's stemmer."""
_KIND = re.compile(r"(?i)(?<![a-z])(?:mcp|server|api|tool|agent)s?(?![a-z])")
"""What every server is called."""
_STOP = frozenset(
    ["a", "an", "and", "are", "as", "at", "be", "by", "can", "do", "does", "for", "from", "had",
     "has", "have", "how", "i", "in", "into", "is", "it", "its", "me", "my", "of", "on", "or",
     "that", "the", "this", "to", "was", "we", "what", "when", "where", "which", "who", "will",
     "with", "you", "your"]
)  # fmt: skip

# The words stand in the statement as parameters of IN, and not in a table that is joined: only
# constants let DuckDB skip the blocks whose words are all others. So the macro `search` of a
# registry, which says the same, takes twice as long.
_QUERY = """
WITH hits AS MATERIALIZED (
    SELECT word, doc, times, length FROM search_words WHERE word IN ({asked})
),
corpus AS (SELECT count(*) AS n, avg(words) AS mean FROM search_tools),
weights AS (
    SELECT word, 2.2 * ln(1 + (n - count(*) + 0.5) / (count(*) + 0.5)) AS weight,
           0.9 / mean AS slope
    FROM hits CROSS JOIN corpus GROUP BY word, n, mean
),
best AS (
    SELECT doc, round(sum(weight * times / (times + 0.3 + slope * length)), 9) AS score
    FROM hits JOIN weights USING (word) {within} GROUP BY doc ORDER BY score DESC, doc LIMIT {limit}
)
SELECT tool, server, name, function_name, effect, description, score
FROM best JOIN search_tools USING (doc) ORDER BY score DESC, doc
"""
_WITHIN = """
WHERE doc IN (SELECT doc FROM search_tools JOIN catalogue USING (tool) WHERE {conditions})
"""
_TELLING = """
SELECT w.word FROM search_words w JOIN (
    SELECT word, count(*) AS spread FROM search_words
    WHERE word IN (SELECT word FROM search_words WHERE doc = $1) GROUP BY word
) USING (word)
WHERE w.doc = $1
ORDER BY w.times / (w.times + 1.2) * ln(1 + (SELECT count(*) FROM search_tools) / spread) DESC, 1
LIMIT $2
"""


def words_of(text: str) -> Iterator[str]:
    """Yield the words of `text` in search form.

    Lower case, `camelCase` split, e-mail in one word, plural s cut, `-y` and `-ies` made equal; of
    Chinese, Japanese and Korean each two characters that follow one another (as Lucene's
    CJKBigramFilter). The macro `search_terms` of a registry does the same.
    """
    for found in WORD.findall(_EMAIL.sub("email", text)):
        if found[0] > "\u3040" and _RUN.match(found):
            yield from (found[n : n + 2] for n in range(max(1, len(found) - 1)))
        elif form := _form(found):
            yield form


@lru_cache(maxsize=1 << 15)
def _form(found: str) -> str:
    """Return a word in search form, empty where it is not searched."""
    word = found.lower()
    if word in _STOP or len(word) > MAX_WORD:
        return ""
    if len(word) > 3 and word.endswith("s") and word[-2:] != "ss":
        word = word[:-1]
    return _ENDING.sub(r"\1i", word) if len(word) > 3 else word


def title_of(server: str) -> str:
    """Return the part of a server's identity that says what it is for, without its owner."""
    name = server.rpartition("#")[2].rpartition(":")[2]
    return _KIND.sub(" ", name.rpartition("/")[2]).strip(" -_") or name


def document_words(spec: ToolSpec, name: str, server: str) -> Counter[str]:
    """Return how often each search word occurs in what is known of a tool."""
    texts = [spec.description, *[name] * NAME_WEIGHT, title_of(server), spec.category or ""]
    properties = spec.parameters.get("properties")
    for parameter, schema in (properties if isinstance(properties, dict) else {}).items():
        texts.append(parameter)
        if isinstance(schema, dict) and isinstance(schema.get("description"), str):
            texts.append(schema["description"])
    return Counter(words_of("\n".join(texts)))


def forget(con: duckdb.DuckDBPyConnection, servers: Sequence[str]) -> None:
    """Take the tools of servers out of what is searched."""
    query = "SELECT doc FROM search_tools WHERE server IN (SELECT unnest($1))"
    docs = [row[0] for row in con.execute(query, [list(servers)]).fetchall()]
    if docs:
        for table in ("search_words", "search_tools"):
            con.execute(f"DELETE FROM {table} WHERE doc IN (SELECT unnest($1))", [docs])


def learn(con: duckdb.DuckDBPyConnection, tools: Sequence[tuple[str, str, str, ToolSpec]]) -> None:
    """Make tools findable: each with its key in the registry, its server, its name there."""
    (first,) = con.execute("SELECT coalesce(max(doc) + 1, 0) FROM search_tools").fetchall()[0]
    entries, found = [], []
    for doc, (tool, server, name, spec) in enumerate(tools, first):
        counted = document_words(spec, name, server)
        length = sum(counted.values())
        shown = (server, name, spec.name, str(spec.effect), spec.description)
        entries.append(dict(zip(_SHOWN, (doc, tool, length, *shown), strict=True)))
        found += [(word, doc, times, length) for word, times in counted.items()]
    found.sort(key=itemgetter(0))
    insert(con, "search_tools", entries)
    insert_rows(con, "search_words", ("word", "doc", "times", "length"), found)
    (words,) = con.execute("SELECT count(*) FROM search_words").fetchall()[0]
    if max(MANY, words * UNSORTED) < len(found) < words:  # alone, it is in order already
        sort(con)


def sort(con: duckdb.DuckDBPyConnection) -> None:
    """Bring all words in order again: words in ten heaps cost a search thrice as much."""
    con.execute("CREATE TEMP TABLE sorted AS FROM search_words ORDER BY word, doc")
    con.execute("DELETE FROM search_words")
    con.execute("INSERT INTO search_words FROM sorted ORDER BY word, doc")
    con.execute("DROP TABLE sorted")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which tools may be found; None does not ask."""

    category: str | None = None
    effect: str | None = None
    licence: str | None = None
    """As SPDX writes it, whatever its case."""
    language: str | None = None
    server: str | None = None
    """Its identity, or the beginning of it."""
    min_quality: float | None = None
    synthetic: bool | None = None
    """True: tools of applications; False: tools of servers."""

    def conditions(self) -> dict[str, Any]:
        """Return SQL on the columns of `catalogue`, each with the value of its `?`."""
        asked = {
            "catalogue.category = ?": self.category,
            "catalogue.effect = ?": self.effect,
            "lower(catalogue.licence) = lower(?)": self.licence,
            "catalogue.language = ?": self.language,
            "starts_with(catalogue.server, ?)": self.server,
            "catalogue.quality >= ?": self.min_quality,
            "(catalogue.application IS NOT NULL) = ?": self.synthetic,
        }
        return {condition: value for condition, value in asked.items() if value is not None}


ALL = Filter()


def ranked(
    con: duckdb.DuckDBPyConnection, text: str, limit: int, only: Filter = ALL
) -> list[dict[str, Any]]:
    """Return the tools that match `text` best; none when no word of it is known."""
    return _ranked(con, list(dict.fromkeys(words_of(text)))[:MOST_WORDS], limit, only.conditions())


def similar(con: duckdb.DuckDBPyConnection, tool: str, limit: int) -> list[dict[str, Any]]:
    """Return the listed tools whose words are most like those of `tool`, itself left out.

    The score is a share of what the tool itself would have: 1.0 for a copy of equal length.
    """
    found = con.execute("SELECT doc FROM search_tools WHERE tool = ?", [tool]).fetchall()
    if not found:
        return []
    words = [row[0] for row in con.execute(_TELLING, [found[0][0], TELLING_WORDS]).fetchall()]
    likes = _ranked(con, words, limit + 1)
    if not words:
        return []
    if tool not in [like["tool"] for like in likes]:  # more copies of it than are asked for
        likes += _ranked(con, words, 1, {"catalogue.tool = ?": tool})
    own = next(like["score"] for like in likes if like["tool"] == tool)
    others = [like for like in likes if like["tool"] != tool][:limit]
    return [like | {"score": round(like["score"] / own, 4)} for like in others]


def _ranked(
    con: duckdb.DuckDBPyConnection,
    words: Sequence[str],
    limit: int,
    conditions: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    if not words:
        return []
    conditions = conditions or {}
    within = _WITHIN.format(conditions=" AND ".join(conditions)) if conditions else ""
    asked = ", ".join("?" * len(words))
    query = _QUERY.format(asked=asked, within=within, limit=int(limit))
    found = con.execute(query, [*words, *conditions.values()])
    columns = [column[0] for column in found.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
