"""The manifests and the tests name one another; the page on the reports lists its claims.

Two manifests: what the reports claim, and what users of comparable systems saw go wrong.
"""

import ast
import importlib.util
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent


def manifest(name):
    """Return what a module of this folder, which is no package, tells."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name.upper())


CLAIMS, HAZARDS = manifest("claims"), manifest("hazards")
ALL = {**CLAIMS, **HAZARDS}


def claimed(node):
    """Return the claims that an expression marks: `pytest.mark.claim("id")`, alone or in a list."""
    return [
        call.args[0].value
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.claim"
    ]


def marks(source):
    """Yield what is marked in a test file, with the claim; the whole file is ""."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark":
            yield from (("", claim) for claim in claimed(node.value))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                yield from ((node.name, claim) for claim in claimed(decorator))


def marked():
    """Claim -> tests that carry its mark, as the manifest writes them."""
    found = {}
    for path in TESTS.rglob("test_*.py"):
        for function, claim in marks(path.read_text(encoding="utf-8")):
            file = path.relative_to(TESTS).as_posix()
            found.setdefault(claim, set()).add(f"{file}::{function}" if function else file)
    return found


def test_a_claim_has_tests_or_says_why_it_has_none():
    assert len(ALL) == len(CLAIMS) + len(HAZARDS)
    assert [name for name, claim in ALL.items() if bool(claim.tests) == bool(claim.gap)] == []


def test_the_manifest_and_the_marks_in_the_tests_agree_in_both_directions():
    wanted = {name: set(claim.tests) for name, claim in ALL.items() if claim.tests}
    assert marked() == wanted


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("pytestmark = pytest.mark.claim('a')", [("", "a")]),
        ("pytestmark = [pytest.mark.slow, pytest.mark.claim('a')]", [("", "a")]),
        ("@pytest.mark.claim('a')\n@pytest.mark.claim('b')\ndef test_x(): ...",
         [("test_x", "a"), ("test_x", "b")]),
        ("@pytest.mark.skip\nasync def test_x(): ...", []),
    ],
)  # fmt: skip
def test_marks_are_found_where_tests_carry_them(source, found):
    assert list(marks(source)) == found


def test_every_row_of_the_page_about_the_reports_has_a_claim_or_the_other_way_round():
    page = (TESTS.parent / "docs" / "papers.md").read_text(encoding="utf-8")
    missing = [name for name in CLAIMS if f"`{name}`" not in page]
    assert not missing
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    listed = {row.split("`")[1] for row in rows}
    assert listed == set(CLAIMS)
