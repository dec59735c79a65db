"""The books: exact sums, unknown apart from zero, and limits that calls in flight cannot exceed."""

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synth.core.config import Budget, ModelConfig
from synth.core.errors import BadConfig, BudgetSpent, DiskFull
from synth.core.formats import FORMATS, Unwritable
from synth.core.llm.client import OpenAIModel
from synth.core.llm.journal import Journal
from synth.core.llm.ledger import TEMPLATE_TOKENS, Ledger, at_least, most_tokens
from synth.core.protocols import ChatRequest
from synth.core.types import Usage

PRICED = ModelConfig(model="m", price_in=2.0, price_out=10.0, price_cached=0.5)


def usage(prompt=None, completion=None, cached=None):
    return Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached)


async def spend(ledger, account, told, *, most=(100, 100), status=200, attempt=0):
    ticket = await ledger.reserve(account, *most)
    ticket.sent, ticket.status, ticket.usage, ticket.attempt = True, status, told, attempt
    ledger.close(ticket)


def test_tokens_and_money_are_summed_exactly_by_role_and_model():
    ledger = Ledger()
    agent, judge = ledger.open("agent", PRICED), ledger.open("judge", ModelConfig(model="j"))

    async def go():
        await spend(ledger, agent, usage(1_000_000, 200_000, 500_000))
        await spend(ledger, agent, usage(1, 1), attempt=1)
        await spend(ledger, judge, usage(5, 6))

    asyncio.run(go())
    first, second = ledger.rows()
    assert (first["calls"], first["attempts"], first["prompt_tokens"]) == (1, 2, 1_000_001)
    assert first["money"] == pytest.approx(0.5 * 2 + 0.5 * 0.5 + 0.2 * 10 + 12e-6)
    assert (second["role"], second["money"], second["completion_tokens"]) == ("judge", None, 6)
    total = ledger.total()
    assert (total["attempts"], total["prompt_tokens"], total["money"]) == (3, 1_000_006, None)


def test_unknown_is_counted_apart_and_marks_the_sums():
    ledger = Ledger()
    account = ledger.open("agent", PRICED)

    async def go():
        await spend(ledger, account, usage(10, 10))
        await spend(ledger, account, usage())
        await spend(ledger, account, usage(5, None))
        await spend(ledger, account, usage(), status=429)  # refused: costs nothing
        await spend(ledger, account, usage(), status="timeout")

    asyncio.run(go())
    row = ledger.rows()[0]
    assert (row["attempts"], row["prompt_tokens"], row["completion_tokens"]) == (5, 15, 10)
    assert (row["unknown"], row["complete"]) == (3, False)


@pytest.mark.parametrize(
    ("value", "complete", "shown"),
    [(1234.5, True, "1,234.50"), (1234.5, False, ">= 1,234.50"), (None, False, "unknown")],
)
def test_sums_that_lack_something_say_so(value, complete, shown):
    assert at_least(value, complete=complete, digits=2) == shown


@pytest.mark.parametrize(
    ("budget", "spent", "says"),
    [
        (Budget(requests=3), 3, "the budget of 3 requests is spent"),
        (Budget(tokens=1000), 4, "the budget of 1,000 tokens is spent: 800 are used"),
        (Budget(money=0.004), 3, "the budget of 0.004 money is spent: 0.0036 are used"),
    ],
)
def test_a_spent_budget_stops_the_next_request_and_says_how_to_go_on(budget, spent, says):
    ledger = Ledger(budget)
    account = ledger.open("agent", PRICED)

    async def go():
        for _ in range(spent):
            await spend(ledger, account, usage(100, 100), most=(150, 100))
        with pytest.raises(BudgetSpent) as caught:
            await ledger.reserve(account, 150, 100)
        assert says in str(caught.value)
        assert "goes on from here" in str(caught.value)
        assert caught.value.exit_code == 3

    asyncio.run(go())


def test_a_reservation_that_was_never_sent_is_given_back():
    ledger = Ledger(Budget(requests=1))
    account = ledger.open("agent", PRICED)

    async def go():
        ledger.close(await ledger.reserve(account, 1, 1))
        await spend(ledger, account, usage(1, 1))

    asyncio.run(go())
    assert ledger.total()["attempts"] == 1


