"""What a coding agent is given to work on, and what decides whether it did."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeAlias

from simulators.sql.yaml12 import read_yaml


@dataclass(frozen=True, slots=True)
class Project:
    """A folder to begin with, and tests that its agent does not see."""

    name: str
    request: str
    """What is wanted, in the words of a user."""
    files: Mapping[str, bytes]
    """Path -> content at the beginning."""
    hidden: Mapping[str, bytes]
    """Path -> content of `unittest` modules `test_*.py`, which import from the folder."""
    solution: Mapping[str, bytes]
    """Path -> content of what has to be other for the hidden tests to pass."""


Projects: TypeAlias = Callable[[int], Project]
"""Seed -> project; same seed, same project."""


def shipped(seed: int) -> Project:
    """Return one of the example projects; every one of them is some seed's."""
    names = example_names()
    return example(names[seed % len(names)])


@functools.cache
def example_names() -> tuple[str, ...]:
    """Return the names of the example projects."""
    found = resources.files("simulators.sandbox").joinpath("projects").iterdir()
    return tuple(sorted(p.name.removesuffix(".yaml") for p in found if p.name.endswith(".yaml")))


@functools.cache
def example(name: str) -> Project:
    """Return an example project by its name."""
    file = resources.files("simulators.sandbox").joinpath("projects", f"{name}.yaml")
    said: dict[str, Any] = read_yaml(file.read_text(encoding="utf-8"))
    files, hidden, solution = (
        {path: text.encode() for path, text in said[part].items()}
        for part in ("files", "hidden", "solution")
    )
    return Project(name, said["request"].strip(), files, hidden, solution)
