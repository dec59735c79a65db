"""JSON Lines of OpenAI messages and tools: what fine-tuning APIs and most trainers read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from synth.core.jsonl import write_atomic


class OpenAIExporter:
    """One row a line. Keys a message does not have are absent, not null."""

    suffix = ".jsonl"

    def write(self, rows: Iterable[dict[str, Any]], path: Path) -> int:
        """Write the rows; return how many.

        Raises:
            DiskFull: the old file, if any, is untouched.
        """
        lines = [orjson.dumps(row) for row in rows]
        write_atomic(path, b"".join(line + b"\n" for line in lines))
        return len(lines)


EXPORTER = OpenAIExporter()
