"""One episode as outsiders play it: a private environment, its seed, and what was done so far."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from synth.core.errors import BadApplication
from synth.core.protocols import Environment, World
from synth.core.types import CallError, Diff, ToolResult, ToolSpec

MAX_ARGUMENTS = 256 << 10
"""Characters of the arguments of one call, as JSON."""
MAX_SEED = 2**53 - 1
"""The largest integer that every client can write."""
START_OVER = "toolloom_start_over"
"""The one tool that is no application's. See `simulators.served.server`."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What is served: all that the episodes of a server have in common."""

    name: str
    policy: str
    make: Callable[[], Environment]
    """Makes a new environment, before `reset`."""
    seed: int = 0
    """Names the state that every episode starts from."""
    start_over: bool = True
    """Offer `START_OVER` beside the tools of the application."""


@dataclass(slots=True)
class Count:
    """What all episodes of a server have done together."""

    episodes: int = 0
    calls: int = 0


@dataclass(slots=True)
class Episode:
    """One episode; calls of one client that overlap wait for one another."""

    offer: Offer
    environment: Environment
    seed: int
    count: Count
    starts: int = 1
    """How often it began: 1, and once more for each time it was started over."""
    calls: int = 0
    """Since it last began."""
    failed: int = 0
    """Of these calls, those that failed."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools of the environment."""
        return self.environment.tools()

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call.

        Raises:
            ToolloomError: the environment itself is broken.
        """
        async with self._turn:
            self.calls += 1
            self.count.calls += 1
            result = _too_large(arguments) or await self.environment.call(name, arguments)
            self.failed += not result.ok
            return result

    async def diff(self) -> Diff:
        """Return the net change since the episode last began."""
        async with self._turn:
            return await self.environment.diff()

    async def start_over(self, seed: int | None = None) -> None:
        """Go back to the beginning, of another state where `seed` names one."""
        async with self._turn:
            seed = self.seed if seed is None else seed
            await self.environment.reset(seed)
            self.seed = seed
            self.starts += 1
            self.calls = self.failed = 0

    def facts(self) -> dict[str, Any]:
        """Return how the episode stands, as plain data."""
        return {
            "application": self.offer.name,
            "seed": self.seed,
            "starts": self.starts,
            "calls": self.calls,
            "failed": self.failed,
        }


@asynccontextmanager
async def episode(offer: Offer, count: Count | None = None) -> AsyncIterator[Episode]:
    """Begin an episode; its environment is given back at the end.

    Args:
        offer: what is served.
        count: where episodes and calls are counted.

    Raises:
        ToolloomError: the environment cannot be set to the state that `offer.seed` names.
    """
    count = Count() if count is None else count
    environment = offer.make()
    try:
        await environment.reset(offer.seed)
        count.episodes += 1
        yield Episode(offer, environment, offer.seed, count)
    finally:
        await environment.close()


def offer(world: World, *, seed: int = 0, start_over: bool = True) -> Offer:
    """Return what serving a world takes.

    Args:
        world: gives the environments and the policy.
        seed: names the state that every episode starts from.
        start_over: offer the tool that begins again.

    Raises:
        BadApplication: a tool of the world has the name of the one that begins again.
    """
    if start_over and any(tool.name == START_OVER for tool in world.tools()):
        raise BadApplication(
            f"it has a tool of its own called {START_OVER!r}",
            where=world.name,
            remedy="--no-start-over",
        )
    return Offer(world.name, world.policy().strip(), world.environment, seed, start_over)


def _too_large(arguments: Mapping[str, Any]) -> ToolResult | None:
    """Return the error of a call whose arguments nobody could mean."""
    if len(json.dumps(arguments, ensure_ascii=False, default=str)) <= MAX_ARGUMENTS:
        return None
    message = f"The arguments are larger than {MAX_ARGUMENTS >> 10} KiB."
    error = CallError(code="invalid_arguments", message=message)
    content = json.dumps({"error": error.code, "message": error.message})
    return ToolResult(ok=False, content=content, error=error)