def test_calls_wait_for_room_that_those_in_flight_may_leave():
    ledger = Ledger(Budget(tokens=1000))
    account = ledger.open("agent", PRICED)

    async def go():
        first = await ledger.reserve(account, 400, 200)
        waiting = asyncio.ensure_future(ledger.reserve(account, 400, 200))
        await asyncio.sleep(0)
        assert not waiting.done()
        first.sent, first.status, first.usage = True, 200, usage(10, 10)
        ledger.close(first)
        ledger.close(await asyncio.wait_for(waiting, 1))

    asyncio.run(go())


def test_a_full_disk_leaves_nobody_waiting_and_the_sums_right():
    def log(entry):
        raise DiskFull("no space left")

    async def go():
        ledger = Ledger(Budget(tokens=250), log)
        account = ledger.open("agent", PRICED)
        first = await ledger.reserve(account, 100, 100)
        first.sent, first.status, first.usage = True, 200, usage(10, 10)
        second = asyncio.ensure_future(ledger.reserve(account, 100, 100))
        await asyncio.sleep(0)
        with pytest.raises(DiskFull):
            ledger.close(first)
        await asyncio.wait_for(second, 5)
        assert ledger.total()["prompt_tokens"] == 10

    asyncio.run(go())


def test_tokens_that_stay_unknown_count_at_most_for_the_limit():
    ledger = Ledger(Budget(tokens=1000))
    account = ledger.open("agent", PRICED)

    async def go():
        await spend(ledger, account, usage(), most=(300, 300))
        with pytest.raises(BudgetSpent):
            await ledger.reserve(account, 300, 300)

    asyncio.run(go())
    assert ledger.total()["prompt_tokens"] == 0


def test_earlier_sessions_count():
    log = []
    first = Ledger(log=log.append)
    asyncio.run(spend(first, first.open("agent", PRICED), usage(7, 8, 2)))
    asyncio.run(spend(first, first.open("agent", PRICED), usage(), most=(30, 40)))
    second = Ledger(Budget(requests=2))
    account = second.open("agent", PRICED)
    second.restore(log)
    assert second.total() == first.total()
    with pytest.raises(BudgetSpent):
        asyncio.run(spend(second, account, usage(1, 1)))


@pytest.mark.claim("l01")
def test_what_is_announced_and_never_entered_counts_as_unknown(tmp_path):
    """As after kill -9; entered again by the next session under the same name, it counts twice."""

    async def go(ledger, account, call, *, end):
        ticket = await ledger.reserve(account, 30, 40)
        ledger.send(ticket, call, 0)
        if end == "killed":
            return
        ticket.sent, ticket.status = end == "answered", 200
        ticket.usage = usage(7, 8)
        ledger.close(ticket)

    def session(*calls):
        journal = Journal(tmp_path)
        ledger = Ledger(log=journal.log, announce=journal.announce)
        account = ledger.open("agent", PRICED)
        ledger.restore(journal.spent())
        before = ledger.total()
        for call, end in calls:
            asyncio.run(go(ledger, account, call, end=end))
        journal.close()
        return before, ledger

    session(("e/agent/0", "answered"), ("e/agent/1", "killed"), ("e/agent/2", "unreachable"))
    before, ledger = session(("e/agent/1", "answered"), ("e/agent/2", "killed"))
    assert (before["attempts"], before["prompt_tokens"], before["unknown"]) == (2, 7, 1)
    assert ledger.total()["attempts"] == 3
    after, ledger = session()
    assert (after["attempts"], after["prompt_tokens"], after["unknown"]) == (4, 14, 2)
    assert after["complete"] is False
    journal = Journal(tmp_path)
    limited = Ledger(Budget(tokens=2 * 15 + 2 * 70))  # it counts the most that they can have been
    limited.restore(journal.spent())
    journal.close()
    with pytest.raises(BudgetSpent):
        asyncio.run(limited.reserve(limited.open("agent", PRICED), 1, 0))


