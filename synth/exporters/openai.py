"""JSON Lines of OpenAI messages and tools: what fine-tuning APIs and most trainers read.

Keys that a message does not have are absent, not null.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from synth.exporters._lines import Lines


def same(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row: it is in this shape already."""
    return dict(row)


EXPORTER = Lines(".jsonl", same, same)
