"""Every fault of the mock endpoint, met by the real client over real HTTP, streamed and not.

Each fault befalls the first request of its call. All calls are made at once, then each is looked
at: how it ended, how often it was asked, what was repaired, and that the books equal the ledger.
"""

import asyncio
import json

import pytest

from synth.core.config import ModelConfig
from synth.core.errors import ModelFailed
from synth.core.llm.client import OpenAIModel
from synth.core.llm.endpoint import Endpoint
from synth.core.llm.ledger import Ledger
from synth.core.llm.mock.fault_reply import INVISIBLE
from synth.core.llm.mock.fault_stream import WIDE
from synth.core.llm.mock.plan import Pace
from synth.core.llm.mock.server import MockLLM
from synth.core.llm.mock.table import FAULTS
from synth.core.protocols import ChatRequest, Finish

ATTEMPT_S = 6.0
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "lend-book.now",
            "description": "Lend a book.",
            "parameters": {
                "type": "object",
                "properties": {"book": {"type": "string"}},
                "required": ["book"],
            },
        },
    }
]
REJECTED = "http_400 http_401 http_403 http_404 http_413 http_422"
BUSY = "http_429 http_429_seconds http_429_date http_429_300 throttle_1s throttle_5s throttle_30s"
BUSY += " http_503 http_529"
AGAIN = """http_408 http_409 http_500 http_502 http_504
    reset_before_headers closed_before_headers reset_mid_body closed_mid_body
    slow_headers endless_body error_in_200 html_in_200 empty_body cut_json
    choices_null choices_empty message_null message_empty finish_null
    sse_no_finish sse_error_event sse_reset sse_stall sse_interleaved"""
FINE = """trickle content_null arguments_cut arguments_comma arguments_nan arguments_twice
    arguments_inner_text arguments_1mb unknown_tool many_calls finish_unknown usage_missing
    invisible needs_reasoning forbids_reasoning sse_no_done sse_usage_only sse_comments sse_crlf
    sse_no_space sse_split_character sse_bytewise sse_index_reuse sse_slow"""
REPAIRED = {
    "bom": "bom",
    "id_empty": "missing_id",
    "id_missing": "missing_id",
    "id_duplicate": "duplicate_id",
    "arguments_empty": "no_arguments",
    "arguments_null": "no_arguments",
    "arguments_text": "arguments_as_text",
    "surrogate": "lone_surrogate",
    "nul": "nul",
    "sse_no_ids": "missing_id",
}
ENDED = {
    "finish_length": Finish.LENGTH,
    "finish_length_in_call": Finish.LENGTH,
    "finish_content_filter": Finish.CONTENT_FILTER,
}
KNOWN = {*AGAIN.split(), *FINE.split(), *REJECTED.split(), *REPAIRED, *ENDED}
APART = {*BUSY.split(), "refused", "arguments_object"}
"""They change what the endpoint, or we, do to others; looked at in tests of their own."""


class Met:
    """What came of one call."""

    def __init__(self, model):
        self.model, self.reply, self.error = model, None, None

    async def ask(self, call):
        request = ChatRequest([{"role": "user", "content": "Lend me Dune"}], TOOLS, call=call)
        try:
            self.reply = await self.model.complete(request)
        except ModelFailed as error:
            self.error = error


def model(mock, fault, endpoint=None, **settings):
    config = ModelConfig(
        model=f"fault:{fault}@1", base_url=mock.url, key_env="NO_KEY", timeout_s=30,
        attempt_s=ATTEMPT_S, **settings,
    )  # fmt: skip
    return OpenAIModel(config, endpoint=endpoint or Endpoint(config), ledger=Ledger())


async def meet(faults):
    found = {}
    async with MockLLM(seed=1, pace=Pace(pace_s=0.01, stall_s=30.0)) as mock:
        shared = Endpoint(ModelConfig(model="m", base_url=mock.url, concurrency=256))
        for fault in sorted(faults):
            for stream in (False, True):
                if stream or not fault.startswith("sse_"):
                    one = Met(model(mock, fault, shared, stream=stream))
                    found[fault, stream] = one
        await asyncio.gather(*(one.ask(f"{name}-{s}/agent/0") for (name, s), one in found.items()))
        await shared.close()
        for (name, stream), one in found.items():
            call = f"{name}-{stream}/agent/0"
            one.entries = [entry for entry in mock.ledger.entries() if entry["call"] == call]
    return found


