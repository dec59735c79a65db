"""One endpoint: its connections, its key and its patience. The one file that imports `openai`.

`client.post(cast_to=Response)` skips the package's typed request and response machinery, which
costs more CPU than the call (and accepts replies that are none); its aiohttp transport costs half
of the default one, and does not slow down with the number of connections.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import zlib
from collections.abc import AsyncIterator, Mapping
from typing import cast
from urllib.parse import urlsplit

import aiohttp
import httpx2
import openai

from synth.core.config import DEFAULT_KEY, ModelConfig
from synth.core.errors import BadConfig
from synth.core.llm.patience import Patience
from synth.core.llm.stream import DONE

MOST_BYTES = 32 << 20
"""Bytes of one reply, unpacked; an endless one ends there."""
CONNECT_S = 15.0
"""Seconds to reach a machine that does not answer at all."""
_TAIL = 32
_PACKED = ("gzip", "x-gzip", "deflate")
_ANY_HEAD = 32 + zlib.MAX_WBITS
"""Tells `zlib` to unpack either."""
_TELLING = 8
"""Characters of a key from its beginning that are not shown: texts are cut, also within a key."""


class Unreachable(Exception):
    """Nobody listens at the address, or there is no such machine: nothing was sent."""


class NetworkFault(Exception):
    """The connection broke, or what came was no HTTP; or it took too long."""

    def __init__(self, what: str, *, outcome: str = "network") -> None:
        super().__init__(what)
        self.outcome = outcome


class Refused(Exception):
    """The endpoint answered with a status that is no success."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status, self.headers, self.body = status, headers, body


class Endpoint:
    """One base URL with one key; the models of all roles at it share it.

    Args:
        config: address, name of the key's environment variable, concurrency.

    Raises:
        BadConfig: the key's variable is not set. Endpoints of one's own need none: one that is
            named must be there all the same, unless the endpoint is on this machine.
    """

    def __init__(self, config: ModelConfig) -> None:
        variable = config.key_env or DEFAULT_KEY
        self._key = os.environ.get(variable, "").strip()
        if not (self._key.isascii() and self._key.isprintable()):
            what = f"the environment variable {variable} holds no key: odd characters"
            raise BadConfig(what, where=f"model {config.model!r}", remedy="copy the key again")
        url = config.base_url
        if not self._key and (url is None or (config.key_env and not _is_here(url))):
            raise BadConfig(
                f"the environment variable {variable} is not set",
                where=f"model {config.model!r}",
                remedy="set it, or give base_url of an endpoint that needs no key"
                if url is None
                else f"set it, or leave key_env out if {urlsplit(url).netloc} needs no key",
            )
        self.patience = Patience(config.concurrency)
        self._config = config
        self._client: openai.AsyncOpenAI | None = None

    @staticmethod
    def identity(config: ModelConfig) -> tuple[str | None, str]:
        """Return what two models have in common that share an endpoint."""
        return config.base_url, config.key_env or DEFAULT_KEY

    @property
    def name(self) -> str:
        """Return the address without the path, for people."""
        return urlsplit(self._config.base_url or "https://api.openai.com").netloc

    def open(self) -> openai.AsyncOpenAI:
        """Return the client; the first time takes a tenth of a second, for certificates."""
        if self._client is None:
            # Our own queue bounds what is in flight; connections must never be what runs out.
            limits = httpx2.Limits(max_connections=100_000, max_keepalive_connections=None)
            http = openai.DefaultAioHttpClient(
                timeout=httpx2.Timeout(None, connect=CONNECT_S),
                limits=limits,
                event_hooks={"response": [_bound]},
                follow_redirects=False,  # a key goes to nobody but whom the user named
                verify=not str(self._config.base_url).startswith("http:"),  # nothing to verify
            )
            self._client = openai.AsyncOpenAI(
                api_key=self._key or "none",
                base_url=self._config.base_url,
                max_retries=0,
                timeout=httpx2.Timeout(None, connect=CONNECT_S),
                http_client=http,
            )
        return self._client

    async def ask(self, body: bytes, headers: Mapping[str, str], *, stream: bool) -> bytes:
        """Send one request and return what came with a success.

        Args:
            body: the request as JSON.
            headers: those besides the usual ones.
            stream: whether pieces are expected; reading ends at the mark that ends them.

        Raises:
            Refused: the endpoint answered, with another status.
            Unreachable: nobody is there.
            NetworkFault: the connection broke.
        """
        client = self.open()
        try:
            response = await client.post(
                f"{client.base_url}chat/completions",  # a path would be parsed twice
                cast_to=httpx2.Response,
                content=body,
                options={"headers": {"Content-Type": "application/json", **headers}},
                stream=stream,
                stream_cls=openai.AsyncStream[object],
            )
            response = cast(httpx2.Response, response)  # that is what `cast_to` makes of it
            return await _pieces(response) if stream else response.content
        except openai.APIStatusError as error:
            answer = error.response
            raise Refused(error.status_code, answer.headers, answer.content) from error
        except (openai.APIConnectionError, httpx2.HTTPError, aiohttp.ClientError) as error:
            causes = list(_causes(error))
            if any(_is_nobody(cause) for cause in causes):
                raise Unreachable(_line(causes)) from error
            raise NetworkFault(_line(causes)) from error

    def scrub(self, text: str) -> str:
        """Return a text of the endpoint without the key, which some repeat in their errors."""
        head = self._key[:_TELLING]
        if not head or head not in text:
            return text
        first, *others = text.split(head)
        return first + "".join(f"[key]{other[self._shared(other) :]}" for other in others)

    def _shared(self, text: str) -> int:
        """Return how many characters of a text go on with the key behind its telling ones."""
        rest = self._key[_TELLING:]
        return next(n for n in range(len(rest), -1, -1) if text.startswith(rest[:n]))

    async def close(self) -> None:
        """Close the connections."""
        self.patience.close()
        if self._client is not None:
            await self._client.close()
            self._client = None


