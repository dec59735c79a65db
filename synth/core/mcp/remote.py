"""A server over HTTP: streamable HTTP, or the HTTP+SSE that came before it, read within bounds.

Each message is a POST. Its answer is a body of JSON or a stream of events (MCP 2025-11-25,
transports: streamable HTTP). A server that does not know the first POST is asked as one of
2024-11-05: a GET opens a stream, whose first event says where messages go. No proxy, no cookie and
nothing of our environment is used; only origins, connections and redirects that a `Door` lets pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import aiohttp

from synth.core.errors import BadInput, ServerFailed
from synth.core.mcp.address import Door, ServerAddress, joined, origin, split_address
from synth.core.mcp.events import Event, EventBuffer
from synth.core.mcp.process import Limits
from synth.core.mcp.status import BUSY, failure_of, seconds_to_wait
from synth.core.mcp.wire import LineTooLong

CHUNK = 64 << 10
LINE_BYTES = 64
"""What a line of a stream counts for besides its length: short ones cost time, not memory."""
MAX_REDIRECTS = 3
TRIES = 3
"""Of a POST that a busy server asks to repeat, and of a stream that ends before its answer."""
MAX_SENDING = 16
"""Messages under way; a server that asks for more answers than this gets none."""
SETTLE_S = 5.0
"""A request waits this long for the end of earlier notifications: order matters to servers."""
LAST_WORDS_S = 1.0
"""Time for the body of a refusal to begin."""
OLDER = (400, 404, 405)
"""What a server of 2024-11-05 says to a POST (2025-11-25, transports: backwards compatibility)."""
_JSON, _EVENTS = "application/json", "text/event-stream"
_FAILURES = (aiohttp.ClientError, OSError, ValueError, zlib.error)


class RemoteServer:
    """A server elsewhere: `send` messages to it, get messages from it.

    Args:
        address: where it is; must be made in a running event loop.
        limits: what it may cost.
        on_line: called with each message; says whether it answered what was asked.
        on_end: called when it is over for a reason of its own.
    """

    pid = None
    stderr_tail = ""

    def __init__(
        self,
        address: ServerAddress,
        limits: Limits,
        *,
        on_line: Callable[[bytes], bool],
        on_end: Callable[[ServerFailed], None],
    ) -> None:
        self._address, self._limits = address, limits
        self._on_line, self._on_end = on_line, on_end
        self._door = Door(address)
        self._url, self._older = address.url, address.older
        self._endpoint: asyncio.Future[str] | None = None
        self._session, self._protocol = "", ""
        self._sending: set[asyncio.Task[None]] = set()
        self._notes: set[asyncio.Task[None]] = set()
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(use_dns_cache=False, socket_factory=self._door.socket),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),  # the session has deadlines
            auto_decompress=False,
            trust_env=False,
            read_bufsize=CHUNK,
        )

    def agreed(self, protocol: str) -> None:
        """Name the version with each message from now on."""
        self._protocol = protocol

    def send(self, line: bytes, *, limit_s: float | None = None) -> None:
        """Post a message. What does not get through is told to `on_end` if an answer is due."""
        if len(self._sending) >= MAX_SENDING:
            return
        task = asyncio.create_task(self._told(limit_s is not None, self._deliver, line, limit_s))
        self._keep(task, self._sending)
        if limit_s is None:
            self._keep(task, self._notes)

    def kill(self) -> None:
        """Let go of everything under way now."""
        for task in self._sending:
            task.cancel()

    async def close(self) -> None:
        """End the session at the server if it has one there, and all connections."""
        sending = tuple(self._sending)
        self.kill()
        await asyncio.gather(*sending, return_exceptions=True)
        try:
            if self._session:
                with contextlib.suppress(TimeoutError, ServerFailed, *_FAILURES):
                    async with asyncio.timeout(self._limits.stop_s), self._asked("DELETE"):
                        pass
        finally:
            await asyncio.shield(self._http.close())

    # --- sending ------------------------------------------------------------------------------

    def _keep(self, task: asyncio.Task[None], among: set[asyncio.Task[None]]) -> None:
        among.add(task)
        task.add_done_callback(among.discard)

    async def _told(
        self, matters: bool, work: Callable[..., Coroutine[Any, Any, None]], *given: Any
    ) -> None:
        """Do `work`; a failure of the server or the way to it ends the session if it matters."""
        try:
            await work(*given)
        except ServerFailed as failure:
            if matters:
                self._on_end(failure)
        except _FAILURES as error:
            if matters:
                self._on_end(self._no_way(error))

    async def _deliver(self, line: bytes, limit_s: float | None) -> None:
        asks = limit_s is not None
        if asks and self._notes:
            await asyncio.wait(self._notes, timeout=SETTLE_S)
        if self._older and self._endpoint is None:
            await self._open_stream()
        loop = asyncio.get_running_loop()
        until = loop.time() + (limit_s or self._limits.call_s)
        for left in reversed(range(TRIES)):
            async with self._asked("POST", line) as response:
                wait = seconds_to_wait(response.headers.get("Retry-After", ""))
                patient = left and loop.time() + wait < until
                if response.status not in BUSY or not patient:
                    failure = await self._heard(response, asks)
                    break
            await asyncio.sleep(wait)
        if failure is not None:
            await self._fall_back(line, failure)

    async def _heard(self, response: aiohttp.ClientResponse, asks: bool) -> ServerFailed | None:
        """Take what a POST brought; return the failure after which the older way is to be tried."""
        if response.status >= 300 or (response.status == 204 and asks and not self._older):
            said = await self._start_of(response)
            kind = response.content_type
            failure = failure_of(response.status, said, self._address.label, html="html" in kind)
            fresh = not self._protocol and self._endpoint is None
            if fresh and asks and response.status in OLDER:
                return failure
            raise failure
        self._learn_session(response)
        if not asks or self._endpoint is not None:
            return None
        kind = response.content_type
        if kind == _EVENTS:
            await self._follow(response)
        elif kind == _JSON:
            if not self._on_line(await self._body(response)):
                raise self._invalid("its answer is no answer to the request")
        elif "html" in kind:
            raise self._invalid("answers with a web page; is that a login?")
        else:
            raise self._invalid(f"answers with {kind[:60]!r}, neither JSON nor events")
        return None

    def _learn_session(self, response: aiohttp.ClientResponse) -> None:
        name = response.headers.get("Mcp-Session-Id", "")
        if not name or self._protocol:
            return
        if len(name) > 1000 or not all("\x21" <= letter <= "\x7e" for letter in name):
            raise self._invalid("its session id is no visible ASCII")
        self._session = name

    # --- the transport of 2024-11-05 ----------------------------------------------------------

    async def _fall_back(self, line: bytes, failure: ServerFailed) -> None:
        try:
            async with asyncio.timeout(self._limits.start_s / 4):
                await self._open_stream()
        except (ServerFailed, TimeoutError, *_FAILURES):
            self._endpoint = None
            raise failure from None
        self._older = True
        async with self._asked("POST", line) as response:
            await self._heard(response, asks=True)

    async def _open_stream(self) -> None:
        """Open the one stream that all answers come on; it says first where messages go."""
        self._endpoint = asyncio.get_running_loop().create_future()
        listening = asyncio.create_task(self._told(True, self._listen, self._endpoint))
        self._keep(listening, self._sending)
        try:
            self._url = await self._endpoint
        except BaseException:
            listening.cancel()
            raise

    async def _listen(self, endpoint: asyncio.Future[str]) -> None:
        try:
            async with self._asked("GET") as response:
                self._expect_events(response)
                async for event in self._events(response):
                    if event.kind != "endpoint":
                        self._on_line(event.data)
                    elif not endpoint.done():
                        endpoint.set_result(self._endpoint_of(event))
        except (ServerFailed, *_FAILURES) as error:
            if endpoint.done():
                raise
            endpoint.set_exception(error)
            return
        ended = ServerFailed("closed its stream", where=self._address.label, outcome="exited")
        if endpoint.done():
            raise ended
        endpoint.set_exception(ended)

    def _endpoint_of(self, event: Event) -> str:
        url = joined(self._url, event.data.decode("utf-8", errors="replace").strip())
        try:
            split_address(url)
        except BadInput as error:
            raise self._invalid(f"names no place for messages: {error}") from None
        if origin(url) != origin(self._url):
            what = "wants its messages sent to another host"
            raise ServerFailed(what, where=self._address.label, outcome="unsafe")
        return url

    # --- streams and bodies -------------------------------------------------------------------

    async def _follow(self, response: aiohttp.ClientResponse) -> None:
        """Read a stream up to the answer; one that ends before is opened where it ended."""
        last = await self._last_before_answer(response)
        for _ in range(TRIES):
            if last is None:
                return
            if not last.id:
                break
            await asyncio.sleep(1.0 if last.retry_s is None else last.retry_s)
            async with self._asked("GET", last=last.id) as again:
                self._expect_events(again)
                last = await self._last_before_answer(again)
        raise self._invalid("its stream ended without an answer")

    async def _last_before_answer(self, response: aiohttp.ClientResponse) -> Event | None:
        """Return the last event of a stream that ended, or None where the answer came."""
        last = Event("message", b"", "", None)
        async for last in self._events(response):
            if last.data and self._on_line(last.data):
                return None
        return last

    def _expect_events(self, response: aiohttp.ClientResponse) -> None:
        if response.status != 200:
            raise failure_of(response.status, b"", self._address.label, html=False)
        if response.content_type != _EVENTS:
            raise self._invalid("its stream is no stream of events")

    async def _events(self, response: aiohttp.ClientResponse) -> AsyncIterator[Event]:
        found, size = EventBuffer(self._limits.line_bytes), 0
        try:
            async for part in self._parts(response):
                size += len(part) + LINE_BYTES * part.count(b"\n")
                if size > self._limits.noise_bytes + self._limits.line_bytes:
                    raise self._oversize("floods its stream")
                for event in found.feed(part):
                    size = 0
                    yield event
        except LineTooLong:
            raise self._oversize(f"an event exceeds {_size(self._limits.line_bytes)}") from None

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        body, most = bytearray(), self._limits.line_bytes
        async for part in self._parts(response):
            body += part
            if len(body) > most:
                raise self._oversize(f"a body exceeds {_size(most)}")
        return bytes(body)

    async def _start_of(self, response: aiohttp.ClientResponse) -> bytes:
        """Return the first part of a body that says what went wrong, if it comes soon."""
        with contextlib.suppress(TimeoutError, ServerFailed, *_FAILURES):
            async with asyncio.timeout(LAST_WORDS_S):
                async for part in self._parts(response):
                    return part[:4096]
        return b""

    async def _parts(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Yield a body unpacked, in small parts: a few bytes may unpack to gigabytes."""
        packed = response.headers.get("Content-Encoding", "").strip().lower()
        if packed not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise self._invalid(f"packs its answers with {packed[:40]!r}, which nobody asked for")
        unpacker = None if packed in ("", "identity") else zlib.decompressobj(zlib.MAX_WBITS | 32)
        size = 0
        async for chunk in response.content.iter_chunked(CHUNK):
            if unpacker is None:
                yield chunk
                continue
            size += len(chunk)
            if size > self._limits.noise_bytes:
                raise self._oversize("floods its output")
            for part in _unpacked(unpacker, chunk):
                yield part
            if unpacker.eof:  # what follows would be kept for nobody
                return

    # --- requests -----------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _asked(
        self, method: str, body: bytes | None = None, *, last: str = ""
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request and yield the response, after at most a few redirects."""
        url, self._door.refused = self._url, ""
        for _ in range(MAX_REDIRECTS + 1):
            async with self._http.request(
                method,
                url,
                data=body,
                headers=self._headers(url, method, last),
                allow_redirects=False,
            ) as response:
                if response.status not in (301, 302, 307, 308):
                    if method == "POST" and self._endpoint is None:
                        self._url = url
                    yield response
                    return
                url = self._door.redirected(url, response.headers.get("Location", ""))
        what = f"redirects more than {MAX_REDIRECTS} times"
        raise ServerFailed(what, where=self._address.label, outcome="invalid")

    def _headers(self, url: str, method: str, last: str) -> dict[str, str]:
        headers = dict(self._address.headers) if self._door.same_origin(url) else {}
        headers |= {"User-Agent": "toolloom", "Accept-Encoding": "identity", "Accept": _EVENTS}
        if method == "POST":
            headers |= {"Content-Type": _JSON, "Accept": f"{_JSON}, {_EVENTS}"}
        more = {
            "Mcp-Session-Id": self._session,
            "MCP-Protocol-Version": self._protocol,
            "Last-Event-ID": last,
        }
        return headers | {name: value for name, value in more.items() if value}

    # --- failures -----------------------------------------------------------------------------

    def _no_way(self, error: Exception) -> ServerFailed:
        where = self._address.label
        if self._door.refused:
            return ServerFailed(self._door.refused, where=where, outcome="unsafe")
        if isinstance(error, aiohttp.ClientConnectorCertificateError):
            what = "its certificate is not to be trusted"
        elif isinstance(error, aiohttp.ClientConnectorDNSError):
            what = "there is no such host"
        elif isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
            what = "breaks the connection off"
        elif isinstance(error, aiohttp.ClientConnectionError | OSError):
            what = "cannot be reached"
        elif isinstance(error, aiohttp.ClientPayloadError):
            return self._invalid("breaks off in the middle of its answer")
        elif isinstance(error, aiohttp.InvalidURL):
            return self._invalid("leads to an address that makes no sense")
        elif isinstance(error, zlib.error):
            return self._invalid("sends what cannot be unpacked")
        else:
            return self._invalid(f"does not speak HTTP as it must ({type(error).__name__})")
        return ServerFailed(what, where=where, outcome="unreachable")

    def _invalid(self, what: str) -> ServerFailed:
        return ServerFailed(what, where=self._address.label, outcome="invalid")

    def _oversize(self, what: str) -> ServerFailed:
        return ServerFailed(what, where=self._address.label, outcome="oversize")


def _unpacked(unpacker: Any, chunk: bytes) -> Iterator[bytes]:
    part = unpacker.decompress(chunk, CHUNK)
    while part:
        yield part
        part = unpacker.decompress(unpacker.unconsumed_tail, CHUNK)


def _size(count: int) -> str:
    return f"{count >> 20} MiB"
