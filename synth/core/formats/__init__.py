"""Tool-call text of model families: how a conversation is written, how calls are read back.

One file a family behind `ToolFormat` (`base`): `hermes`, `kimi`, `llama`, `mistral`, `plain`. What
they share: `values` reads JSON, `calls` makes calls and outcomes of it and lists every repair,
`prose` finds calls that no markup shows. `arguments` fits arguments to a tool's schema,
`declarations` writes tools in one line each.
"""

from __future__ import annotations

from synth.core.errors import UnknownName
from synth.core.formats.arguments import fit_call, fit_parsed
from synth.core.formats.base import Parsed, Piece, Problem, ToolFormat, Unwritable
from synth.core.formats.declarations import declare
from synth.core.formats.hermes import Hermes
from synth.core.formats.identifiers import NineCharacters, in_nine_characters
from synth.core.formats.kimi import KimiK2
from synth.core.formats.llama import Llama3
from synth.core.formats.mistral import Mistral
from synth.core.formats.plain import PlainJson

FORMATS: dict[str, ToolFormat] = {
    "hermes": Hermes(),
    "hermes-json": Hermes(declarations="json"),
    "json": PlainJson(),
    "kimi-k2": KimiK2(),
    "llama3": Llama3(),
    "llama3-tag": Llama3(tag=True),
    "mistral": Mistral(),
    "mistral-v3": Mistral(version=3),
    "mistral-v11": Mistral(version=11),
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
    "Llama3",
    "Mistral",
    "NineCharacters",
    "Parsed",
    "Piece",
    "PlainJson",
    "Problem",
    "ToolFormat",
    "Unwritable",
    "declare",
    "fit_call",
    "fit_parsed",
    "get_format",
    "in_nine_characters",
]
