"""How good evolved tools are: near duplicates, shapes beside crawled tools, coverage, tasks.

    toolloom --workspace W evolve --to 20000 --applications 1500
    python bench/bench_evolution.py W ../shared/data/catalogs/mcp_tools.jsonl.gz
    python bench/bench_evolution.py W --gallery 50 --seed 7     writes docs/gallery.md anew

The catalog is imported into a copy of the registry. Nothing is eliminated by what is measured here.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean, median
from typing import Any

import orjson

from synth.core import jsonl
from synth.core.application import Application
from synth.core.store import Workspace
from synth.core.types import ToolSpec
from synth.pipeline.admitting import Found, admissions
from synth.pipeline.evolve import enter
from synth.pipeline.evolved import folder_of
from tool_registry.catalogs import import_catalog
from tool_registry.coverage import coverage
from tool_registry.crawl import source_of
from tool_registry.elimination import Pool
from tool_registry.likeness import ALIKE, Likeness, Shown, near_duplicates
from tool_registry.source import Catalog

HERE = Path(__file__).parent
LABELS = HERE.parent / "tests" / "tool_registry" / "data" / "alike_evolved.jsonl"
GALLERY = HERE.parent / "docs" / "gallery.md"
MARK = "<!-- below: made by bench/bench_evolution.py --gallery -->\n"
THRESHOLDS = (0.6, ALIKE, 0.7, 0.8)
_CRAWLED = """
SELECT t.server, v.document FROM tools t JOIN tool_versions v USING (tool, version)
WHERE t.listed AND t.application IS NULL ORDER BY t.tool
"""


@dataclass(frozen=True)
class Evolved:
    """What an evolution kept."""

    applications: list[Application]

    @classmethod
    def of(cls, workspace: Path) -> Evolved:
        """Read a workspace."""
        rows = jsonl.read(folder_of(workspace) / "applications.jsonl")
        ordered = sorted(rows, key=lambda row: int(row["number"]))
        return cls([Application.model_validate(row["document"]) for row in ordered])

    @cached_property
    def tools(self) -> list[tuple[str, ToolSpec]]:
        """Return (application, tool), in the order in which they came about."""
        return [(a.application, spec) for a in self.applications for spec in a.specs.values()]

    @cached_property
    def counted(self) -> list[bool]:
        """Say of each tool whether it is for something no earlier one is for."""
        pool, found = Pool(), []
        for application in self.applications:
            new = set(pool.add(application))
            found += [name in new for name in application.specs]
        return found


def shown(spec: ToolSpec) -> Shown:
    """Return a tool as an agent is shown it."""
    return Shown(spec.name, spec.description, spec.parameters, spec.effect.value)


def put(*lines: str) -> None:
    """Write lines."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))


# --- near duplicates -------------------------------------------------------------------------


def duplicates(evolved: Evolved) -> None:
    """Write how well the measure agrees with the labels, and what it says of the tools."""
    tools = [shown(spec) for _, spec in evolved.tools]
    likeness = Likeness(tools)
    rows = [orjson.loads(line) for line in LABELS.read_bytes().splitlines()]
    pairs = [(Shown(**row["one"]), Shown(**row["other"]), bool(row["near"])) for row in rows]
    put("## Near duplicates", "| cosine from | precision | recall | of those that count | of all |")
    put("|---:|---:|---:|---:|---:|")
    some = [tool for tool, counts in zip(tools, evolved.counted, strict=True) if counts]
    begun = time.process_time()
    for least in THRESHOLDS:
        said = [near for one, other, near in pairs if likeness.near(one, other, least)]
        precision = sum(said) / len(said)
        recall = sum(said) / sum(near for *_, near in pairs)
        share = len(near_duplicates(some, least)) / len(some)
        whole = len(near_duplicates(tools, least)) / len(tools)
        put(f"| {least} | {precision:.2f} | {recall:.2f} | {share:.1%} | {whole:.1%} |")
    put(f"{len(some)} tools count, of {len(tools)}; {time.process_time() - begun:.0f} s of CPU", "")


# --- shapes ----------------------------------------------------------------------------------


