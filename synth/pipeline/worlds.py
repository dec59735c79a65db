"""Opens the worlds a configuration asks for."""

from __future__ import annotations

from collections.abc import Iterable

from simulators.sql.world import SqlWorld

from simulators.sql.engine import Engine
from simulators.sql.load import applications, load_application
from synth.core.protocols import World


def open_applications(names: Iterable[str] = ()) -> dict[str, World]:
    """Return a world for each application.

    Args:
        names: names of installed applications or paths of YAML files; empty means all installed.

    Raises:
        UnknownName: no such application; close names are suggested.
        BadApplication: a file is wrong.
    """
    worlds: dict[str, World] = {}
    for name in tuple(names) or tuple(applications()):
        world = SqlWorld(Engine(load_application(name)))
        worlds[world.name] = world
    return worlds
