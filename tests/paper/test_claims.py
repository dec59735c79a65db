"""The manifest of claims names tests that exist, and the page about the reports lists it whole."""

import ast
import importlib.util
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("claims", Path(__file__).with_name("claims.py"))
CLAIMS = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(CLAIMS)
CLAIMS = CLAIMS.CLAIMS


def functions(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_has_tests_that_exist_or_says_why_it_has_none(name):
    claim = CLAIMS[name]
    assert bool(claim.tests) != bool(claim.gap)
    for test in claim.tests:
        file, _, function = test.partition("::")
        found = functions(TESTS / file)
        assert function in found if function else any(f.startswith("test_") for f in found)


def test_every_row_of_the_page_about_the_reports_has_a_claim_or_the_other_way_round():
    page = (TESTS.parent / "docs" / "papers.md").read_text(encoding="utf-8")
    missing = [name for name in CLAIMS if f"`{name}`" not in page]
    assert not missing
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    listed = {row.split("`")[1] for row in rows}
    assert listed == set(CLAIMS)
