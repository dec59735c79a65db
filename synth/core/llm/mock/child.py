"""The endpoint as a process of its own, for tests that kill it or its client."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synth.core.errors import ToolloomError
from synth.core.jsonl import read


@dataclass(frozen=True, slots=True)
class Child:
    """One running `toolloom mock-llm`."""

    url: str
    process: subprocess.Popen[str]
    ledger: Path

    def entries(self) -> list[dict[str, Any]]:
        """Return the ledger so far."""
        return list(read(self.ledger))


@contextmanager
def child(ledger: Path, *options: str) -> Iterator[Child]:
    """Run the command until the end of the block.

    Args:
        ledger: file of its ledger.
        *options: of the command line, such as `--fault-rate=0.3`.

    Raises:
        ToolloomError: it did not start; says why.
    """
    command = [sys.executable, "-m", "synth", "mock-llm", f"--ledger={ledger}", *options]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        if not url:
            raise ToolloomError(f"mock-llm did not start: {process.communicate()[1].strip()}")
        yield Child(url, process, ledger)
    finally:
        process.terminate()
        process.communicate()
