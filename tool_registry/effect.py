"""What a tool does to the world, told by its annotations or guessed from its name.

Annotations are the server's claim and untrusted (MCP 2025-11-25, tools), so where the effect came
from is kept beside it. The guess reads the first known verb of the name: `get_and_delete` reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from synth.core.types import Effect

EffectSource: TypeAlias = Literal["annotated", "inferred", "unknown"]

_READ = """analyse analyze browse calculate check compare compute convert count current describe
    detect diff download echo estimate explain fetch find get has head history info inspect is list
    log lookup measure monitor ping preview query read resolve retrieve scan search
    sequentialthinking show stats status summarize tail think translate tree validate verify view
    wait"""
_WRITE = """add append apply approve archive assign attach book cancel change checkout click close
    comment commit configure copy create deploy disable drag edit enable eval exec execute export
    fill fork format generate hover import insert install invite link lock mark merge modify move
    navigate open order patch pay post press publish push put register reject rename replace reply
    restart restore run save schedule send set share star start stop store submit subscribe switch
    toggle transfer trigger type unarchive unlink unlock unstar unsubscribe update upload upsert
    write"""
_DESTRUCTIVE = """clear delete destroy discard drop erase kill purge remove reset revoke terminate
    truncate uninstall unpublish wipe"""

_VERBS = {
    **dict.fromkeys(_READ.split(), Effect.READ),
    **dict.fromkeys(_WRITE.split(), Effect.WRITE),
    **dict.fromkeys(_DESTRUCTIVE.split(), Effect.DESTRUCTIVE),
}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def effect_of(name: str, annotations: Mapping[str, Any]) -> tuple[Effect, EffectSource]:
    """Return the effect of a tool and where that knowledge comes from.

    Args:
        name: as the server calls it.
        annotations: its hints; anything that is not a boolean counts as absent.
    """
    read_only, destructive = annotations.get("readOnlyHint"), annotations.get("destructiveHint")
    if read_only is True:
        return Effect.READ, "annotated"
    if destructive is True:
        return Effect.DESTRUCTIVE, "annotated"
    if read_only is False or destructive is False:
        return Effect.WRITE, "annotated"
    for word in _WORD.findall(name):
        effect = _VERBS.get(word.lower())
        if effect is not None:
            return effect, "inferred"
    return Effect.UNKNOWN, "unknown"
