"""The endpoint: `/v1/chat/completions`, `/v1/models` and `/health` on 127.0.0.1."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypedDict, Unpack

from synth.core.errors import BadPlace, ToolloomError
from synth.core.llm.mock import http, player, render
from synth.core.llm.mock.ask import Ask, Refused, read_ask
from synth.core.llm.mock.connection import Connection
from synth.core.llm.mock.faults import Exchange, Fault, selected
from synth.core.llm.mock.ledger import Ledger
from synth.core.llm.mock.plan import Pace, Plan
from synth.core.llm.mock.said import CREATED, Said, completion
from synth.core.llm.mock.schedule import Attempts, Schedule
from synth.core.llm.mock.script import Script
from synth.core.llm.mock.table import FAULTS

HOST = "127.0.0.1"
BACKLOG = 4096
MODEL = "mock"
"""The model that `/v1/models` names; any other name is answered as well."""
REFUSE_S = 0.3
"""How long new connections are refused after the fault `refused`."""


class Options(TypedDict, total=False):
    """Keyword arguments of `MockLLM`; see `Settings`."""

    port: int
    seed: int
    fault_rate: float
    faults: tuple[str, ...]
    latency_s: float
    script: Path | None
    ledger: Path | None
    keep_ledger: bool
    pace: Pace


@dataclass(frozen=True, slots=True)
class Settings:
    """How the endpoint behaves."""

    port: int = 0
    """0: a free one."""
    seed: int = 0
    fault_rate: float = 0.0
    """Share of the requests that meet a fault, 0 to 1."""
    faults: tuple[str, ...] = ()
    """Names or groups of the faults that are drawn; empty: all but those that befall others too."""
    latency_s: float = 0.0
    """Seconds before each reply."""
    script: Path | None = None
    """Dataset whose rows are played."""
    ledger: Path | None = None
    """File of the ledger; None: a temporary one, gone at the end."""
    keep_ledger: bool = True
    """False, without a file: only sums are kept."""
    pace: Pace = field(default_factory=Pace)


class MockLLM:
    """The endpoint inside of a running event loop: `async with MockLLM(seed=1) as mock: mock.url`.

    Args:
        **options: see `Settings`.

    Raises:
        UnknownName: a fault nobody knows.
        BadRow: the script is no dataset.
        BadPlace: the ledger cannot be written.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        self.settings = Settings(**options)
        chosen = selected(FAULTS, self.settings.faults)
        self._schedule = Schedule(self.settings.seed, self.settings.fault_rate, chosen)
        self._script = Script(self.settings.script) if self.settings.script else None
        self._attempts = Attempts()
        self._windows: dict[str, float] = {}
        self._connections: set[Connection] = set()
        self._reopening: asyncio.TimerHandle | None = None
        self._server: asyncio.Server | None = None
        self._opening: asyncio.Task[None] | None = None
        self.broken: ToolloomError | None = None
        """Why the ledger could not be written: from then on it is not the truth."""
        self.latency_s = self.settings.latency_s
        self.port = self.settings.port

    @property
    def url(self) -> str:
        """Return the base URL for clients."""
        return f"http://{HOST}:{self.port}/v1"

    async def __aenter__(self) -> Self:
        """Start to listen.

        Raises:
            BadPlace: the port is taken, or the ledger cannot be written.
        """
        self._started = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self.ended = asyncio.Event()
        """Set where the server can no longer keep its ledger, or by who wants to end it."""
        path = self.settings.ledger
        with ExitStack() as held:
            holder = held.enter_context(_hold(self.settings.port))
            self.port = holder.getsockname()[1]
            if path is None and self.settings.keep_ledger:
                folder = held.enter_context(tempfile.TemporaryDirectory(prefix="toolloom-mock-"))
                path = Path(folder) / "ledger.jsonl"
            self.ledger = Ledger(path)
            held.callback(self.ledger.close)
            await self._listen()
            self._held = held.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all connections and stop."""
        if self._reopening is not None:
            self._reopening.cancel()
        if self._opening is not None:
            await self._opening
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.abort()
        await asyncio.sleep(0)  # the transports close in the next round of the loop
        self._held.close()

    async def _listen(self) -> None:
        self._server = await self._loop.create_server(
            lambda: Connection(self, self._loop), sock=_socket(self.port), backlog=BACKLOG
        )

    def refuse(self) -> None:
        """Refuse new connections for a moment; those there are go on."""
        if self._server is not None:
            self._server.close()
            self._server = None
            self._reopening = self._loop.call_later(REFUSE_S, self._reopen)

    def _reopen(self) -> None:
        self._opening = self._loop.create_task(self._listen())

    def joined(self, connection: Connection) -> None:
        """Note a new connection."""
        self._connections.add(connection)

    def left(self, connection: Connection) -> None:
        """Note the end of a connection."""
        self._connections.discard(connection)

    @property
    def connections(self) -> int:
        """Return how many clients are connected."""
        return len(self._connections)

    def answer(self, received: http.Received) -> Plan:
        """Return how a request is answered; it is in the ledger then."""
        path = received.path.removeprefix("/v1")
        if path == "/chat/completions" and received.method == "POST":
            return self._chat(received)
        if path == "/models" and received.method == "GET":
            model = {"id": MODEL, "object": "model", "created": CREATED, "owned_by": "toolloom"}
            return _found({"object": "list", "data": [model]})
        if path == "/health" and received.method == "GET":
            return _found({"status": "ok", "requests": self.ledger.requests})
        if path in ("/chat/completions", "/models", "/health"):
            return render.failure(405, "method not allowed", "invalid_request_error")
        return render.failure(404, f"nothing at {received.path!r}", "not_found_error")

    def _chat(self, received: http.Received) -> Plan:
        ask: Ask | None = None
        fault: Fault | None = None
        try:
            ask = read_ask(received.body, received.headers, self.settings.seed)
            plan, fault = self._planned(ask, received)
        except Refused as error:
            plan = render.failure(400, error.message, "invalid_request_error")
        return plan if self._entered(ask, received, plan, fault) else _NOT_ENTERED

    def _entered(
        self, ask: Ask | None, received: http.Received, plan: Plan, fault: Fault | None
    ) -> bool:
        """Write the request to the ledger; say whether that went well."""
        usage = plan.usage
        try:
            self.ledger.write(
                {
                    "call": received.headers.get("x-toolloom-call"),
                    "attempt": ask.attempt if ask else None,
                    "model": ask.model if ask else None,
                    "request": hashlib.sha256(received.body).hexdigest(),
                    "fault": fault.name if fault else None,
                    "status": plan.status,
                    "prompt_tokens": usage.prompt if usage else None,
                    "completion_tokens": usage.completion if usage else None,
                    "stream": bool(ask and ask.stream),
                    "finished": plan.finished,
                }
            )
        except ToolloomError as error:
            self.broken = error
            self.ended.set()
            return False
        return True

    def _planned(self, ask: Ask, received: http.Received) -> tuple[Plan, Fault | None]:
        call, attempt = self._attempts.of(ask, received.headers)
        named = self._named(ask, attempt)
        exchange = self._exchange(ask, named)
        fault = named or self._schedule.draw(exchange, call, attempt)
        if fault is not None and fault.fits(exchange):
            plan = fault.act(exchange)
            return plan, fault if plan.faulty else None
        return render.reply(ask, exchange.body), None

    def _exchange(self, ask: Ask, named: Fault | None) -> Exchange:
        said: Said | None = self._script.answer(ask.messages) if self._script else None
        if said is None or (named is not None and named.call and not said.calls):
            said = player.play(ask, call=named is not None and named.call)
        return Exchange(
            ask,
            completion(ask, said),
            self.settings.pace,
            time.monotonic() - self._started,
            self._windows,
        )

    def _named(self, ask: Ask, attempt: int) -> Fault | None:
        """Return the fault that the model's name asks for."""
        wanted = ask.fault
        if wanted is None:
            return None
        name, attempts = wanted
        if name not in FAULTS:
            raise Refused(f"there is no fault {name!r}")
        return FAULTS[name] if attempts is None or attempt < attempts else None


_NOT_ENTERED = render.failure(500, "the ledger cannot be written", "server_error")


def _found(value: Any) -> Plan:
    return Plan(200, (http.whole(200, render.dumps(value)),))


def _hold(port: int) -> socket.socket:
    """Return a socket that keeps the port ours, also while connections are refused.

    Raises:
        BadPlace: the port is taken.
    """
    try:
        with socket.socket() as probe:  # without sharing, so that a port in use is noticed
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
            port = probe.getsockname()[1]
        return _socket(port)
    except OSError as error:
        what = error.strerror or str(error)
        remedy = "choose another with --port, or 0 for a free one"
        raise BadPlace(what, where=f"port {port}", remedy=remedy) from error


def _socket(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    bound.bind((HOST, port))
    return bound
