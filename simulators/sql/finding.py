"""One thing that is wrong with an application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from synth.core.errors import ToolloomError


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, and what to do about it."""

    level: Literal["error", "warning"]
    where: str
    """Application and path in its file: `bank: tools.send_transfer.intent`."""
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{self.level}: {self.where}: {self.what}{remedy}"

    @classmethod
    def of(cls, error: ToolloomError) -> Finding:
        """Return an error of loading, rendering or running as a finding."""
        return cls("error", error.where, error.what, error.remedy)
