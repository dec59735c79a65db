"""The state of a sandbox: a folder as a value, and when its entries were changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from simulators.live.folder import (
    CLOCK_NS,
    FILE_MODE,
    FOLDER_MODE,
    MAX_DEPTH,
    MAX_ENTRIES,
    MAX_FILE,
    MAX_TOTAL,
    Link,
    Tree,
)
from synth.core.errors import BadRow
from synth.core.sandbox import room

_FORMAT = "toolloom/sandbox/1"
_CLOCK_S = CLOCK_NS // 10**9
_MAX_STEP = 1 << 31
MAX_NAME, _MAX_TARGET = 255, 4095
"""Bytes of a name, and of what a link leads to."""


@dataclass(frozen=True, slots=True)
class State:
    """A folder, and in which step each of its entries was changed last.

    Steps are told to programs as times, a second each: a build made in one step is older than a
    source that was edited in the next, on every machine and whenever that was.
    """

    tree: Tree
    steps: Mapping[str, int] = field(default_factory=dict)
    """Path -> number of the step, where it is not 0."""
    step: int = 0

    def then(self, tree: Tree) -> State:
        """Return what the next step made of it."""
        old, step = self.tree.entries, self.step + 1
        same = {path for path, entry in tree.entries.items() if path in old and old[path] == entry}
        steps = {path: self.steps.get(path, 0) if path in same else step for path in tree.entries}
        return State(tree, {path: number for path, number in steps.items() if number}, step)

    def packed(self) -> bytes:
        """Return the folder as `synth.core.sandbox.room` takes it, parents before their content."""
        parts = []
        for path, entry in [(".", None), *sorted(self.tree.entries.items())]:
            usual = FOLDER_MODE if entry is None else FILE_MODE
            name, mode = os.fsencode(path), self.tree.modes.get(path, usual)
            content = os.fsencode(entry.target) if isinstance(entry, Link) else entry or b""
            kind = b"d" if entry is None else b"l" if isinstance(entry, Link) else b"f"
            time = _CLOCK_S + self.steps.get(path, 0)
            parts += [room.HEAD.pack(kind, mode, time, len(name), len(content)), name, content]
        return b"".join(parts)

    def pack(self) -> bytes:
        """Return the state as bytes; equal states give equal bytes."""
        steps = [self.steps.get(path, 0) for path in sorted(self.tree.entries)]
        head = orjson.dumps({"format": _FORMAT, "step": self.step, "steps": steps})
        return head + b"\n" + self.tree.pack()

    @classmethod
    def unpack(cls, data: bytes) -> State:
        """Read what `pack` wrote.

        Raises:
            BadRow: `data` is no packed state, or of a folder that cannot be.
        """
        head, _, packed = data.partition(b"\n")
        tree = Tree.unpack(packed)
        try:
            said = orjson.loads(head)
            if said["format"] != _FORMAT:
                raise ValueError(f"its format is {said['format']!r}")
            _check(tree)
            step, numbers = said["step"], said["steps"]
            if not all(type(number) is int and 0 <= number <= step for number in [*numbers, step]):
                raise ValueError("its steps are no numbers up to that of the last")
            if step > _MAX_STEP:
                raise ValueError("it has too many steps")
            pairs = zip(sorted(tree.entries), numbers, strict=True)
            return cls(tree, {path: number for path, number in pairs if number}, step)
        except (ValueError, TypeError, KeyError) as error:
            raise BadRow(f"not a snapshot of a sandbox: {error}") from error


def _check(tree: Tree) -> None:
    """Raise ValueError if no folder within the bounds is like that: a snapshot may be anybody's."""
    entries = tree.entries
    sizes = [len(entry) for entry in entries.values() if isinstance(entry, bytes)]
    if len(entries) > MAX_ENTRIES or sum(sizes) > MAX_TOTAL or max(sizes, default=0) >= MAX_FILE:
        raise ValueError("its folder is too large")
    for path, entry in entries.items():
        parts = path.split("/")
        if len(parts) > MAX_DEPTH + 1 or any(
            part in ("", ".", "..") or "\0" in part or len(os.fsencode(part)) > MAX_NAME
            for part in parts
        ):
            raise ValueError(f"{path[:80]!r} is no path in a folder")
        if len(parts) > 1 and entries.get("/".join(parts[:-1]), b"") is not None:
            raise ValueError(f"{path[:80]!r} lies in no folder")
        target = os.fsencode(entry.target) if isinstance(entry, Link) else b"."
        if not target or b"\0" in target or len(target) > _MAX_TARGET:
            raise ValueError(f"{path[:80]!r} leads nowhere")
