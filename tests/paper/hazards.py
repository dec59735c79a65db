"""What users of comparable systems reported to have gone wrong, and the tests that hold it here.

Ids begin with the kind: a clients of models, b crawling servers, c foreign schemas, d simulated
users, f faults of endpoints, k crash and resume, l cost and progress, r promises about whole runs.
Tests carry them as marks like those of `claims.py`; `test_claims.py` checks both directions, and
`docs/hazards.md` is made of this file.
"""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import NamedTuple


class Hazard(NamedTuple):
    """One kind of fault."""

    source: str
    """Public reports of it: project#issue."""
    wrong: str
    """What goes wrong elsewhere."""
    here: str
    """What happens here instead."""
    tests: tuple[str, ...] = ()
    """`path::function` below tests/."""
    gap: str = ""
    """Why there is no test."""


def _rows(part: str) -> dict[str, Hazard]:
    rows = runpy.run_path(str(Path(__file__).with_name(f"hazards_{part}.py")))["HAZARDS"]
    return {name: Hazard(*row) for name, row in rows.items()}


HAZARDS = {**_rows("models"), **_rows("crawls"), **_rows("runs")}
