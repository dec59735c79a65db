"""Where an episode left another one. Re-exported by `synth.core.types`."""

from __future__ import annotations

from synth.core.messages import Frozen


class Fork(Frozen):
    """The origin of an episode that begins as another one did, and what was changed for it."""

    run: str
    """Name of the run of the other one."""
    episode: str
    """Its identity."""
    messages: int
    """How many of its messages were kept, the system prompt included."""
    calls: int
    """How many of its calls were kept."""
    number: int = 0
    """Of several forks of one place, from 0."""
    changed: tuple[str, ...] = ()
    """What is other than in the origin, `key: old -> new`; none where only chance differs."""
