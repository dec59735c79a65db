"""The client against a real loopback HTTP server that answers what it is told to."""

import asyncio
import gzip
import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from synth.core.config import ModelConfig, Models
from synth.core.errors import BadConfig, ModelFailed
from synth.core.llm.client import EMPTY_TRIES, TRIES, OpenAIModel
from synth.core.llm.journal import Journal
from synth.core.llm.mock.server import MockLLM
from synth.core.llm.open import OpenModels
from synth.core.protocols import ChatRequest, Finish, Sampler

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
            httpd.headers.append({name.lower(): text for name, text in self.headers.items()})
            status, answer = httpd.script[min(len(httpd.seen), len(httpd.script)) - 1]
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in httpd.extra.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.seen, httpd.headers, httpd.script, httpd.extra = [], [], [(200, GOOD)], {}
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield httpd
    httpd.shutdown()
    thread.join()
    httpd.server_close()


REQUEST = ChatRequest(
    messages=[{"role": "user", "content": "hi"}],
    sampler=Sampler(temperature=0.5, max_tokens=7, seed=11),
)


def ask(server, request=REQUEST, times=1, **settings):
    url = f"http://127.0.0.1:{server.server_port}/v1"
    settings = {"key_env": "NO_SUCH_KEY", "timeout_s": 10.0, **settings}
    config = ModelConfig(model="m-1", base_url=url, **settings)

    async def go():
        model = OpenAIModel(config)
        try:
            replies = [await model.complete(request) for _ in range(times)]
            return replies[0] if times == 1 else replies
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


def cut_stream():
    """A stream that ends after "abc" and does not say that it is over."""
    chunk = {"id": "c", "choices": [{"index": 0, "delta": {"content": "abc"}}]}
    return f"data: {json.dumps(chunk)}\n\n".encode()


@pytest.mark.claim("a17")
@pytest.mark.parametrize(
    ("finish_reason", "asked", "content"), [("required", 2, "hello"), ("optional", 1, "abc")]
)
def test_a_stream_that_just_ends_is_cut_off_unless_the_endpoint_is_trusted(
    server, finish_reason, asked, content
):
    server.script = [(200, cut_stream()), (200, GOOD)]
    reply = ask(server, stream=True, finish_reason=finish_reason)
    assert (reply.message.content, len(server.seen)) == (content, asked)


@pytest.mark.claim("a16")
def test_what_an_endpoint_says_instead_of_a_reply_is_told(server, monkeypatch):
    monkeypatch.setattr("synth.core.llm.patience.FIRST_WAIT_S", 0.001)
    server.script = [(200, {"choices": None, "detail": "the upstream provider is down"})]
    with pytest.raises(ModelFailed, match=r"no choices:.*the upstream provider is down") as caught:
        ask(server)
    assert caught.value.outcome == "malformed"
    assert len(server.seen) == TRIES


@pytest.mark.claim("f-transport")
def test_the_deadline_bounds_the_whole_call(server):
    server.script = [(503, {"error": {"message": "busy"}})]
    # Which of the two it is depends on how busy this machine is.
    says = r"answered 503: busy(: no request before .* later than this call may take)?"
    with pytest.raises(ModelFailed, match=says):
        ask(server, timeout_s=1.2, attempt_s=1.1)


def test_a_missing_key_names_the_variable_and_the_remedy(monkeypatch):
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(BadConfig, match="SOME_KEY is not set"):
        OpenAIModel(ModelConfig(model="m", key_env="SOME_KEY"))


HERE = ("http://127.0.0.1:1/v1", "http://[::1]:1/v1", "https://localhost/v1")


