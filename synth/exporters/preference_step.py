"""JSON Lines of preference pairs, of each continuation the one message in which they part."""

from __future__ import annotations

from synth.exporters.preference import PreferenceExporter

EXPORTER = PreferenceExporter("step", "-step.jsonl")
