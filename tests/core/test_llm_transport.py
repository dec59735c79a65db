"""Nobody there, somebody late, somebody endless: what the wires of an endpoint do to a client."""

import asyncio
import contextlib
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from synth.core.config import ModelConfig
from synth.core.errors import ModelFailed
from synth.core.llm.client import OpenAIModel
from synth.core.llm.mock.plan import Pace
from synth.core.llm.mock.server import MockLLM
from synth.core.protocols import ChatRequest, Sampler

REQUEST = ChatRequest(messages=[{"role": "user", "content": "hi"}], sampler=Sampler())


@contextlib.contextmanager
def _served(handler):
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield httpd.server_port
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


@pytest.mark.claim("f-transport")
def test_nobody_at_the_address_is_said_at_once_in_one_line():
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    url = f"http://127.0.0.1:{port}/v1"

    async def go():
        model = OpenAIModel(ModelConfig(model="m", base_url=url, timeout_s=60))
        start = time.monotonic()
        with pytest.raises(ModelFailed) as caught:
            await model.complete(REQUEST)
        await model.close()
        assert time.monotonic() - start < 10
        assert model.ledger.total()["attempts"] == 0
        return caught.value

    error = asyncio.run(go())
    assert error.outcome == "unreachable"
    assert f"nobody answers at 127.0.0.1:{port}" in str(error)
    assert "correct base_url" in str(error)
    assert "\n" not in str(error)


def test_an_attempt_that_reached_nobody_is_none():
    async def go():
        async with MockLLM() as mock:
            port, url = mock.port, mock.url
        model = OpenAIModel(ModelConfig(model="m", base_url=url, timeout_s=60))
        model.endpoint.patience.answered = True  # it was there before
        asked = asyncio.ensure_future(model.complete(REQUEST))
        while not model.endpoint.patience.in_flight:
            await asyncio.sleep(0.001)
        while model.endpoint.patience.in_flight:
            await asyncio.sleep(0.001)
        async with MockLLM(port=port) as mock:
            await asked
            attempts = [entry["attempt"] for entry in mock.ledger.entries()]
        await model.close()
        return attempts, model.ledger.total()

    attempts, total = asyncio.run(go())
    assert attempts == [0]
    assert (total["calls"], total["attempts"]) == (1, 1)


@pytest.mark.claim("a22")
def test_abandoned_streams_give_their_connections_back():
    async def go():
        async with MockLLM(seed=1, pace=Pace(pace_s=0.5)) as mock:
            slow = ModelConfig(
                model="fault:sse_slow", base_url=mock.url, stream=True, concurrency=4
            )
            model = OpenAIModel(slow)
            for _ in range(5):
                calls = [asyncio.ensure_future(model.complete(REQUEST)) for _ in range(4)]
                await asyncio.sleep(0.1)
                for call in calls:
                    call.cancel()
                await asyncio.gather(*calls, return_exceptions=True)
            other = OpenAIModel(slow.model_copy(update={"model": "m"}), endpoint=model.endpoint)
            reply = await asyncio.wait_for(other.complete(REQUEST), 10)
            assert model.endpoint.patience.in_flight == 0
            total = model.ledger.total()
            await model.close()
            return reply, total

    reply, total = asyncio.run(go())
    assert reply.message.content
    assert total["unknown"] == total["attempts"]  # cut off on the way: nobody knows what it cost


@pytest.mark.claim("f-transport")
def test_an_endless_reply_is_given_up_by_its_size(monkeypatch):
    monkeypatch.setattr("synth.core.llm.endpoint.MOST_BYTES", 100_000)
    body = b"x" * 200_000

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    async def go(port):
        settings = {"base_url": f"http://127.0.0.1:{port}/v1", "timeout_s": 1.5}
        model = OpenAIModel(ModelConfig(model="m", **settings))
        try:
            await model.complete(REQUEST)
        finally:
            await model.close()

    with _served(Handler) as port, pytest.raises(ModelFailed, match="a reply of more than"):
        asyncio.run(go(port))
