"""A model in this process, for people without an endpoint: llama.cpp through `xllamacpp`.

`open_local("local:smollm2")` gives one. Nothing here is imported before that is asked for, and
`xllamacpp` itself only when the weights are read (`docs/decisions/0009-the-embedded-model.md`).
"""

from synth.core.llm.local.judge import Calibration, calibrate, probability_of_yes
from synth.core.llm.local.label import weak_note, weak_players, weakness
from synth.core.llm.local.model import LocalModel, Style, open_local

__all__ = [
    "Calibration",
    "LocalModel",
    "Style",
    "calibrate",
    "open_local",
    "probability_of_yes",
    "weak_note",
    "weak_players",
    "weakness",
]
