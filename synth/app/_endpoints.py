"""Looks at the models that are configured before anything is played with them.

Does anybody listen where they are said to be, and will anybody ask them?
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

from synth.app._show import say
from synth.core.config import Config, ModelConfig
from synth.core.errors import ModelFailed

PATIENCE_S = 3.0
"""A name server that is asked in vain and an address that swallows packets take this long."""


async def check_endpoints(config: Config) -> None:
    """Connect once to every address that a role is given; say which roles nothing will ask.

    A slow one is no error here, and behind a proxy nothing can be said.

    Raises:
        ModelFailed: nobody listens there, or the name means no machine.
    """
    idle = [role for role in config.models.roles() if role not in config.asked()]
    if idle:
        names = ", ".join(f"models.{role}" for role in idle)
        say(f"{names}: given, and asked for nothing: {_who_is_asked(idle)}")
    await connect(config.asked())


async def connect(asked: Mapping[str, ModelConfig]) -> None:
    """Connect once to every address that a role is given.

    Raises:
        ModelFailed: nobody listens there, or the name means no machine.
    """
    addresses: dict[str, str] = {}
    for role, model in asked.items():
        if model.base_url is not None:
            addresses.setdefault(model.base_url, role)
    if getproxies_environment().keys().isdisjoint(("http", "https", "all")):
        await asyncio.gather(*(_connect(address, role) for address, role in addresses.items()))


def _who_is_asked(idle: list[str]) -> str:
    if "critic" in idle:
        return "a critic chooses among drafts: --set models.user.candidates=3 asks for them"
    if "world" in idle:
        return "it plays the tools of generate.imagined, and no application is named there"
    if "evolver" in idle:
        return "it is asked by toolloom evolve"
    return "only user, agent, critic and world are asked so far"


async def _connect(address: str, role: str) -> None:
    where = urlsplit(address)
    try:
        port = where.port or (443 if where.scheme == "https" else 80)
        async with asyncio.timeout(PATIENCE_S):
            _, writer = await asyncio.open_connection(where.hostname, port)
        writer.close()
    except TimeoutError:
        return
    except (OSError, ValueError) as error:
        unknown = isinstance(error, (socket.gaierror, ValueError))
        why = "no machine has that name" if unknown else "the connection is refused"
        raise ModelFailed(
            f"nobody answers at {address}: {why}",
            where=f"models.{role}",
            remedy="start the endpoint, or correct base_url",
            outcome="unreachable",
        ) from error
