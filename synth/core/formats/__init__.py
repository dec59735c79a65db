"""Tool-call text of model families: how a conversation is written, how calls are read back.

One file a family behind `ToolFormat` (`base`); `declarations` writes tools in one line each.
"""

from __future__ import annotations

from synth.core.errors import UnknownName
from synth.core.formats.base import Parsed, Piece, Problem, ToolFormat, Unwritable
from synth.core.formats.declarations import declare
from synth.core.formats.hermes import Hermes
from synth.core.formats.kimi import KimiK2

FORMATS: dict[str, ToolFormat] = {
    "hermes": Hermes(),
    "hermes-json": Hermes(declarations="json"),
    "kimi-k2": KimiK2(),
}


def get_format(name: str) -> ToolFormat:
    """Return the format registered under `name`.

    Raises:
        UnknownName: nobody registered it; close names are suggested.
    """
    try:
        return FORMATS[name]
    except KeyError:
        raise UnknownName("format", name, FORMATS) from None


__all__ = [
    "FORMATS",
    "Hermes",
    "KimiK2",
    "Parsed",
    "Piece",
    "Problem",
    "ToolFormat",
    "Unwritable",
    "declare",
    "get_format",
]
