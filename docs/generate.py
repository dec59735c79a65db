"""Makes the generated pages of the documentation, and the picture of the README, from the code.

make docs            writes them; the tests fail where they are out of date
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import io
import re
import sys
import tempfile
import textwrap
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.terminal_theme import MONOKAI

from synth import app
from synth.core.config import load_config
from synth.core.store import MIGRATIONS, Workspace
from synth.core.types import TaskKind
from synth.dataset import COLUMNS
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.run import Episode, Planned, read_agents, read_episodes, read_plan
from synth.transcript import markdown, transcript

HERE = Path(__file__).parent
TESTS = HERE.parent / "tests"
HAZARD_KINDS = {
    "a": "Clients of models",
    "b": "Crawling servers",
    "c": "Foreign schemas",
    "d": "Simulated users",
    "f": "Faults of endpoints",
    "k": "Crash and resume",
    "l": "Cost and progress",
    "r": "Whole runs",
}
HAZARDS_HEAD = """\
What users of comparable systems reported, and the tests that hold what happens here. Tests carry
the ids as marks (`pytest.mark.claim`), and fail where this list and the marks differ
(`tests/paper/hazards.py`). All faults of endpoints can be had from `toolloom mock-llm`."""
MADE = "<!-- made by `make docs`; do not edit -->\n"
EVOLVED = "<!-- from here on: evolved tools; `make docs` leaves this part alone -->\n"
STYLES = {
    "user": ("user", "bold cyan"),
    "agent": ("agent", "bold green"),
    "call": ("  call", "yellow"),
    "result": ("  result", "bright_black"),
    "error": ("  error", "red"),
    "verdict": ("judge", "magenta"),
}
SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""
"""Rich's terminal picture without the fonts it would fetch from elsewhere."""


def pages() -> dict[str, str]:
    """Return every generated file: path below docs/ -> text."""
    with tempfile.TemporaryDirectory() as folder:
        episodes = _episodes(Path(folder))
        tables = _tables(Path(folder))
    return {
        "trajectory.svg": _picture(episodes),
        "gallery.md": _gallery(episodes) + _read_by_people(),
        "commands.md": _commands(),
        "data.md": _data(tables),
        "hazards.md": _hazards(),
    }


Sample = tuple[Planned, Episode, str]


def _episodes(folder: Path) -> list[Sample]:
    """Return accepted episodes of one small deterministic run, with each one's Markdown."""
    run = folder / "runs" / "docs"
    small = ["errors.rate=0", "tools=[5,8]", "states=2", "agents=8"]
    config = load_config(None, ["seed=4", *(f"generate.{setting}" for setting in small)])
    asyncio.run(generate(config, run, folder, Goal(accept=300)))
    plan = {planned.episode: planned for planned in read_plan(run)}
    agents = {agent.key: agent for agent in read_agents(run)}
    accepted = [episode for episode in read_episodes(run) if episode.verdict.passed]
    samples = []
    for episode in accepted:
        planned = plan[episode.trajectory.episode]
        samples.append((planned, episode, markdown(episode, planned.task, agents[planned.agent])))
    return samples


def _picture(samples: list[Sample]) -> str:
    """Draw the shortest conversation in which the policy forbids what the user wants."""
    forbidden = [s for s in samples if s[0].task.blueprint.kind is TaskKind.FORBIDDEN]
    planned, episode, _ = min(forbidden, key=lambda s: (len(s[2]), s[0].episode))
    console = Console(record=True, width=100, file=io.StringIO(), highlight=False)
    for line in transcript(episode, planned.task, longest=260):
        name, style = STYLES[line.speaker]
        for place, row in enumerate(textwrap.wrap(line.text, 88)):
            console.print(f"[{style}]{name if place == 0 else '':<9}[/] {escape(row)}")
    title = f"one episode: {planned.world}, {planned.task.persona.voice} user"
    svg = console.export_svg(title=title, theme=MONOKAI, code_format=SVG, unique_id="toolloom")
    return "\n".join(row.rstrip() for row in svg.splitlines()) + "\n"


def _gallery(samples: list[Sample]) -> str:
    """One accepted episode of every application, the kinds in turn."""
    worlds, kinds = sorted({planned.world for planned, _, _ in samples}), list(TaskKind)
    intro = f"One accepted episode of each of {len(worlds)} applications, offline players."
    parts = [MADE, "# Gallery", "", intro, ""]
    for place, world in enumerate(worlds):
        of_world = [s for s in samples if s[0].world == world]
        wanted = kinds[place % len(kinds)]
        chosen = [s for s in of_world if s[0].task.blueprint.kind is wanted] or of_world
        parts.append(min(chosen, key=lambda s: s[0].index)[2])
    return "\n".join(parts)


def _read_by_people() -> str:
    """The sample of evolved tools, which `bench/bench_evolution.py` draws and people comment on."""
    _, mark, rest = (HERE / "gallery.md").read_text(encoding="utf-8").partition(EVOLVED)
    return f"\n{mark}{rest}" if mark else ""


def _commands() -> str:
    """The help of every command."""
    parts = [MADE, "# Commands", ""]
    for name, summary in app.COMMANDS.items():
        module = app.module_of(name)
        parser = argparse.ArgumentParser(
            prog=f"toolloom {name}",
            description=module.__doc__,
            formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=96),
        )
        module.configure(parser)
        parts += [f"## toolloom {name}", f"{summary[0].upper()}{summary[1:]}.", "", "```text"]
        parts += [parser.format_help().rstrip(), "```", ""]
    return "\n".join(parts)


