"""From configuration to models: shared endpoints, shared books, calls as text, a run that stops."""

import asyncio
import json
from typing import get_args

import pytest

from synth.core.config import Budget, ModelConfig, Models, load_config
from synth.core.errors import BadConfig, BadInput, BudgetSpent, ModelFailed
from synth.core.formats import FORMATS
from synth.core.llm import astext
from synth.core.llm.health import check
from synth.core.llm.journal import Journal
from synth.core.llm.mock.server import MockLLM
from synth.core.llm.open import OpenModels
from synth.core.protocols import ChatRequest, Finish, Reply, Sampler
from synth.core.types import Message, Usage

HI = ChatRequest([{"role": "user", "content": "Hi"}])


def config(mock, **settings):
    return ModelConfig(**{"model": "m", "base_url": mock.url, "key_env": "NO_KEY", **settings})


def mocked(work, **options):
    async def go():
        async with MockLLM(seed=1, **options) as mock:
            return await work(mock)

    return asyncio.run(go())


def test_roles_at_one_address_share_patience_and_others_do_not():
    models = OpenModels(
        Models(
            agent=ModelConfig(model="a", base_url="http://x/v1", concurrency=4),
            user=ModelConfig(model="u", base_url="http://x/v1", concurrency=9),
            judge=ModelConfig(model="j", base_url="http://y/v1"),
        )
    )
    assert len(models.endpoints) == 2
    assert models.llm("agent").endpoint is models.llm("user").endpoint
    assert models.llm("agent").endpoint.patience.most == 9
    assert models.llm("critic") is None
    assert "judge" in models
    assert "critic" not in models


def test_a_role_draws_its_tokens_as_configured():
    models = OpenModels(
        Models(
            agent=ModelConfig(
                model="a", base_url="http://x/v1", temperature=0.1, top_p=0.9, max_tokens=77
            )
        )
    )
    assert models.sampler("agent") == Sampler(0.1, 0.9, 77)


def test_a_run_that_is_resumed_pays_nothing_twice_and_its_books_go_on(tmp_path):
    async def session(mock, calls):
        journal = Journal(tmp_path)
        models = OpenModels(Models(agent=config(mock), user=config(mock)), journal=journal)
        replies = []
        for role in ("agent", "user"):
            bound = models.bound(role, "e1")
            replies += [(await bound.complete(HI)).message.content for _ in range(calls)]
        total = models.ledger.total()
        await models.close()
        journal.close()
        return replies, total

    async def go(mock):
        first, _ = await session(mock, 2)
        sent = len(mock.ledger.entries())
        second, total = await session(mock, 3)
        entries = mock.ledger.entries()
        assert (sent, len(entries)) == (4, 6)
        assert (second[:2], second[3:5]) == (first[:2], first[2:])
        assert {entry["call"] for entry in entries} == {
            f"e1/{role}/{n}" for role in ("agent", "user") for n in range(3)
        }
        assert total["attempts"] == 6
        for name in ("prompt_tokens", "completion_tokens"):
            assert total[name] == sum(entry[name] for entry in entries)

    mocked(go)


def test_a_budget_of_requests_is_never_exceeded_by_calls_in_flight(tmp_path):
    async def session(mock, requests):
        journal = Journal(tmp_path)
        models = OpenModels(
            Models(agent=config(mock)), budget=Budget(requests=requests), journal=journal
        )
        results = await asyncio.gather(
            *(models.bound("agent", f"e{n}").complete(HI) for n in range(40)),
            return_exceptions=True,
        )
        await models.close()
        journal.close()
        return results

    async def go(mock):
        results = await session(mock, 15)
        spent = [result for result in results if isinstance(result, BudgetSpent)]
        assert (len(spent), len(mock.ledger.entries())) == (25, 15)
        assert "goes on from here" in str(spent[0])
        again = await session(mock, 40)
        assert all(isinstance(result, Reply) for result in again)
        assert len(mock.ledger.entries()) == 40

    mocked(go, latency_s=0.02)


