"""What a crawl did, written down as it happens: one JSON line for each server.

The ledger is the truth and the registry its index. A crawl that was killed goes on where it
stopped: servers with a line are not asked again. The last line says that all of it was ingested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from synth.core.canonical import content_key
from synth.core.jsonl import Appender, read
from synth.core.store import now
from tool_registry.source import Listing, Target

_FACTS = (
    "package_version", "latest_version", "licence", "homepage", "constraint", "protocol",
    "server_info", "instructions", "argv", "confinement", "network", "install_s", "start_s",
    "list_s", "stderr_tail",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One attempt to list one server."""

    crawl: str
    """Identity of the attempt."""
    target: dict[str, Any]
    started_at: str
    seconds: float
    outcome: str
    """`ok`, or one word for the failure."""
    reason: str | None
    facts: dict[str, Any]
    flags: list[str]
    tools: list[str]
    """JSON text of each entry, as the server wrote it."""
    content: str | None = None
    """Hash of what a catalog said; None where a server was asked."""

    @property
    def server(self) -> str:
        """Return the server's identity in the registry."""
        return str(self.target["server"])


class Ledger:
    """The file of one crawl.

    Args:
        folder: where ledgers lie.
        targets: what the crawl shall list; the same targets continue an unfinished ledger.
    """

    def __init__(self, folder: Path, targets: Sequence[Target]) -> None:
        key = content_key(sorted(identity(target) for target in targets), digits=12)
        number = 1
        while _is_finished(self._path(folder, key, number)):
            number += 1
        self.path = self._path(folder, key, number)
        self.entries: dict[str, Entry] = {
            identity_of(entry.target): entry for entry in entries(self.path)
        }
        self._file = Appender(self.path)

    @staticmethod
    def _path(folder: Path, key: str, number: int) -> Path:
        return folder / f"{key}-{number:03d}.jsonl"

    def entry_of(self, target: Target) -> Entry | None:
        """Return what is already written about a target."""
        return self.entries.get(identity(target))

    def add(self, entry: Entry) -> None:
        """Write an entry down."""
        row = {name: getattr(entry, name) for name in Entry.__slots__}
        self._file.append(orjson.dumps(row))
        self._file.sync()
        self.entries[identity_of(entry.target)] = entry

    def finish(self) -> None:
        """Say that everything was ingested: the next crawl of these targets starts anew."""
        self._file.append({"finished": now().isoformat()})
        self.close()

    def close(self) -> None:
        """Close the file. Harmless when called twice."""
        self._file.close()


def identity(target: Target) -> str:
    """Return what makes two targets the same."""
    return identity_of(target.record())


def identity_of(record: dict[str, Any]) -> str:
    """Return what makes two targets the same, from their record."""
    return content_key(record)


def entries(path: Path) -> list[Entry]:
    """Return the entries of a ledger; a torn last line is left out."""
    return [Entry(**row) for row in read(path) if "finished" not in row]


def _is_finished(path: Path) -> bool:
    return any("finished" in row for row in read(path))


def facts_of(listing: Listing) -> dict[str, Any]:
    """Return what is known about an attempt, as it is written down."""
    return {name: getattr(listing, name) for name in _FACTS}