def _tables(folder: Path) -> list[tuple[str, str, str]]:
    with Workspace(folder).read() as con:
        return con.execute(
            "SELECT table_name, column_name, data_type FROM duckdb_columns() "
            "WHERE NOT internal ORDER BY table_name, column_index"
        ).fetchall()


def _data(tables: list[tuple[str, str, str]]) -> str:
    """The columns of a dataset row and of every table."""
    parts = [MADE, "# Data", "", "## A dataset row", "", "| column | type |", "|---|---|"]
    parts += [f"| `{name}` | `{kind}` |" for name, kind in COLUMNS.items()]
    parts += ["", "`tools`, `players` and `criteria` are JSON text (see `docs/decisions`).", ""]
    about, columns, macros = _schema_notes()
    kept = ("tools", "tool_versions", "servers", "crawls", "steps")
    anywhere = {c: columns[t, c] for t in reversed(kept) for u, c in columns if u == t}
    parts += ["## Tables and views of registry.duckdb", "", SCHEMA_HEAD]
    for table in dict.fromkeys(row[0] for row in tables):
        parts += ["", f"### {table}", ""] + ([about[table], ""] if table in about else [])
        parts += ["| column | type | |", "|---|---|---|"]
        parts += [
            f"| `{name}` | {kind} | {columns.get((table, name)) or anywhere.get(name, '')} |"
            for t, name, kind in tables
            if t == table
        ]
    parts += ["", "## Macros", "", "| macro | |", "|---|---|"]
    parts += [f"| `{name}` | {text} |" for name, text in macros]
    parts += [
        "",
        "Which rows used version 2 of a tool, and which model was trained on them:",
        "",
        "```sql",
        "SELECT run, episode, export, base_model FROM tool_usage WHERE tool = ? AND version = 2;",
        "```",
        "",
        "From which server a row came: `SELECT DISTINCT server FROM row_origin WHERE episode = ?`.",
        "",
        "A tool turns out to be poisoned: the rows to take out, also those of applications evolved",
        "from its own, and the checkpoints that learned from them:",
        "",
        "```sql",
        "SELECT export, row, how, tools, checkpoint FROM affected(?) WHERE export IS NOT NULL;",
        "```",
        "",
    ]
    return "\n".join(parts)


SCHEMA_HEAD = """They are there in any DuckDB, nothing of toolloom loaded: `duckdb -readonly
registry.duckdb`, or `duckdb.connect("registry.duckdb", read_only=True)` in Python. Questions to
start with stand in [the registry's page](registry.md)."""
_OBJECT = re.compile(
    r"((?:^--[^\n]*\n)*)^CREATE (?:OR REPLACE )?(TABLE|VIEW|MACRO) (\w+)(\([\w, ]*\))?([^;]*;)",
    re.MULTILINE,
)
_COLUMN = re.compile(r"^ +\"?(\w+)\"? +[A-Z]+[^-\n]*-- *(.*(?:\n +-- .*)*)", re.MULTILINE)
_ADDED = re.compile(r"^ALTER TABLE (\w+) ADD COLUMN (\w+) [^-\n]*-- *(.*)", re.MULTILINE)


def _schema_notes() -> tuple[dict[str, str], dict[tuple[str, str], str], list[tuple[str, str]]]:
    """What the comments of the migrations say of tables and views, of columns, and of macros."""
    about: dict[str, str] = {}
    columns: dict[tuple[str, str], str] = {}
    macros: dict[str, str] = {}
    for file in sorted(MIGRATIONS.glob("*.sql")):
        sql = file.read_text(encoding="utf-8")
        for table, column, text in _ADDED.findall(sql):
            columns[table, column] = _note(text)
        for comment, kind, name, signature, body in _OBJECT.findall(sql):
            text = _note(comment)
            if kind == "MACRO":
                macros[f"{name}{signature}"] = text
                continue
            if text:
                about[name] = text
            if kind == "TABLE":
                columns |= {(name, column): _note(t) for column, t in _COLUMN.findall(body)}
    return about, columns, list(macros.items())


def _note(comment: str) -> str:
    """The words of a comment in one line, for a table of Markdown."""
    return " ".join(re.sub(r"(?m)^ *-- ?", " ", comment).split()).replace("|", "\\|")


def _hazards() -> str:
    """What was seen to go wrong elsewhere, and the tests that hold what happens here."""
    spec = importlib.util.spec_from_file_location("hazards", TESTS / "paper" / "hazards.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parts = [MADE, "# Hazards", "", HAZARDS_HEAD]
    kind = ""
    for name, hazard in module.HAZARDS.items():
        if name[0] != kind:
            kind = name[0]
            parts += ["", f"## {HAZARD_KINDS[kind]}"]
        source = f" ({hazard.source})" if hazard.source else ""
        held = ", ".join(f"`{test}`" for test in hazard.tests)
        held = f"Held by {held}." if held else f"No test: {hazard.gap}."
        parts.append(f"- **{name}**{source}: {hazard.wrong}. *Here:* {hazard.here}. {held}")
    return "\n".join(parts) + "\n"


def main() -> int:
    """Write the pages."""
    for name, text in pages().items():
        (HERE / name).write_text(text, encoding="utf-8")
        print(HERE / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
