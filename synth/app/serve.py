"""Serve an application as an MCP server, so that any agent client can play it.

One session is one episode, in an environment of its own that begins in the state of --seed. Over
standard input and output, one process is one session. With --http, sessions come and go on
loopback. Beside the tools there are resources: policy, diff of the state, episode.

toolloom serve hotel --print-config      what to put into a client's mcp.json
toolloom serve hotel --http 8000         http://127.0.0.1:8000/mcp
toolloom serve my_app.yaml --seed 3      a file
toolloom serve sandbox                   bash, Python and files in a confined process, for coding
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from simulators.served.episode import MAX_SEED
from synth.app._show import say, show
from synth.core.errors import BadInput

if TYPE_CHECKING:
    from simulators.served.episode import Count, Offer

SANDBOX = "sandbox"
"""Not an application: an environment of its own kind."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "application", help="name of an installed application, a YAML file, or sandbox"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="state that episodes begin in (default: 0)"
    )
    parser.add_argument(
        "--http",
        type=int,
        nargs="?",
        const=0,
        metavar="PORT",
        help="streamable HTTP on 127.0.0.1 (default: a free port) instead of standard input",
    )
    parser.add_argument(
        "--no-start-over",
        action="store_true",
        help="without the tool that begins an episode again: for agents that are to be measured",
    )
    parser.add_argument(
        "--print-config", action="store_true", help="print the entry of mcp.json, and serve nothing"
    )


def run(arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Serve until the client leaves or Ctrl-C; return what was served over HTTP.

    Raises:
        BadInput: a number is out of range, or the port is taken.
        UnknownName: no such application; close names are suggested.
        BadApplication: the file is wrong.
        NoConfinement: this machine cannot confine the sandbox.
    """
    if not 0 <= arguments.seed <= MAX_SEED:
        raise BadInput(f"--seed must be between 0 and {MAX_SEED}")
    if arguments.http is not None and not 0 <= arguments.http < 1 << 16:
        raise BadInput("--http must be between 0 and 65535")
    offer = _offer(arguments)
    if arguments.print_config:
        if arguments.http == 0:
            raise BadInput("a free port is not known before", remedy="--http PORT --print-config")
        url = f"http://127.0.0.1:{arguments.http}/mcp" if arguments.http else None
        config = _config(offer.name, arguments, url)
        if not arguments.json:
            show(json.dumps(config, indent=2))
        return config
    logging.getLogger("mcp").setLevel(logging.ERROR)  # what clients do wrong is told to them
    if arguments.http is None:
        _over_stdio(offer, arguments)
        return None
    count = asyncio.run(_over_http(offer, arguments, sys.stderr if arguments.json else sys.stdout))
    say(f"{count.episodes} episodes, {count.calls} calls")
    return {"episodes": count.episodes, "calls": count.calls}


def _offer(arguments: argparse.Namespace) -> Offer:
    """Open the application; what is wrong with it or its seed shows before anybody connects."""
    if arguments.application == SANDBOX:
        return _sandbox(arguments.seed, start_over=not arguments.no_start_over)
    from simulators.served.episode import offer
    from simulators.sql.engine import Engine
    from simulators.sql.load import load_application
    from simulators.sql.world import SqlWorld

    world = SqlWorld(Engine(load_application(arguments.application)))
    tried = world.environment()
    tried.reset_now(arguments.seed)
    tried.close_now()
    return offer(world, seed=arguments.seed, start_over=not arguments.no_start_over)


def _sandbox(seed: int, *, start_over: bool) -> Offer:
    """Offer the sandbox; say which project the seed names, since its tools do not."""
    from simulators.sandbox.environment import POLICY, SandboxEnvironment
    from simulators.sandbox.project import shipped
    from simulators.sandbox.run import why_not
    from simulators.served.episode import Offer
    from synth.core.sandbox.confine import NoConfinement

    reason = asyncio.run(why_not())
    if reason:
        raise NoConfinement(reason, where=SANDBOX, remedy="see toolloom doctor")
    project = shipped(seed)
    say(f"project {project.name}: {' '.join(project.request.split())}")
    return Offer(SANDBOX, POLICY, SandboxEnvironment, seed, start_over)


def _over_stdio(offer: Offer, arguments: argparse.Namespace) -> None:
    from simulators.served.stdio import serve_stdio

    if sys.stdin.isatty():
        say("This speaks MCP on standard input, to a client that starts it. Its entry in mcp.json:")
        say(json.dumps(_config(offer.name, arguments, None)))
    asyncio.run(serve_stdio(offer))


async def _over_http(offer: Offer, arguments: argparse.Namespace, out: TextIO) -> Count:
    from simulators.served.http import served_http

    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with served_http(offer, arguments.http) as (url, episodes):
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, over.set)
        say(json.dumps(_config(offer.name, arguments, url)))
        # The address is a result, and a program that started this waits for it: at once, alone.
        out.write(f"{url}\n")
        out.flush()
        await over.wait()
    return episodes.count


def _config(name: str, arguments: argparse.Namespace, url: str | None) -> dict[str, Any]:
    """Return the entry of a client's mcp.json; paths are absolute, clients start anywhere."""
    if url is not None:
        return {"mcpServers": {f"toolloom-{name}": {"type": "http", "url": url}}}
    installed = shutil.which("toolloom", path=str(Path(sys.executable).parent))
    begin = [installed] if installed else [sys.executable, "-m", "synth"]
    given = arguments.application
    is_file = "/" in given or Path(given).suffix != ""
    line = [*begin, "serve", str(Path(given).resolve()) if is_file else given]
    line += ["--seed", str(arguments.seed)]
    line += ["--no-start-over"] * arguments.no_start_over
    return {"mcpServers": {f"toolloom-{name}": {"command": line[0], "args": line[1:]}}}
