"""Plain sockets for the tests of the mock endpoint, byte by byte; workspaces for the registry."""

import asyncio
import json
import socket
import time

import orjson
import pytest

from synth.core.store import Workspace

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 3}},
    "required": ["city", "days"],
}


class Wire:
    """A client without opinions."""

    ask = {
        "messages": [{"role": "user", "content": "How is it in Oslo?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}],
    }
    stream = {"stream": True, "stream_options": {"include_usage": True}}

    def exchange(self, mock, body, *, enough=1 << 30, headers=""):
        """Post `body`; return all that came, how it ended, and the times of arrival."""
        data = orjson.dumps(body)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}"
        raw, times = b"", []
        with socket.create_connection(("127.0.0.1", mock.port), timeout=20) as plain:
            plain.sendall(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)
            sent = time.monotonic()
            try:
                while len(raw) < enough:
                    part = plain.recv(1 << 20)
                    times.append(time.monotonic() - sent)
                    if not part:
                        return raw, "end", times
                    raw += part
            except ConnectionResetError:
                return raw, "reset", times
        return raw, "enough", times

    def post(self, body, **headers):
        """Return a request as it is sent; `_` in the name of a header is `-`."""
        data = orjson.dumps(body)
        lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"POST /v1/chat/completions HTTP/1.1\r\n{lines}content-length: {len(data)}\r\n\r\n"
        return head.encode() + data

    async def once(self, mock, request):
        """Send one request on a connection of its own; return all bytes of the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", mock.port)
        try:
            writer.write(request.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nconnection: close\r\n", 1))
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    def split(self, raw):
        """Return status, headers and the body, as a list of its chunks if it has them."""
        head, _, body = raw.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        if headers.get("transfer-encoding") == "chunked":
            pieces = []
            while body:
                size, _, body = body.partition(b"\r\n")
                pieces.append(body[: int(size, 16)])
                body = body[int(size, 16) + 2 :]
            return int(first.split()[1]), headers, pieces
        return int(first.split()[1]), headers, body

    def faulty(self, mock, name, **more):
        """Ask for a fault; return status, headers, body and how it ended."""
        raw, end, _ = self.exchange(mock, {**self.ask, "model": f"fault:{name}", **more})
        return *self.split(raw), end

    def events(self, pieces):
        """Return the events of a stream, without `[DONE]`."""
        lines = b"".join(pieces).decode().splitlines()
        data = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
        return [json.loads(text) for text in data if text != "[DONE]"]

    def streamed(self, mock, name, **more):
        """Ask for a fault of a stream; return its chunks."""
        status, headers, pieces, end = self.faulty(mock, name, **{**self.stream, **more})
        assert (status, headers["content-type"], end) == (200, "text/event-stream", "end")
        return pieces

    def choices(self, pieces):
        """Return the choice of each event that has one."""
        return [event["choices"][0] for event in self.events(pieces) if event["choices"]]

    def arguments(self, mock):
        """Return the argument text of the call without a fault."""
        message = json.loads(self.faulty(mock, "content_null")[2])["choices"][0]["message"]
        return message["tool_calls"][0]["function"]["arguments"]


@pytest.fixture(scope="session")
def wire():
    return Wire()


@pytest.fixture
def fresh(tmp_path):
    """A workspace that is not there yet."""
    return Workspace(tmp_path / "ws", wait_s=0.3)


@pytest.fixture
def workspace(fresh, empty):
    fresh.path.mkdir()
    fresh.database.write_bytes(empty)
    return fresh