class _Bounded(httpx2.AsyncByteStream):
    """A body that is given up when it is too long; unpacked here, where a bound can be set."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, packed: bool) -> None:
        self._stream = stream
        self._unpacking = zlib.decompressobj(_ANY_HEAD) if packed else None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            unpacked = self._unpacked(piece, MOST_BYTES + 1 - size)
            size += len(unpacked)
            if size > MOST_BYTES:
                raise httpx2.ReadError(f"a reply of more than {MOST_BYTES >> 20} MiB")
            yield unpacked

    def _unpacked(self, piece: bytes, most: int) -> bytes:
        if self._unpacking is None:
            return piece
        try:
            return self._unpacking.decompress(piece, most)
        except zlib.error as error:
            raise httpx2.ReadError("a packed reply that cannot be unpacked") from error

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    if isinstance(response.stream, httpx2.AsyncByteStream):
        packed = response.headers.get("content-encoding", "").strip().lower() in _PACKED
        if packed:
            del response.headers["content-encoding"]
        response.stream = _Bounded(response.stream, packed=packed)


async def _pieces(response: httpx2.Response) -> bytes:
    """Read a stream up to its end or its mark, and give the connection back."""
    pieces: list[bytes] = []
    tail = b"\n"
    try:
        async for piece in response.aiter_bytes():
            pieces.append(piece)
            tail = tail[-_TAIL:] + piece
            if DONE.search(tail):
                break
    finally:
        await response.aclose()
    return b"".join(pieces)


def _is_here(url: str) -> bool:
    """Say whether an address is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _causes(error: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


def _is_nobody(error: BaseException) -> bool:
    return isinstance(
        error, (ConnectionRefusedError, socket.gaierror, aiohttp.ConnectionTimeoutError)
    )


def _line(causes: list[BaseException]) -> str:
    """Return what went wrong in one line: the innermost cause that says anything."""
    said = [str(cause) for cause in causes if str(cause)]
    line = " ".join((said[-1] if said else type(causes[-1]).__name__).split())
    return line[:200]