@pytest.mark.claim("a19")
def test_what_is_waited_for_is_told_by_endpoint():
    async def go(mock):
        models = OpenModels(Models(agent=config(mock, model="fault:http_429_300", timeout_s=5)))
        with pytest.raises(ModelFailed):
            await models.bound("agent", "e").complete(HI)
        (waiting,) = models.waiting()
        await models.close()
        assert waiting.endpoint == mock.url.split("/")[2]
        assert "429" in waiting.why
        assert models.endpoints

    mocked(go)


def test_a_missing_price_is_found_before_anything_is_spent():
    models = Models(agent=ModelConfig(model="m", base_url="http://x/v1"))
    with pytest.raises(BadConfig, match=r"models\.agent.*price"):
        OpenModels(models, budget=Budget(money=5.0))


def test_a_model_in_this_process_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(BadInput) as caught:
        OpenModels(Models(agent=ModelConfig(model="local:no-such")), folders=[tmp_path])
    assert "no-such" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("configured", "most"), [(64, 2), (1, 1)])
def test_a_model_in_this_process_is_asked_for_what_it_computes_at_once(
    monkeypatch, configured, most
):
    under_way, seen = [], []

    class Model:
        name = "local:m"
        concurrency = 2

        async def complete(self, request):
            under_way.append(request)
            seen.append(len(under_way))
            await asyncio.sleep(0)
            under_way.remove(request)
            return Reply(Message(role="assistant", content="so"), "stop", "m", Usage())

        async def close(self):
            pass

    monkeypatch.setattr("synth.core.llm.open._local", lambda *_: Model())
    models = OpenModels(Models(agent=ModelConfig(model="local:m", concurrency=configured)))

    async def go():
        bound = [models.bound("agent", f"e{n}") for n in range(9)]
        return await asyncio.gather(*(one.complete(HI) for one in bound))

    assert len(asyncio.run(go())) == 9
    assert max(seen) == most


def test_a_budget_of_tokens_counts_the_tools_that_a_model_in_this_process_is_told(monkeypatch):
    class Model:
        name = "local:m"
        concurrency = 1

        async def complete(self, request):
            raise AssertionError("it may not be asked")

        async def close(self):
            pass

    monkeypatch.setattr("synth.core.llm.open._local", lambda *_: Model())
    agent = ModelConfig(model="local:m")
    models = OpenModels(Models(agent=agent), budget=Budget(tokens=2_000))
    tool = {"type": "function", "function": {"name": "f", "description": "x" * 2_000}}
    request = ChatRequest(HI.messages, [tool], Sampler(max_tokens=100))
    with pytest.raises(BudgetSpent, match="tokens"):
        asyncio.run(models.bound("agent", "e").complete(request))


# --- calls as text ---------------------------------------------------------------------------

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get-it.now",
            "description": "Get it.",
            "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}},
        },
    }
]
TALK = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Get 1 and 2."},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": f"call_{n}", "function": {"name": "get-it.now", "arguments": f'{{"x": {n}}}'}}
            for n in (1, 2)
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "one"},
    {"role": "tool", "tool_call_id": "call_2", "content": "two"},
]


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_conversation_for_an_endpoint_that_knows_no_tools(name):
    family = astext.format_of(ModelConfig(model="m", tool_calls=name))
    system, user, assistant, results = astext.write(TALK, TOOLS, family)
    assert system["content"].startswith("Be brief.\n\nTools:\n")
    assert "get-it.now" in system["content"]
    assert user == TALK[1]
    assert set(assistant) == {"role", "content"}
    read = family.parse(assistant["content"])
    assert [(call.name, call.value) for call in read.calls] == [
        ("get-it.now", {"x": 1}),
        ("get-it.now", {"x": 2}),
    ]
    assert results == {
        "role": "user",
        "content": "Result of get-it.now:\none\n\nResult of get-it.now:\ntwo",
    }
    assert TALK[2]["content"] is None  # the conversation itself is untouched


