"""Whole executable applications, composed from a typed vocabulary: no model, one seed.

compose("logistics", 7)     the same application in every process
categories()                the categories that have a vocabulary
"""

from __future__ import annotations

from synth.core.application import Application
from tool_registry.composer.compose import compose
from tool_registry.composer.vocabulary import names


def categories() -> list[str]:
    """Return the categories of the taxonomy that applications can be composed for."""
    return list(names())


__all__ = ["Application", "categories", "compose"]
