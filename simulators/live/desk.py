"""The tools of a file server as an office uses them: look for, read, edit, write, move.

A desk chooses among the tools its agent has: a file can be looked for by pattern, in the tree of
all folders, or in a folder's list; a line is edited, or the whole file is written again.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulators.live.office import Office
from simulators.live.world import Toolset
from synth.core.errors import NotSuitable
from synth.core.types import PlannedCall


@dataclass(frozen=True, slots=True)
class Desk(Toolset):
    """An office, and the tools at hand to work on it."""

    office: Office
    root: str

    def at(self, path: str) -> str:
        """Return the full path that a call takes."""
        return f"{self.root}/{path}"

    def find(self, part: str) -> PlannedCall:
        """Look everywhere for files whose name holds `part`."""
        if "search_files" in self.effects:
            return self.call("search_files", path=self.root, pattern=f"**/*{part}*")
        return self.call("directory_tree", path=self.root)

    def list(self, folder: str) -> PlannedCall:
        """Look at the names in a folder."""
        for tool in ("list_directory", "list_directory_with_sizes", "directory_tree"):
            if tool in self.effects:
                return self.call(tool, path=self.at(folder))
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