@pytest.fixture(scope="module")
def met():
    return asyncio.run(meet(KNOWN))


def each(names):
    names = names.split() if isinstance(names, str) else names
    both = [(name, stream) for name in names for stream in (False, True)]
    return pytest.mark.parametrize(
        "case", [one for one in both if one[1] or not one[0].startswith("sse_")], ids=str
    )


@pytest.mark.claim("f-all")
def test_every_fault_of_the_mock_has_its_place_here():
    assert set(FAULTS) == KNOWN | APART


@pytest.mark.claim("a16")
@pytest.mark.claim("f-status")
@pytest.mark.claim("f-transport")
@pytest.mark.claim("f-body")
@pytest.mark.claim("f-stream")
@each(AGAIN)
def test_what_may_pass_is_asked_for_once_more(met, case):
    one = met[case]
    assert one.error is None
    assert [entry["attempt"] for entry in one.entries] == [0, 1]
    assert one.reply.message.tool_calls[0].name == "lend-book.now"


@pytest.mark.claim("f-status")
@each(REJECTED)
def test_a_refused_request_is_not_asked_again_and_says_why(met, case):
    one = met[case]
    assert one.reply is None
    assert one.error.outcome == "rejected"
    assert f"answered {case[0][-3:]}: " in str(one.error)
    assert len(one.entries) == 1


@each(FINE)
def test_what_the_model_did_is_an_outcome(met, case):
    one = met[case]
    assert one.error is None
    assert len(one.entries) == 1
    assert one.reply.message.tool_calls


def changed(text, name):
    """Return what a model's arguments are under a fault, given what they are without."""
    value = json.loads(text)["book"]
    return {
        "arguments_cut": text[:-1],
        "arguments_comma": text[:-1] + ",}",
        "arguments_nan": '{"book": NaN}',
        "arguments_inner_text": json.dumps({"book": json.dumps(value)}),
        "arguments_twice": f'{{"book":{json.dumps(value)},{text[1:]}',
        "arguments_1mb": f'{{"note":"{"x" * (1 << 20)}",{text[1:]}',
        "invisible": f'{{"note":{json.dumps(INVISIBLE)},{text[1:]}',
    }.get(name, text)


@pytest.mark.claim("a02")
@pytest.mark.claim("a04")
@pytest.mark.claim("f-calls")
@pytest.mark.claim("f-finish")
@pytest.mark.claim("f-text")
@pytest.mark.claim("f-stream")
@each(FINE)
def test_what_was_said_comes_as_it_was_said(met, case):
    """Not one character is added, lost or guessed; wrong arguments are left to the tool."""
    name, stream = case
    sound = met["content_null", stream].reply.message.tool_calls[0]
    reply = met[case].reply
    times = {"many_calls": 60, "sse_index_reuse": 2}.get(name, 1)
    tool = "no_such_tool" if name == "unknown_tool" else sound.name
    said = [(call.name, call.arguments) for call in reply.message.tool_calls]
    assert said == [(tool, changed(sound.arguments, name))] * times
    assert len({call.id for call in reply.message.tool_calls}) == times
    readable = name not in {"arguments_cut", "arguments_comma", "arguments_nan", "arguments_twice"}
    assert (reply.message.tool_calls[0].value is not None) is readable
    assert reply.repairs == ()
    assert reply.finish == ("eos!" if name == "finish_unknown" else "tool_calls")
    if name == "sse_split_character":
        assert reply.message.content == WIDE
    if name == "invisible":
        assert INVISIBLE in reply.message.content
    if name.endswith("_reasoning"):
        assert reply.message.reasoning
    assert (reply.usage.prompt_tokens is None) is (name == "usage_missing")


@pytest.mark.claim("a01")
@pytest.mark.claim("f-calls")
@pytest.mark.claim("f-text")
@each(REPAIRED)
def test_a_repair_is_recorded(met, case):
    one = met[case]
    extra = ("not_streamed",) * (case == ("bom", True))
    assert one.reply.repairs == (REPAIRED[case[0]], *extra)
    ids = [call.id for call in one.reply.message.tool_calls]
    assert len(set(ids)) == len(ids)
    assert all(ids)
    str(one.reply.message).encode()


@pytest.mark.claim("a25")
@pytest.mark.claim("f-finish")
@each(ENDED)
def test_why_a_reply_ended_is_told(met, case):
    assert met[case].reply.finish == ENDED[case[0]]
    assert len(met[case].entries) == 1


