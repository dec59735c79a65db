"""The state of a sandbox: a folder as a value, and when its entries were changed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

import orjson

from simulators.live.folder import CLOCK_NS, FILE_MODE, FOLDER_MODE, Link, Tree
from synth.core.errors import BadRow
from synth.core.sandbox import room

_FORMAT = "toolloom/sandbox/1"
_CLOCK_S = CLOCK_NS // 10**9


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
            BadRow: `data` is no packed state.
        """
        head, _, packed = data.partition(b"\n")
        tree = Tree.unpack(packed)
        try:
            said = orjson.loads(head)
            if said["format"] != _FORMAT:
                raise ValueError(f"its format is {said['format']!r}")
            pairs = zip(sorted(tree.entries), said["steps"], strict=True)
            steps = {path: int(number) for path, number in pairs if number}
            return cls(tree, steps, int(said["step"]))
        except (ValueError, TypeError, KeyError) as error:
            raise BadRow(f"not a snapshot of a sandbox: {error}") from error