@pytest.mark.parametrize("url", [*HERE, "http://models.example/v1", "http://10.0.0.9/v1"])
def test_a_key_that_is_named_must_be_there_for_endpoints_elsewhere(monkeypatch, url):
    monkeypatch.delenv("SOME_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    OpenAIModel(ModelConfig(model="m", base_url=url))  # none is named, and none is needed
    config = ModelConfig(model="m", base_url=url, key_env="SOME_KEY")
    if url in HERE:
        OpenAIModel(config)
        return
    with pytest.raises(BadConfig, match=r"SOME_KEY is not set.*set it, or leave key_env out if"):
        OpenAIModel(config)


def test_a_call_says_who_asks_and_for_which_time(server):
    server.script = [(500, {"error": "later"}), (200, GOOD)]
    ask(server, replace(REQUEST, call="ep-1/agent/3"))
    marks = [(h["x-toolloom-call"], h["x-toolloom-attempt"]) for h in server.headers]
    assert marks == [("ep-1/agent/3", "0"), ("ep-1/agent/3", "1")]


def test_an_empty_reply_is_asked_for_again_and_then_believed(server):
    choice = {"finish_reason": "stop", "message": {"content": ""}}
    server.script = [(200, {**GOOD, "choices": [choice]})]
    reply = ask(server)
    assert (reply.message.content, reply.repairs) == (None, ("empty",))
    assert len(server.seen) == EMPTY_TRIES


def test_a_conversation_too_long_for_the_model_is_an_outcome(server):
    error = {"message": "maximum context length is 4096", "code": "context_length_exceeded"}
    server.script = [(400, {"error": error})]
    reply = ask(server)
    assert (reply.finish, reply.repairs) == (Finish.LENGTH, ("context_exceeded",))
    assert len(server.seen) == 1


def test_an_account_without_money_is_not_waited_for(server):
    server.script = [(429, {"error": {"message": "no quota", "code": "insufficient_quota"}})]
    with pytest.raises(ModelFailed, match="429: no quota") as caught:
        ask(server)
    assert caught.value.outcome == "rejected"
    assert len(server.seen) == 1


def test_an_endpoint_that_has_moved_gets_no_key_at_its_new_place(server, monkeypatch):
    monkeypatch.setenv("SOME_KEY", "sk-canary")
    server.script = [(307, b"")]
    server.extra = {"location": f"http://127.0.0.1:{server.server_port}/v2/chat/completions"}
    with pytest.raises(ModelFailed, match=r"moved to http.*/v2/.*mend base_url"):
        ask(server, key_env="SOME_KEY")
    assert len(server.seen) == 1


def test_what_fails_for_ever_ends_after_a_bounded_number_of_tries(server, monkeypatch):
    monkeypatch.setattr("synth.core.llm.patience.FIRST_WAIT_S", 0.001)
    server.script = [(500, {"error": {"message": "broken"}})]
    with pytest.raises(ModelFailed, match=f"{TRIES} tries failed.*500: broken") as caught:
        ask(server)
    assert caught.value.outcome == "server"
    assert len(server.seen) == TRIES


@pytest.mark.claim("a27")
def test_halves_of_characters_in_a_request_are_sent_as_something_that_can_be_read(server):
    request = ChatRequest([{"role": "user", "content": "file \ud83c.txt"}])
    ask(server, request)
    assert server.seen[0]["messages"][0]["content"] == "file \ufffd.txt"


HISTORY = ChatRequest(
    [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "reasoning_content": "hm"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "d"},
        {"role": "user", "content": "e"},
    ]
)


@pytest.mark.claim("a26")
@pytest.mark.parametrize(("policy", "sent"), [("omit", [None, None]), ("send", ["hm", ""])])
def test_earlier_reasoning_goes_back_as_the_policy_says(server, policy, sent):
    ask(server, HISTORY, reasoning=policy)
    assistants = [m for m in server.seen[0]["messages"] if m["role"] == "assistant"]
    assert [m.get("reasoning_content") for m in assistants] == sent
    assert HISTORY.messages[1]["reasoning_content"] == "hm"


