"""JSON Lines of preference pairs, for TRL's `DPOTrainer`: each continuation to its end."""

from __future__ import annotations

from synth.exporters.openai import OpenAIExporter
from synth.pairs import Width


class PreferenceExporter(OpenAIExporter):
    """One pair a line.

    Args:
        pairs: how much of the two continuations a row holds.
        suffix: of the file.
    """

    def __init__(self, pairs: Width, suffix: str) -> None:
        self.pairs, self.suffix = pairs, suffix


EXPORTER = PreferenceExporter("whole", ".jsonl")
