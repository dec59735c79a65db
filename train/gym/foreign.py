"""Packages of other projects: wanted by one adapter, installed by whoever uses it."""

from __future__ import annotations

import importlib
from types import ModuleType

from synth.core.errors import BadInput


def package(name: str, distribution: str | None = None) -> ModuleType:
    """Import a package.

    Args:
        name: of the module.
        distribution: how it is installed; by default the same.

    Raises:
        BadInput: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BadInput(
            f"the package {name!r} does not load: {error}",
            remedy=f"pip install {distribution or name}",
        ) from error
