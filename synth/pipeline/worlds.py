"""Opens the worlds a configuration asks for: applications, and live servers that were crawled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import duckdb
import orjson

from simulators.imagined.world import ImaginedWorld
from simulators.live.files import FileWorld
from simulators.live.memory import MemoryWorld
from simulators.sandbox.world import SandboxWorld
from simulators.sql.engine import Engine
from simulators.sql.load import applications, load_application
from simulators.sql.world import SqlWorld
from synth.core.config import Config
from synth.core.errors import BadConfig, UnknownName
from synth.core.protocols import Polyglot, World
from synth.core.store import Workspace
from synth.pipeline.evolved import evolved
from synth.pipeline.twins import TWIN, twins
from tool_registry.browse import specs
from tool_registry.ingest import register_application

EVOLVED = "evolved:"
"""Begins the name, or the pattern of names, of applications that `toolloom evolve` made."""
LIVE: tuple[type[FileWorld] | type[MemoryWorld], ...] = (FileWorld, MemoryWorld)


def open_worlds(config: Config, workspace: Path, *, absent: bool = False) -> dict[str, World]:
    """Return the worlds of a generation, by name.

    Args:
        config: of the run.
        workspace: where crawled servers are.
        absent: whether live worlds may be lacking, because nothing is to be played on them.

    Raises:
        UnknownName: no such application; close names are suggested.
        BadApplication: a file is wrong.
        BadConfig: live episodes are wanted and no server for them was crawled, or a language is
            that no application has words in.
    """
    images = Workspace(workspace).cache / "images"
    names = config.generate.applications
    mine = [name.removeprefix(EVOLVED) for name in names if name.startswith(EVOLVED)]
    theirs = [name.removeprefix(TWIN) for name in names if name.startswith(TWIN)]
    others = [name for name in names if not name.startswith((EVOLVED, TWIN))]
    worlds = open_applications(others, images) if others or not names else {}
    if theirs:
        worlds |= twins(workspace, theirs, images)
    for name, application in (evolved(workspace, mine) if mine else {}).items():
        worlds[name] = SqlWorld(Engine(application, images))
    worlds |= _imagined(config, worlds)
    if config.generate.coding_share > 0:
        worlds[SandboxWorld.name] = SandboxWorld()
    if config.generate.live_share > 0:
        live = open_live(workspace)
        if not live and not absent:
            packages = " ".join(world.package for world in LIVE)
            raise BadConfig(
                "generate.live_share is set, but no server for live episodes was crawled",
                where=str(workspace),
                remedy=f"toolloom crawl {packages}",
            )
        worlds |= live
    for language, without in without_words(config, worlds).items():
        if len(without) == len(worlds):
            raise BadConfig(
                f"none of the applications has words in {language!r}: {', '.join(without)}",
                where="generate.languages",
                remedy=_who_has(language),
            )
    return worlds


def _imagined(config: Config, worlds: Mapping[str, World]) -> dict[str, World]:
    """Return those of the worlds whose tools a model is to play."""
    settings = config.generate
    if settings.imagined and settings.events:
        raise BadConfig(
            "nothing happens by itself where a model plays the tools",
            where="generate.events",
            remedy="leave out generate.events, or generate.imagined",
        )
    found: dict[str, World] = {}
    for name in settings.imagined:
        world = worlds.get(name)
        if not isinstance(world, SqlWorld):
            raise UnknownName("application of this run", name, worlds)
        found[name] = ImaginedWorld(world.engine, settings.imagined_excerpt)
    return found


def _who_has(language: str) -> str:
    """Say what to do where no application speaks a language."""
    spoken = [name for name in applications() if language in load_application(name).languages]
    add = f"add one that has: {', '.join(spoken)}; or " if spoken else ""
    return f"{add}write them: `languages:` in an application's file"


def without_words(config: Config, worlds: Mapping[str, World]) -> dict[str, tuple[str, ...]]:
    """Return language -> the worlds whose users speak English instead, for want of words in it.

    Only languages that are wanted and that a world lacks are in it.
    """
    wanted = [name for name, share in config.generate.languages.items() if share > 0]
    found = {
        language: tuple(sorted(n for n, world in worlds.items() if language not in _spoken(world)))
        for language in wanted
    }
    return {language: names for language, names in found.items() if names}


def _spoken(world: World) -> tuple[str, ...]:
    return world.languages if isinstance(world, Polyglot) else ("en",)


def open_applications(names: Iterable[str] = (), images: Path | None = None) -> dict[str, World]:
    """Return a world for each application.

    Args:
        names: names of installed applications or paths of YAML files; empty means all installed.
        images: where seeded images outlive the process; None keeps none.

    Raises:
        UnknownName: no such application; close names are suggested.
        BadApplication: a file is wrong.
    """
    worlds: dict[str, World] = {}
    for name in tuple(names) or tuple(applications()):
        world = SqlWorld(Engine(load_application(name), images))
        worlds[world.name] = world
    return worlds


def open_live(workspace: Path) -> dict[str, World]:
    """Return a world for each crawled server that episodes can be played on."""
    store = Workspace(workspace)
    if not store.database.exists():
        return {}
    with store.read() as con:
        rows = con.execute(
            "SELECT server, argv FROM last_crawls "
            "WHERE outcome = 'ok' AND list_contains(?, server)",
            [[world.package for world in LIVE]],
        ).fetchall()
    commands: dict[str, list[str]] = {server: orjson.loads(argv) for server, argv in rows}
    worlds: dict[str, World] = {}
    for kind in LIVE:
        argv = commands.get(kind.package)
        if argv is None or not all(Path(part).exists() for part in argv if part.startswith("/")):
            continue
        tools = specs(store, server=kind.package)
        world: World = kind(argv, tools, readable=_installed(argv, store))
        worlds[world.name] = world
    return worlds


def _installed(argv: list[str], store: Workspace) -> tuple[Path, ...]:
    """Return the folders of the workspace in which a server's program lies."""
    servers = store.cache / "servers"
    parts = [Path(part) for part in argv]
    inside = [part.relative_to(servers) for part in parts if part.is_relative_to(servers)]
    return tuple({servers.joinpath(*path.parts[:2]) for path in inside})


def register(workspace: Workspace, worlds: Mapping[str, World]) -> None:
    """Enter the applications among `worlds` in the registry, where they are new or changed."""
    with workspace.read() as con:
        changed = _changed(con, worlds)
    if changed:
        with workspace.write() as con:
            register_in(con, worlds)


def register_in(con: duckdb.DuckDBPyConnection, worlds: Mapping[str, World]) -> None:
    """Do what `register` does, in a transaction that is open."""
    for world in _changed(con, worlds):
        register_application(con, world.engine.application, world.edges())


def _changed(con: duckdb.DuckDBPyConnection, worlds: Mapping[str, World]) -> list[SqlWorld]:
    known = dict(con.execute("SELECT application, key FROM applications").fetchall())
    found = [world for world in worlds.values() if isinstance(world, SqlWorld)]
    return [world for world in found if known.get(world.name) != world.engine.application.key]


def register_missing(
    workspace: Workspace, tell: Callable[[list[str]], None] = lambda names: None
) -> None:
    """Enter installed applications that the registry has never seen; cheap when there are none.

    Args:
        workspace: whose registry.
        tell: called before with their names, if there are any: it takes seconds.
    """
    with workspace.read() as con:
        known = {row[0] for row in con.execute("SELECT application FROM applications").fetchall()}
    missing = [name for name in applications() if name not in known]
    if missing:
        tell(missing)
        register(workspace, open_applications(missing))
