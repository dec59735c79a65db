"""What people want of a file store: single errands over an `Office`, to be combined into goals.

An errand knows the calls that do it, in stages (calls of one stage do not depend on one another),
the values to be reported, a look-alike that does the same to the wrong thing, and other endings
that are as good. It is only a plan: whoever uses it runs it on the live server and keeps what
really happened.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from simulators.live.office import Office
from synth.core.errors import NotSuitable
from synth.core.types import Effect, Fact, OutputValue, PlannedCall

Stages: TypeAlias = tuple[tuple[PlannedCall, ...], ...]


@dataclass(frozen=True, slots=True)
class Errand:
    """One thing a user wants done or told."""

    about: str
    """What it touches: errands about different things can be done side by side."""
    clauses: tuple[str, ...]
    stages: Stages
    wrong: Stages
    """The same done to, or read from, something else."""
    facts: tuple[Fact, ...] = ()
    outputs: tuple[OutputValue, ...] = ()
    evidence: tuple[str, ...] = ()
    """Texts that the server must return on the way, or the plan is wrong."""
    variants: tuple[Stages, ...] = ()
    """Other ways to do it whose outcome on disk differs and is as good."""


@dataclass(frozen=True, slots=True)
class Desk:
    """An office, and the tools at hand to work on it."""

    office: Office
    root: str
    effects: Mapping[str, Effect]
    """Tools of the agent -> effect."""
    rng: random.Random

    def at(self, path: str) -> str:
        """Return the full path that a call takes."""
        return f"{self.root}/{path}"

    def call(self, tool: str, **arguments: Any) -> PlannedCall:
        """Return a call of `tool`.

        Raises:
            NotSuitable: the agent does not have it.
        """
        if tool not in self.effects:
            raise NotSuitable("toolset")
        return PlannedCall(tool=tool, arguments=arguments, group=0, effect=self.effects[tool])

    def find(self, part: str, folder: str = "") -> PlannedCall:
        """Look for files whose name holds `part`, which lie in `folder` (for lists by folder)."""
        root = self.root if not folder else self.at(folder)
        if "search_files" in self.effects:
            return self.call("search_files", path=self.root, pattern=f"**/*{part}*")
        if "directory_tree" in self.effects:
            return self.call("directory_tree", path=self.root)
        if folder:
            return self.call("list_directory", path=root)
        raise NotSuitable("toolset")

    def read(self, path: str) -> PlannedCall:
        """Read one file."""
        if "read_text_file" in self.effects:
            return self.call("read_text_file", path=self.at(path))
        return self.call("read_multiple_files", paths=[self.at(path)])

    def edit(self, path: str, text: str, old: str, new: str) -> PlannedCall:
        """Replace `old`, which occurs once in the file's `text`."""
        if "edit_file" in self.effects:
            edits = [{"oldText": old, "newText": new}]
            return self.call("edit_file", path=self.at(path), edits=edits)
        return self.write(path, text.replace(old, new))

    def write(self, path: str, content: str) -> PlannedCall:
        """Write a whole file."""
        return self.call("write_file", path=self.at(path), content=content)

    def folder(self, path: str) -> PlannedCall:
        """Create a folder."""
        return self.call("create_directory", path=self.at(path))

    def move(self, source: str, destination: str) -> PlannedCall:
        """Move or rename a file."""
        return self.call("move_file", source=self.at(source), destination=self.at(destination))

    def two(self, items: tuple[Any, ...]) -> tuple[Any, Any]:
        """Draw the thing meant and another of the kind, for the decoy."""
        if len(items) < 2:
            raise NotSuitable("no_goal")
        first, second = self.rng.sample(items, 2)
        return first, second


Recipe: TypeAlias = Callable[[Desk], Errand]
"""Draws an errand. Raises `NotSuitable` where office or toolset have nothing for it."""
