"""What the registry costs: a catalog read in, searches over 10,000 and 100,000 tools.

    python bench/bench_registry.py ../shared/data/catalogs/mcp_tools.jsonl.gz

The larger registry holds the same tools and copies of them, of other servers, labelled `#copy-N`.
CPU time is given beside wall time: other work on the machine changes only the latter. With bm25s
installed, its ranking and SQLite's FTS5 are measured over the same words. What readers said of
tools is compared too: the figures of `docs/registry.md`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

import apsw
import duckdb
import orjson

from synth.core.store import Workspace
from tool_registry.catalogs import import_catalog
from tool_registry.crawl import source_of
from tool_registry.duplicates import near_pairs
from tool_registry.search import ranked, similar, sort, words_of
from tool_registry.source import Catalog
from tool_registry.vectors import Vectors

COPIES = 9
LABELS = Path(__file__).parent.parent / "tests" / "tool_registry" / "data"
QUERIES = (
    "send a message", "read a file", "cancel a booking", "create an issue comment",
    "list calendar events of a day", "current weather in a city", "search the web",
    "delete an e-mail", "convert an amount of money", "query rows of a database table",
    "take a screenshot of the page", "generate an image from a text prompt", "stock price history",
    "translate text", "find flights", "transfer tokens to a wallet", "run a shell command",
    "add a row to a spreadsheet", "get the transcript of a video", "monitor a server's metrics",
)  # fmt: skip


def timed(label: str, work: Callable[[str], object], asked: Iterable[str]) -> None:
    """Write the median and the worst time of `work` over queries."""
    walls, cpus = [], []
    for query in asked:
        wall, cpu = time.perf_counter(), time.process_time()
        work(query)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    figures = [1000 * value for value in (median(cpus), max(cpus), median(walls))]
    sys.stdout.write("{:<44}cpu {:.1f} (worst {:.1f}) wall {:.1f} ms\n".format(label, *figures))


def copied(con: duckdb.DuckDBPyConnection, number: int) -> None:
    """Enter every tool of the catalog again, of another server."""
    con.execute(
        f"INSERT INTO tools SELECT * REPLACE (tool || '#copy-{number}' AS tool, "
        f"'copy-{number}:' || server AS server) FROM tools WHERE NOT contains(tool, '#copy-')"
    )
    con.execute(
        f"INSERT INTO tool_versions SELECT * REPLACE (tool || '#copy-{number}' AS tool, "
        "'{}' AS document, NULL AS raw) FROM tool_versions WHERE NOT contains(tool, '#copy-')"
    )
    (first,) = con.execute("SELECT max(doc) + 1 FROM search_tools").fetchall()[0]
    (real,) = con.execute("SELECT count(*) FROM search_tools WHERE doc < $1", [first]).fetchall()[0]
    own = real // number
    con.execute(
        f"INSERT INTO search_tools SELECT * REPLACE (doc + {first} AS doc, "
        f"tool || '#copy-{number}' AS tool) FROM search_tools WHERE doc < {own}"
    )
    con.execute(
        f"INSERT INTO search_words SELECT word, doc + {first}, times, length "
        f"FROM search_words WHERE doc < {own} ORDER BY word"
    )


def searches(workspace: Workspace) -> None:
    """Measure searches over what a workspace holds."""
    with workspace.read() as con:
        tools = con.execute("SELECT count(*) FROM search_tools").fetchall()[0][0]
        for query in QUERIES[:3]:  # the first ones read the file
            ranked(con, query, 10)
        timed(f"search, {tools} tools", lambda text: ranked(con, text, 10), QUERIES)
        some = con.execute(
            "SELECT tool FROM search_tools WHERE doc % 811 = 0 AND doc < 9000 ORDER BY doc"
        ).fetchall()
        timed(f"similar, {tools} tools", lambda tool: similar(con, tool, 10), [r[0] for r in some])

    def opened(text: str) -> None:
        with workspace.read() as con:
            ranked(con, text, 10)

    timed(f"search and opening the registry, {tools} tools", opened, QUERIES[:8])


def others(workspace: Workspace) -> None:
    """Measure the same words in SQLite's FTS5, and in bm25s where it is installed."""
    with workspace.read() as con:
        texts = con.execute(
            "SELECT doc, string_agg(repeat(word || ' ', times), '') FROM search_words "
            "GROUP BY doc ORDER BY doc"
        ).fetchall()
    begun = time.process_time()
    lite = apsw.Connection(":memory:")
    lite.execute("CREATE VIRTUAL TABLE words USING fts5(text, content='', detail=column)")
    lite.executemany("INSERT INTO words(rowid, text) VALUES (?, ?)", texts)
    sys.stdout.write(f"{'FTS5: building':<44}cpu {time.process_time() - begun:.1f} s\n")

    def fts(text: str) -> None:
        asked = " OR ".join(f'"{word}"' for word in set(words_of(text)))
        select = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY bm25(words) LIMIT 10"
        list(lite.execute(select, (asked,)))

    timed(f"FTS5, {len(texts)} tools", fts, QUERIES)
    if importlib.util.find_spec("bm25s"):
        bm25s = importlib.import_module("bm25s")
        begun = time.process_time()
        index = bm25s.BM25()
        index.index([text.split() for _, text in texts], show_progress=False)
        sys.stdout.write(f"{'bm25s: building':<44}cpu {time.process_time() - begun:.1f} s\n")

        def bm(text: str) -> None:
            index.retrieve([list(set(words_of(text)))], k=10, show_progress=False)

        timed(f"bm25s, {len(texts)} tools", bm, QUERIES)


