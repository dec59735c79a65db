"""Plug-ins: found by folder and by entry point, never imported until used.

A kind of plug-in is a package whose modules each define one object of a given attribute name
(`SOURCE`, `EXPORTER`, …). Other distributions add theirs through the entry-point group
`toolloom.KIND`. Two plug-ins of one name are an error, not a race.
"""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import entry_points
from typing import Any

from synth.core.errors import BadInput, UnknownName


class Plugins:
    """All plug-ins of one kind.

    Args:
        kind: word used in messages and in the entry-point group `toolloom.KIND`.
        package: dotted name of the folder that holds our own, one module each.
        attribute: name of the object each module defines.
    """

    def __init__(self, kind: str, package: str, attribute: str) -> None:
        self.kind, self.package, self.attribute = kind, package, attribute

    def names(self) -> tuple[str, ...]:
        """Return all names, sorted, without importing any plug-in."""
        return tuple(sorted(self._targets()))

    def get(self, name: str) -> Any:
        """Import and return the plug-in `name`.

        Raises:
            UnknownName: no such plug-in; close names are suggested.
            BadInput: the plug-in is broken or a name is taken twice; names the module.
        """
        targets = self._targets()
        if name not in targets:
            raise UnknownName(self.kind, name, targets)
        module, _, attribute = targets[name].partition(":")
        try:
            return getattr(importlib.import_module(module), attribute)
        except Exception as error:  # a stranger's module may raise anything
            raise BadInput(
                f"{self.kind} {name!r} does not load: {type(error).__name__}: {error}",
                where=module,
                remedy="repair or uninstall that plug-in",
            ) from error

    def _targets(self) -> dict[str, str]:
        package = importlib.import_module(self.package)
        found: dict[str, str] = {}
        for info in pkgutil.iter_modules(package.__path__):
            if not info.name.startswith("_"):
                found[info.name.replace("_", "-")] = f"{self.package}.{info.name}:{self.attribute}"
        for entry in entry_points(group=f"toolloom.{self.kind}"):
            if entry.name in found:
                raise BadInput(
                    f"two plug-ins called {entry.name!r}: {found[entry.name]} and {entry.value}",
                    remedy="uninstall one of them",
                )
            found[entry.name] = (
                entry.value if ":" in entry.value else f"{entry.value}:{self.attribute}"
            )
        return found