def parameters_of(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas of parameters, nested ones too."""
    for inner in (schema.get("properties") or {}).values():
        if isinstance(inner, Mapping):
            yield inner
            yield from parameters_of(inner)
            items = inner.get("items")
            yield from parameters_of(items) if isinstance(items, Mapping) else ()


def figures(tools: Sequence[tuple[str, ToolSpec]]) -> dict[str, str]:
    """Return the figures of one source of tools."""
    specs = [spec for _, spec in tools]
    tops = [list((s.parameters.get("properties") or {}).values()) for s in specs]
    every = [p for spec in specs for p in parameters_of(spec.parameters)]
    count = Counter(min(len(top), 5) for top in tops)
    each = Counter(server for server, _ in tools)
    words = [len(spec.description.split()) for spec in specs]

    def share(found: Iterator[bool], whole: int = len(specs)) -> str:
        return f"{sum(found) / whole:.1%}"

    return {
        "tools": f"{len(specs):,}",
        "applications or servers": f"{len(each):,}",
        "tools of each: median, mean": f"{median(each.values()):g}, {mean(each.values()):.1f}",
        "parameters: mean": f"{mean(len(top) for top in tops):.2f}",
        "tools with 0 · 1 · 2 · 3 · 4 · 5 and more": " · ".join(
            f"{count[n] / len(specs):.0%}" for n in range(6)
        ),
        "tools with a nested object": share(
            any("properties" in p for p in parameters_of(s.parameters)) for s in specs
        ),
        "tools with an enum": share(
            any("enum" in p for p in parameters_of(s.parameters)) for s in specs
        ),
        "tools that change state": share(s.effect in ("write", "destructive") for s in specs),
        "words of a description: quartiles": " · ".join(
            str(sorted(words)[len(words) * part // 4]) for part in (1, 2, 3)
        ),
        "parameters with a description": share(
            (bool(str(p.get("description") or "").strip()) for p in every), len(every)
        ),
    }


def shapes(evolved: Evolved, crawled: Sequence[tuple[str, ToolSpec]]) -> None:
    """Write the figures of evolved tools, of those that count, and of crawled ones."""
    some = [t for t, counts in zip(evolved.tools, evolved.counted, strict=True) if counts]
    columns = [figures(evolved.tools), figures(some), figures(crawled)]
    put("## Shapes", "| | evolved | of these, those that count | crawled |", "|---|---:|---:|---:|")
    for name in columns[0]:
        put(f"| {name} | {' | '.join(column[name] for column in columns)} |")
    put("")


def covered(workspace: Workspace) -> None:
    """Write how many cells of category and effect have tools of which kind."""
    with workspace.read() as con:
        found = coverage(con)
    held = ", ".join(f"{who} {count}" for who, count in found["held_by"].items())
    bits = ", ".join(f"{k} {v:.2f}" for k, v in found["entropy"].items() if v is not None)
    thin = sorted(found["cells"], key=lambda c: c.real + c.synthetic)[:5]
    put("## Coverage", f"cells of category and effect held by: {held}", f"entropy in bits: {bits}")
    put(
        "thinnest: "
        + "; ".join(f"{c.category}, {c.effect}: {c.real} + {c.synthetic}" for c in thin)
    )
    put("")


# --- tasks -----------------------------------------------------------------------------------


def tasks(evolved: Evolved, count: int, seed: int) -> None:
    """Write what the gate says of tasks of random applications."""
    some = random.Random(seed).sample(evolved.applications, min(count, len(evolved.applications)))
    said: Found = Counter()
    undrawn: Found = Counter()
    for application in some:
        found, missed = asyncio.run(admissions(application, 2, tries=16))
        said += found
        undrawn += missed
    admitted = sum(n for (_, reason), n in said.items() if reason == "admitted")
    put("## Tasks", f"{admitted} of {said.total()} tasks of {len(some)} applications are admitted")
    put(*(f"rejected: {kind}, {why}: {n}" for (kind, why), n in said.items() if why != "admitted"))
    drawn = said.total() / (said.total() + undrawn.total())
    put(f"{drawn:.1%} of the draws came to a task; the others:")
    put(*(f"{kind}, {why}: {n}" for (kind, why), n in undrawn.most_common(8)), "")


# --- the gallery -----------------------------------------------------------------------------


def sample(evolved: Evolved, count: int, seed: int) -> str:
    """Return random tools as a page shows them."""
    chosen = random.Random(seed).sample(evolved.tools, count)
    lines = [f"{count} of {len(evolved.tools):,} tools, drawn with seed {seed}.", ""]
    for number, (application, spec) in enumerate(chosen, start=1):
        about = (
            f"{number}. `{spec.name}` of {application} ({spec.effect.value}): {spec.description}"
        )
        lines += [about, *(f"   - {line}" for line in told(spec.parameters))]
    return "\n".join(lines) + "\n"


def told(schema: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield a line about each parameter."""
    required = schema.get("required", ())
    for name, inner in (schema.get("properties") or {}).items():
        kind = "enum" if "enum" in inner else inner.get("format") or inner.get("type")
        optional = "" if name in required else ", optional"
        values = " " + ", ".join(f"`{v}`" for v in inner["enum"][:6]) if "enum" in inner else ""
        more = ", …" if len(inner.get("enum", ())) > 6 else ""
        yield f"`{path}{name}` ({kind}{optional}): {inner.get('description', '')}{values}{more}"
        yield from told(inner, f"{path}{name}.")


def write_gallery(text: str) -> None:
    """Put the sample in the place of the last one; what a reader wrote above it stays."""
    head, _, _ = GALLERY.read_text(encoding="utf-8").partition(MARK)
    GALLERY.write_text(f"{head.rstrip()}\n\n{MARK}\n{text}", encoding="utf-8")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workspace", type=Path)
    parser.add_argument("catalog", nargs="?", help="crawled tools to compare with")
    parser.add_argument("--tasks", type=int, default=200, metavar="N", help="applications")
    parser.add_argument("--gallery", type=int, metavar="N", help="only write so many tools down")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    evolved = Evolved.of(given.workspace)
    if given.gallery:
        write_gallery(sample(evolved, given.gallery, given.seed))
        return
    duplicates(evolved)
    if given.catalog:
        with tempfile.TemporaryDirectory() as folder:
            copy = Workspace(Path(folder))
            if (given.workspace / "registry.duckdb").exists():
                shutil.copy(given.workspace / "registry.duckdb", folder)
            shutil.copytree(folder_of(given.workspace), folder_of(copy.path))
            enter(copy)
            catalog = source_of(given.catalog)
            if not isinstance(catalog, Catalog):
                parser.error(f"{given.catalog} is no catalog")
            import_catalog(catalog, given.catalog, copy)
            with copy.read() as con:
                rows = con.execute(_CRAWLED).fetchall()
            crawled = [(server, ToolSpec.model_validate_json(text)) for server, text in rows]
            shapes(evolved, crawled)
            covered(copy)
    tasks(evolved, given.tasks, given.seed)


if __name__ == "__main__":
    main()