@pytest.mark.claim("a26")
@pytest.mark.parametrize(
    ("policy", "fault"), [("omit", "forbids_reasoning"), ("send", "needs_reasoning")]
)
def test_endpoints_of_either_mind_take_the_history(policy, fault):
    async def go(reasoning):
        async with MockLLM(seed=1) as mock:
            config = ModelConfig(model=f"fault:{fault}", base_url=mock.url, reasoning=reasoning)
            model = OpenAIModel(config)
            try:
                return await model.complete(HISTORY)
            finally:
                await model.close()

    assert asyncio.run(go(policy)).message.content
    other = "send" if policy == "omit" else "omit"
    with pytest.raises(ModelFailed) as caught:
        asyncio.run(go(other))
    assert caught.value.outcome == "rejected"


def test_a_schema_with_a_number_beyond_64_bits_is_sent_as_it_is(server):
    parameters = {"type": "object", "properties": {"wei": {"maximum": 2**256}}}
    tool = {"type": "function", "function": {"name": "pay", "parameters": parameters}}
    ask(server, replace(REQUEST, tools=[tool]))
    assert server.seen[0]["tools"] == [tool]


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_that_unpacks_without_end_is_given_up_by_its_size(server, monkeypatch, stream):
    monkeypatch.setattr("synth.core.llm.endpoint.MOST_BYTES", 100_000)
    server.extra = {"content-encoding": "gzip"}
    server.script = [(200, gzip.compress(bytes(10_000_000)))]
    with pytest.raises(ModelFailed, match="a reply of more than"):
        ask(server, timeout_s=1.5, stream=stream)


def test_a_packed_reply_is_unpacked_and_a_broken_one_asked_for_again(server):
    server.extra = {"content-encoding": "gzip"}
    packed = gzip.compress(json.dumps(GOOD).encode())
    server.script = [(200, b"no gzip"), (200, packed[:20]), (200, packed)]
    assert ask(server).message.content == "hello"
    assert len(server.seen) == 3


def test_a_key_reaches_the_endpoint_and_nothing_else(server, monkeypatch, tmp_path, caplog):
    canary = "sk-canary-0123456789"
    monkeypatch.setenv("SOME_KEY", f" {canary}\n")
    caplog.set_level("DEBUG")
    journal = Journal(tmp_path)
    url = f"http://127.0.0.1:{server.server_port}/v1"
    config = ModelConfig(model="m-1", base_url=url, key_env="SOME_KEY")
    models = OpenModels(Models(agent=config), journal=journal)
    server.script = [
        (500, {"error": {"message": f"bad key {canary}"}}),
        (200, GOOD),
        (401, {"error": {"message": f"wrong key {canary}"}}),
        (401, {"error": {"message": f"{'x' * 185} {canary}"}}),  # what is shown ends in the key
    ]

    async def go():
        bound = models.bound("agent", "e")
        await bound.complete(REQUEST)
        with pytest.raises(ModelFailed) as caught:
            await bound.complete(REQUEST)
        with pytest.raises(ModelFailed) as cut:
            await bound.complete(REQUEST)
        assert str(cut.value).endswith("x [key]")
        shown = [str(caught.value), repr(caught.value), repr(models), str(models.ledger.rows())]
        shown += [repr(vars(models.endpoints[url, "SOME_KEY"].patience)), config.model_dump_json()]
        await models.close()
        return shown

    shown = asyncio.run(go())
    journal.close()
    assert server.headers[0]["authorization"] == f"Bearer {canary}"
    assert "wrong key [key]" in shown[0]
    files = [path.read_text(encoding="utf-8") for path in tmp_path.iterdir()]
    assert len(files) == 1
    for text in (*shown, *files, caplog.text, *map(str, server.seen)):
        assert canary not in text


@pytest.mark.parametrize("key", ["sk-ü", "sk-\x07"])
def test_a_key_with_odd_characters_is_refused_without_being_shown(monkeypatch, key):
    monkeypatch.setenv("SOME_KEY", key)
    with pytest.raises(BadConfig, match="SOME_KEY holds no key") as caught:
        OpenAIModel(ModelConfig(model="m", key_env="SOME_KEY"))
    assert key not in str(caught.value)
