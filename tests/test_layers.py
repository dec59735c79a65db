"""The direction of imports, read from the source (lazy imports included)."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("synth", "tool_registry", "simulators", "train")
TOP = ("synth.app", "synth.__main__")
WIRING = ("synth.pipeline", *TOP)


def modules():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(name, *packages):
    return any(name == package or name.startswith(package + ".") for package in packages)


def allowed(module, target):
    """Say whether `module` may import `target` (both dotted names of ours)."""
    if within(module, *TOP):
        return True
    if within(target, *TOP):
        return False
    if within(module, "train"):
        return True
    if within(target, "train"):
        return False
    if within(module, "synth.pipeline"):
        return True
    if within(target, "synth.pipeline"):
        return False
    if within(module, "synth.core"):
        return within(target, "synth.core") or target == "synth"
    if within(module, "synth"):
        return within(target, "synth")
    sibling = module.split(".")[0]
    return within(target, sibling, "synth.core") or target == "synth"


@pytest.mark.parametrize(("module", "path"), list(modules()), ids=lambda v: str(v))
def test_arrows_point_down_only(module, path):
    wrong = {
        target
        for target in imports(path)
        if within(target, *PACKAGES) and not allowed(module, target)
    }
    assert not wrong, f"{module} may not import {sorted(wrong)}"


@pytest.mark.parametrize(
    ("module", "target", "expected"),
    [
        ("synth.core.types", "synth.play", False),
        ("synth.play", "simulators.sql", False),
        ("simulators.sql.engine", "tool_registry.crawl", False),
        ("simulators.sql.engine", "synth.core.types", True),
        ("simulators.sql.engine", "synth.play", False),
        ("synth.pipeline", "simulators.sql", True),
        ("synth.pipeline", "train.sft", False),
        ("train.evaluate", "synth.play", True),
        ("train.evaluate", "synth.app.demo", False),
        ("synth.app.demo", "train.sft", True),
    ],
)
def test_the_rule_itself_tells_right_from_wrong(module, target, expected):
    assert allowed(module, target) is expected


def test_the_package_synth_is_a_docstring():
    body = ast.parse((ROOT / "synth/__init__.py").read_text(encoding="utf-8")).body
    assert len(body) == 1
    assert ast.get_docstring(ast.Module(body, []))
