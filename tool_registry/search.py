"""Ranked search over tools: BM25 in SQL, because DuckDB's own full-text extension needs a download.

Okapi BM25 (Robertson and Zaragoza 2009, section 3) with k1 = 1.2 and b = 0.75. Words of the tool's
name count three times.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import duckdb

from synth.core.types import ToolSpec

NAME_WEIGHT = 3
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_STOP = frozenset(
    ("a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "in", "is", "it", "its", "of",
     "on", "or", "that", "the", "this", "to", "with", "you", "your")
)  # fmt: skip

_QUERY = """
WITH asked AS (SELECT unnest($1) AS word),
hits AS (
    SELECT w.word, w.tool, w.times, count(*) OVER (PARTITION BY w.word) AS spread
    FROM search_words w JOIN asked USING (word)
),
corpus AS (SELECT count(*) AS n, avg(words) AS mean FROM search_tools)
SELECT h.tool, c.server, c.name, c.function_name, c.effect, c.description,
       sum(ln(1 + (n - spread + 0.5) / (spread + 0.5))
           * times * 2.2 / (times + 1.2 * (0.25 + 0.75 * words / mean))) AS score
FROM hits h JOIN search_tools s ON s.tool = h.tool JOIN catalogue c ON c.tool = h.tool
CROSS JOIN corpus
WHERE c.listed
GROUP BY ALL ORDER BY score DESC, h.tool LIMIT $2
"""


def words_of(text: str) -> Iterator[str]:
    """Yield the words of `text` in search form: lower case, `camelCase` split, plural s cut."""
    for found in _WORD.findall(text):
        word = found.lower()
        if word in _STOP or len(word) > 40:
            continue
        yield word[:-1] if len(word) > 3 and word.endswith("s") and word[-2:] != "ss" else word


def document_words(spec: ToolSpec, name: str, server: str) -> Counter[str]:
    """Return how often each search word occurs in what is known of a tool."""
    words = Counter(words_of(spec.description))
    for word in words_of(name):
        words[word] += NAME_WEIGHT
    words.update(words_of(server))
    words.update(words_of(spec.category or ""))
    properties = spec.parameters.get("properties")
    for parameter, schema in (properties if isinstance(properties, dict) else {}).items():
        words.update(words_of(parameter))
        if isinstance(schema, dict) and isinstance(schema.get("description"), str):
            words.update(words_of(schema["description"]))
    return words


def ranked(con: duckdb.DuckDBPyConnection, text: str, limit: int) -> list[dict[str, Any]]:
    """Return the tools that match `text` best; none when no word of it is known."""
    asked = sorted(set(words_of(text)))
    if not asked:
        return []
    found = con.execute(_QUERY, [asked, limit])
    columns = [column[0] for column in found.description or ()]
    return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]
