"""Packages that are no dependency: one adapter wants them, whoever uses it installs them."""

from __future__ import annotations

import importlib
from types import ModuleType

from synth.core.errors import BadInput


def package(name: str, install: str | None = None) -> ModuleType:
    """Import a module of an optional package.

    Args:
        name: of the module.
        install: what `pip install` takes to install it; by default the name.

    Raises:
        BadInput: it is not installed, or does not load.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise BadInput(
            f"the package {name.partition('.')[0]!r} does not load: {error}",
            remedy=f"pip install {install or name}",
        ) from error
