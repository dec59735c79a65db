"""Documentation that runs: Python blocks are executed, generated pages are up to date."""

import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python(?: needs (\w+))?\n(.*?)^```", re.M | re.S)
"""What it needs beside this project, if anything; and the program."""


@pytest.mark.parametrize(
    ("page", "needs", "code"),
    [
        pytest.param(page, needs, code, id=f"{page.name}-{number}")
        for page in PAGES
        for number, (needs, code) in enumerate(BLOCK.findall(page.read_text(encoding="utf-8")))
    ],
)
def test_python_blocks_run(page, needs, code, tmp_path):
    if needs and importlib.util.find_spec(needs) is None:
        pytest.skip(f"{needs} is not installed")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_generated_pages_are_up_to_date():
    """`make docs` writes them."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    stale = [
        name
        for name, text in generate.pages().items()
        if (ROOT / "docs" / name).read_text(encoding="utf-8") != text
    ]
    assert not stale


def test_the_readme_counts_what_is_installed():
    from simulators.sql.load import applications, load_application

    installed = [load_application(name) for name in applications()]
    tables = sum(len(re.findall("CREATE TABLE", one.table_sql)) for one in installed)
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert len(installed) == 15
    assert f"{sum(len(one.tools) for one in installed)} tools over {tables} tables" in text
    assert f"{sum(len(one.policy_rules) for one in installed)} rules" in text
    assert f"{sum(len(one.never) for one in installed)} statements" in text


def test_the_readme_counts_what_evolution_has_and_what_crawls_are_held_against():
    from tool_registry.composer.vocabulary import names, vocabulary
    from tool_registry.operator import OPERATORS

    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    entities = sum(1 + len(vocabulary(name).entities) for name in names())  # and their owner
    assert f"{len(names())} categories and {entities} entities" in text
    assert f"rewrites them with {len(OPERATORS.names())} operators" in text
    servers = ROOT / "tests" / "servers"
    modes = [
        len(runpy.run_path(str(servers / f"{name}.py"), run_name="read")["MODES"])
        for name in ("hostile", "hostile_http")
    ]
    assert f"a suite](docs/hazards.md) of {sum(modes)}" in text


def test_links_between_pages_lead_somewhere():
    broken = [
        f"{page.name}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not broken


def test_shell_lines_name_real_commands():
    from synth.app import COMMANDS

    lines = [
        line
        for page in PAGES
        for block in re.findall(r"^```sh\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)
        for line in block.splitlines()
        if line.startswith("toolloom ")
    ]
    assert len(lines) >= 10
    assert not [line for line in lines if line.split()[1] not in COMMANDS]