@pytest.mark.claim("f-all")
@pytest.mark.claim("l01")
@pytest.mark.claim("r12")
@each(sorted(KNOWN))
def test_the_books_equal_the_endpoints_ledger(met, case):
    one = met[case]
    total = one.model.ledger.total()
    assert total["attempts"] == len(one.entries)
    timed_out = case[0] == "slow_headers"  # the endpoint tells its tokens after we have left
    entries = [entry for entry in one.entries if not (timed_out and entry["fault"])]
    for name in ("prompt_tokens", "completion_tokens"):
        assert total[name] == sum(entry[name] or 0 for entry in entries)
    untold = [e for e in entries if e["prompt_tokens"] is None and e["status"] < 400]
    assert total["unknown"] == len(untold) + timed_out


@pytest.mark.claim("f-calls")
def test_an_object_of_arguments_is_written_as_text():
    async def go(stream):
        async with MockLLM(seed=1) as mock:
            one = Met(model(mock, "arguments_object", stream=stream))
            await one.ask("e/agent/0")
            await one.model.close()
        assert isinstance(one.reply.message.tool_calls[0].value["book"], str)
        return one.reply.repairs

    assert asyncio.run(go(False)) == ("arguments_as_object",)


@pytest.mark.claim("f-status")
@pytest.mark.parametrize(
    ("fault", "least"), [("http_429_seconds", 1.0), ("throttle_1s", 1.0), ("http_503", 0.25)]
)
def test_a_busy_endpoint_is_asked_again_when_it_allows_it(fault, least):
    async def go():
        async with MockLLM(seed=1) as mock:
            one = Met(model(mock, fault))
            await one.ask("e/agent/0")
            await one.model.close()
            return one, mock.ledger.entries()

    one, entries = asyncio.run(go())
    assert one.reply.message.tool_calls
    assert len(entries) == 2
    assert entries[1]["at"] - entries[0]["at"] >= least
    assert one.model.ledger.total()["unknown"] == 0


@pytest.mark.claim("f-status")
def test_an_endpoint_that_asks_for_more_time_than_a_call_has_fails_it_at_once():
    async def go():
        async with MockLLM(seed=1) as mock:
            one, other = Met(model(mock, "http_429_300")), None
            await one.ask("e/agent/0")
            other = Met(model(mock, "http_429_300", one.model.endpoint))
            await other.ask("f/agent/0")
            waiting = one.model.endpoint.patience.waiting_until
            await one.model.close()
            return one, other, len(mock.ledger.entries()), waiting

    one, other, sent, waiting = asyncio.run(go())
    assert sent == 1  # the other one did not even ask
    for error in (one.error, other.error):
        assert error.outcome == "busy"
        assert "429" in str(error)
        assert "no request before" in str(error)
    assert waiting is not None


@pytest.mark.claim("a19")
def test_one_refusal_holds_back_everybody_at_that_endpoint():
    async def go():
        async with MockLLM(seed=1, latency_s=0.01) as mock:
            first = model(mock, "throttle_1s", concurrency=50)
            calls = [Met(model(mock, "throttle_1s", first.endpoint)) for _ in range(60)]
            await asyncio.gather(*(one.ask(f"e{n}/agent/0") for n, one in enumerate(calls)))
            await first.close()
            return calls, mock.ledger.entries()

    calls, entries = asyncio.run(go())
    assert all(one.reply for one in calls)
    refused = [entry for entry in entries if entry["status"] == 429]
    last = max(entry["at"] for entry in refused)
    first_pass = min(entry["at"] for entry in entries if entry["status"] == 200)
    assert first_pass >= refused[0]["at"] + 1.0
    assert len(entries) <= 3 * len(calls)
    assert last >= refused[0]["at"]


@pytest.mark.claim("f-transport")
def test_a_restarting_endpoint_is_waited_for_once_it_has_answered():
    async def go():
        async with MockLLM(seed=1) as mock:
            one = Met(model(mock, "refused"))
            one.model.endpoint.patience.answered = True
            await one.ask("e/agent/0")
            await one.model.close()
            return one, len(mock.ledger.entries())

    one, sent = asyncio.run(go())
    assert one.reply.message.tool_calls
    assert one.model.ledger.total()["attempts"] == sent
