"""Budgets: a file or function over them has a missing noun in it."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = [
    path
    for package in ("synth", "tool_registry", "simulators", "train")
    for path in sorted((ROOT / package).rglob("*.py"))
]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_stay_within_400_lines_and_functions_within_60(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 400
    long = [
        node.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, FUNCTIONS) and node.end_lineno - node.lineno + 1 > 60
    ]
    assert not long


def test_no_module_is_called_after_nothing():
    assert not [p for p in FILES if p.stem in {"utils", "common", "helpers", "misc"}]
