"""JSON Lines of preference pairs, for TRL's `DPOTrainer`: each continuation to its end."""

from __future__ import annotations

from synth.exporters._lines import Lines
from synth.exporters.openai import same
from synth.pairs import Width


class PreferenceExporter(Lines):
    """One pair a line.

    Args:
        pairs: how much of the two continuations a row holds.
        suffix: of the file.
    """

    def __init__(self, pairs: Width, suffix: str) -> None:
        super().__init__(suffix, same, same)
        self.pairs = pairs


EXPORTER = PreferenceExporter("whole", ".jsonl")