def labelled(workspace: Workspace) -> None:
    """Write how many answers a reader labelled right: ours, and those of bm25s over plain texts.

    Labels are of the five best of both (`docs/registry.md`); what was not read counts as wrong.
    """
    rows = labels("queries")
    with workspace.read() as con:
        tools = con.execute(
            "SELECT tool, name || ' ' || server || ' ' || description FROM catalogue ORDER BY tool"
        ).fetchall()
        ours = [[one["tool"] for one in ranked(con, row["query"], 5)] for row in rows]
    found = {"ours": ours}
    if importlib.util.find_spec("bm25s"):
        bm25s = importlib.import_module("bm25s")
        quiet = {"stopwords": "en", "show_progress": False}
        index = bm25s.BM25()
        index.index(bm25s.tokenize([text for _, text in tools], **quiet), show_progress=False)
        asked = bm25s.tokenize([row["query"] for row in rows], **quiet)
        best, _ = index.retrieve(asked, k=5, show_progress=False)
        found["bm25s"] = [[tools[place][0] for place in places] for places in best]
    for name, answers in found.items():
        right = [
            [tool in row["relevant"] for tool in five]
            for row, five in zip(rows, answers, strict=True)
        ]
        first, among = sum(five[0] for five in right if five), sum(map(sum, right))
        sys.stdout.write(f"{name}: {first} of {len(rows)} first answers, {among} of five each\n")


def labels(name: str) -> list[Any]:
    """Read what a reader said of real tools."""
    lines = (LABELS / f"{name}.jsonl").read_bytes().splitlines()
    return [orjson.loads(line) for line in lines]


def judged(workspace: Workspace) -> None:
    """Write how far categories and quality agree with a reader."""
    with workspace.read() as con:
        found = con.execute("SELECT tool, category, quality FROM catalogue").fetchall()
    category = {tool: name for tool, name, _ in found}
    rows = labels("categories")
    servers = {row["tool"].rpartition("/")[0] for row in rows if not row["held_out"]}
    held_out = [row for row in rows if row["held_out"]]
    apart = [row for row in held_out if row["tool"].rpartition("/")[0] not in servers]
    for what, some in (("held out", held_out), ("of servers apart", apart)):
        told = [row for row in some if category[row["tool"]]]
        right = sum(category[row["tool"]] in row["categories"] for row in told)
        sys.stdout.write(f"category, {what}: {len(some)}, told {len(told)}, right {right}\n")
    quality = {tool: score for tool, _, score in found}
    pairs = [(quality[better], quality[worse]) for better, worse in labels("better_documented")]
    agreed, tied = sum(a > b for a, b in pairs), sum(a == b for a, b in pairs)
    sys.stdout.write(f"quality: of {len(pairs)} pairs {agreed} agree, {tied} alike\n")


def near(workspace: Workspace) -> None:
    """Measure near duplicates: how many, in what time, and how far a reader agrees."""
    begun = time.process_time()
    with workspace.read() as con:
        vectors = Vectors.of(con)
    found = {frozenset((vectors.tools[a], vectors.tools[b])) for a, b, _ in near_pairs(vectors)}
    what, cpu = f"near duplicates, {len(vectors.tools)} tools", time.process_time() - begun
    sys.stdout.write(f"{what:<44}cpu {cpu:.1f} s; {len(found)} pairs\n")
    pairs = labels("near_duplicates")
    told = [pair["same"] for pair in pairs if frozenset(pair["tools"]) in found]
    same = sum(pair["same"] for pair in pairs)
    sys.stdout.write(
        f"of {len(pairs)} pairs, {same} the same: {len(told)} found, {sum(told)} right\n"
    )


def main() -> None:
    """Import, search, copy, search again."""
    source = source_of(sys.argv[1])
    assert isinstance(source, Catalog)
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        for what in ("import", "import again"):
            wall, cpu = time.perf_counter(), time.process_time()
            report = import_catalog(source, sys.argv[1], workspace)
            cost = f"cpu {time.process_time() - cpu:.1f} wall {time.perf_counter() - wall:.1f} s"
            sys.stdout.write(
                f"{f'{what}, {report.rows} rows':<44}{cost}; {report.tools} stored, "
                f"{report.rejected} rejected {report.reasons}, {report.changed} servers changed\n"
            )
        labelled(workspace)
        judged(workspace)
        near(workspace)
        searches(workspace)
        others(workspace)
        with workspace.write() as con:
            for number in range(1, COPIES + 1):
                copied(con, number)
            sort(con)
        near(workspace)
        searches(workspace)
        others(workspace)


if __name__ == "__main__":
    main()