def test_no_request_leaves_that_the_disk_does_not_know():
    def full(entry):
        raise DiskFull("no space left")

    async def go():
        ledger = Ledger(announce=full)
        ticket = await ledger.reserve(ledger.open("agent", PRICED), 1, 1)
        with pytest.raises(DiskFull):
            ledger.send(ticket, "e/agent/0", 0)
        ledger.close(ticket)
        return ledger.total()["attempts"]

    assert asyncio.run(go()) == 0


TEXTS = st.text('0123456789 {}",:\n\u00e9\u4e2d\U0001f389', max_size=9)
SCHEMAS = st.recursive(
    st.integers() | st.booleans() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
TOOLS = st.fixed_dictionaries(
    {
        "name": st.just("f"),
        "description": TEXTS,
        "parameters": st.dictionaries(TEXTS, SCHEMAS, max_size=3),
    }
).map(lambda function: {"type": "function", "function": function})
CALLS = st.fixed_dictionaries(
    {"name": st.just("f"), "arguments": st.dictionaries(TEXTS, TEXTS, max_size=4).map(json.dumps)}
).map(lambda function: {"id": "call_1", "type": "function", "function": function})
MESSAGES = st.fixed_dictionaries({"role": st.sampled_from(["user", "tool"]), "content": TEXTS})
MESSAGES |= st.fixed_dictionaries(
    {
        "role": st.just("assistant"),
        "content": st.none(),
        "tool_calls": st.lists(CALLS, min_size=1, max_size=3),
    }
)


@given(
    st.sampled_from(["hermes-json", "kimi-k2", "llama3", "mistral-v3", "mistral-v11"]),
    st.lists(MESSAGES, max_size=4),
    st.lists(TOOLS, max_size=3),
)
@settings(max_examples=80)
def test_a_prompt_has_no_more_tokens_than_are_reserved_even_if_each_byte_is_one(
    name, messages, tools
):
    messages = [{**m, "tool_call_id": "call_1"} if m["role"] == "tool" else m for m in messages]
    model = OpenAIModel(ModelConfig(model="m", base_url="http://127.0.0.1:1/v1"))
    body = model._body(ChatRequest(messages, tools))
    try:
        pieces = FORMATS[name].pieces(messages, tools, cue=True)
    except Unwritable:
        return
    least = FORMATS[name].pieces([], [{"function": {"name": ""}}] if tools else [], cue=True)
    own = sum(len(piece.text.encode()) for piece in least)  # what the template says by itself
    assert own <= TEMPLATE_TOKENS
    prompt = sum(len(piece.text.encode()) for piece in pieces)
    assert prompt - own <= most_tokens(body) - TEMPLATE_TOKENS


def test_money_is_not_limited_without_a_price():
    with pytest.raises(BadConfig, match=r"models\.agent.*price_in and price_out"):
        Ledger(Budget(money=1.0)).open("agent", ModelConfig(model="m"))


@given(
    st.integers(1, 30),
    st.lists(st.tuples(st.integers(0, 50), st.sampled_from([0, 1, 2])), min_size=1, max_size=40),
)
@settings(max_examples=40, deadline=None)
def test_no_interleaving_exceeds_the_limits(requests, calls):
    ledger = Ledger(Budget(requests=requests, tokens=500))
    account = ledger.open("agent", PRICED)
    sent = []

    async def one(tokens, yields):
        try:
            ticket = await ledger.reserve(account, 30, 20)
        except BudgetSpent:
            return
        try:
            for _ in range(yields):
                await asyncio.sleep(0)
            ticket.sent, ticket.status = True, 200
            sent.append(tokens)
            ticket.usage = usage(min(tokens, 30), max(0, tokens - 30))
        finally:
            ledger.close(ticket)

    async def go():
        await asyncio.gather(*(one(*call) for call in calls))

    asyncio.run(go())
    assert len(sent) <= requests
    assert sum(sent) <= 500
    assert ledger.total()["attempts"] == len(sent)
    assert len(sent) == len(calls) or len(sent) == requests or sum(sent) > 450
