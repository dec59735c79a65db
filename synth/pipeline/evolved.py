"""Evolved applications of a workspace, for whoever uses them: nothing is loaded that makes them."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

from synth.core import jsonl
from synth.core.application import Application
from synth.core.errors import UnknownName


def folder_of(workspace: Path) -> Path:
    """Return where evolved applications are."""
    return workspace / "evolved"


def evolved(workspace: Path, patterns: Iterable[str]) -> dict[str, Application]:
    """Return the evolved applications of a workspace whose names match, by name.

    Args:
        workspace: the folder.
        patterns: names, with `*` and `?` as in file names.

    Raises:
        UnknownName: a pattern matches none.
    """
    rows = list(jsonl.read(folder_of(workspace) / "applications.jsonl"))
    found: dict[str, Application] = {}
    for pattern in patterns:
        matched = [row for row in rows if fnmatchcase(row["application"], pattern)]
        if not matched:
            names = [row["application"] for row in rows]
            raise UnknownName("evolved application", pattern, names)
        for row in matched:
            if row["application"] not in found:
                found[row["application"]] = Application.model_validate(row["document"])
    return found
