"""The client against a real loopback HTTP server that answers what it is told to."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from synth.core.config import ModelConfig
from synth.core.errors import BadConfig, ModelFailed
from synth.core.llm.client import OpenAIModel
from synth.core.llm.reply import parse_reply
from synth.core.protocols import ChatRequest, Sampler

GOOD = {
    "model": "m-1",
    "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "hello"}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
}


@pytest.fixture
def server():
    """Serve `server.script`: a list of (status, body) in order; the last one repeats."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            httpd.seen.append(json.loads(body))
            status, answer = httpd.script[min(len(httpd.seen), len(httpd.script)) - 1]
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.seen, httpd.script = [], [(200, GOOD)]
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


def ask(server, timeout_s=10.0, **settings):
    config = ModelConfig(
        model="m-1",
        base_url=f"http://127.0.0.1:{server.server_port}/v1",
        key_env="NO_SUCH_KEY",
        timeout_s=timeout_s,
        **settings,
    )

    async def go():
        model = OpenAIModel(config)
        try:
            return await model.complete(
                ChatRequest(
                    messages=[{"role": "user", "content": "hi"}],
                    sampler=Sampler(temperature=0.5, max_tokens=7, seed=11),
                )
            )
        finally:
            await model.close()

    return asyncio.run(go())


def test_the_request_carries_the_sampler_and_the_reply_its_usage(server):
    reply = ask(server)
    assert reply.message.content == "hello"
    assert (reply.usage.prompt_tokens, reply.usage.cached_tokens) == (3, None)
    assert server.seen[0]["messages"] == [{"role": "user", "content": "hi"}]
    assert (server.seen[0]["temperature"], server.seen[0]["max_tokens"]) == (0.5, 7)
    assert server.seen[0]["seed"] == 11


def test_a_model_that_thinks_until_its_tokens_are_used_up_has_replied(server):
    message = {"content": "", "reasoning_content": "Let me see"}
    server.script = [(200, {"choices": [{"finish_reason": "length", "message": message}]})]
    reply = ask(server)
    assert (reply.finish, reply.message.reasoning) == ("length", "Let me see")
    assert len(server.seen) == 1


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503])
def test_a_passing_fault_is_retried(server, status):
    server.script = [(status, {"error": {"message": "later"}}), (200, GOOD)]
    assert ask(server).message.content == "hello"
    assert len(server.seen) == 2


def test_a_refused_request_is_reported_once_with_the_reason(server):
    server.script = [(400, {"error": {"message": "unknown model"}})]
    with pytest.raises(ModelFailed, match="400: unknown model"):
        ask(server)
    assert len(server.seen) == 1


def test_a_malformed_200_is_retried_and_never_taken_for_a_reply(server):
    server.script = [(200, b"<html>busy</html>"), (200, {"choices": []}), (200, GOOD)]
    assert ask(server).message.content == "hello"
    assert len(server.seen) == 3


def test_the_deadline_bounds_the_whole_call(server):
    server.script = [(503, {"error": {"message": "busy"}})]
    says = r"answered 503: busy: no request before .* later than this call may take"
    with pytest.raises(ModelFailed, match=says):
        ask(server, timeout_s=1.2, attempt_s=1.1)


def test_a_missing_key_names_the_variable_and_the_remedy(monkeypatch):
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(BadConfig, match="SOME_KEY is not set"):
        OpenAIModel(ModelConfig(model="m", key_env="SOME_KEY"))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"choices": None}, "no choices"),
        ({"choices": []}, "no choices"),
        ({"error": {"message": "overloaded"}}, "a 200 with an error"),
        ({"choices": [{"finish_reason": "stop", "message": None}]}, "no message"),
        ({"choices": [{"message": {"content": "cut"}}]}, "cut off"),
        ({"choices": [{"finish_reason": "stop", "message": {"content": ""}}]}, "neither text"),
        ({"choices": [{"finish_reason": "stop", "message": {"content": ["x"]}}]}, "not text"),
        (
            {"choices": [{"finish_reason": "stop", "message": {"tool_calls": [{"id": "1"}]}}]},
            "no function",
        ),
    ],
)
def test_what_is_no_reply_is_named(change, says):
    with pytest.raises(ModelFailed, match=says):
        parse_reply(json.dumps({**GOOD, **change}).encode(), "here")


def test_call_ids_are_filled_in_and_broken_arguments_stay_the_agents_own():
    calls = [
        {"id": "", "function": {"name": "a-b.c", "arguments": "{broken"}},
        {"id": "x", "function": {"name": "d", "arguments": {"k": 1}}},
    ]
    body = {**GOOD, "choices": [{"finish_reason": "tool_calls", "message": {"tool_calls": calls}}]}
    first, second = parse_reply(json.dumps(body).encode(), "here").message.tool_calls
    assert (first.id, first.name, first.arguments, first.value) == (
        "call_0",
        "a-b.c",
        "{broken",
        None,
    )
    assert second.value == {"k": 1}