def replied(text, finish="stop"):
    return Reply(Message(role="assistant", content=text), finish, "m", Usage())


def test_calls_are_read_out_of_the_text_and_ids_go_on_counting():
    family = astext.format_of(ModelConfig(model="m", tool_calls="hermes"))
    text = 'Sure.\n<tool_call>{"name": "get-it.now", "parameters": {"x": 3}}</tool_call>'
    reply = astext.read(replied(text), TALK, TOOLS, family)
    assert (reply.finish, reply.message.content) == (Finish.TOOL_CALLS, "Sure.")
    assert [(c.id, c.name, c.value) for c in reply.message.tool_calls] == [
        ("call_2", "get-it.now", {"x": 3})
    ]
    assert reply.repairs == ("parameters_key",)


@pytest.mark.claim("a07")
@pytest.mark.parametrize(
    ("finish", "expected", "usable"),
    [("stop", Finish.UNREADABLE, False), ("length", Finish.LENGTH, True)],
)
def test_text_that_begins_a_call_and_is_none_is_a_named_outcome(finish, expected, usable):
    family = astext.format_of(ModelConfig(model="m", tool_calls="hermes"))
    text = '<tool_call>{"name": "get-it.now", "argu'
    reply = astext.read(replied(text, finish), TALK, TOOLS, family)
    assert (reply.finish, reply.usable, reply.message.content) == (expected, usable, text)
    assert (reply.repairs != ()) is (finish == "stop")


def test_an_endpoint_of_text_gets_no_tools_and_plain_roles():
    async def go(mock):
        models = OpenModels(Models(agent=config(mock, tool_calls="hermes")))
        reply = await models.bound("agent", "e").complete(ChatRequest(TALK, TOOLS))
        body = json.loads(models.llm("agent")._body(ChatRequest(TALK, TOOLS)))
        await models.close()
        return reply, body

    reply, body = mocked(go)
    assert reply.message.content
    assert "tools" not in body
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "user"]


# --- what a model can do ---------------------------------------------------------------------


def test_a_health_check_tries_every_ability():
    health = mocked(lambda mock: check("agent", config(mock), probes=3))
    assert health.error == ""
    assert (health.probes, health.called, health.valid) == (3, 3, 3)
    assert health.abilities["usage"] is True
    assert health.abilities["json"] is True
    assert health.abilities["seed"] is True
    assert health.abilities["stream"] is True
    assert health.abilities["logprobs"] is True
    assert health.row()["reachable"] is True


def test_a_model_that_calls_no_tools_is_no_agent_but_may_be_a_user():
    async def go(mock):
        silent = config(mock, model="fault:finish_length")
        return [(await check(role, silent, probes=2)).missing for role in ("agent", "user")]

    agent, user = mocked(go)
    assert agent == ["tools"]
    assert user == []


def test_an_endpoint_that_refuses_is_not_reachable_and_says_why():
    health = mocked(lambda mock: check("judge", config(mock, model="fault:http_401")))
    assert health.missing == ["reachable"]
    assert "401" in health.error
    assert set(health.abilities.values()) == {None}


def test_inherited_settings_reach_every_role_that_is_given():
    loaded = load_config(
        None,
        [
            "models.default.base_url=http://x/v1",
            "models.default.model=shared",
            "models.default.concurrency=7",
            "models.judge.model=own",
            "models.agent.temperature=0.1",
        ],
    ).models
    assert set(loaded.roles()) == {"judge", "agent"}
    assert (loaded.judge.model, loaded.agent.model) == ("own", "shared")
    assert loaded.judge.concurrency == loaded.agent.concurrency == 7
    assert "default" not in loaded.model_dump()


def test_every_family_of_text_can_be_configured():
    names = get_args(ModelConfig.model_fields["tool_calls"].annotation)
    assert set(names) == {"native", *FORMATS}
