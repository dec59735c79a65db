"""The embedded model itself. Needs `xllamacpp` and a file of weights; skips without."""

import asyncio
import gc
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import jsonschema_rs
import pytest

from synth.core.errors import BadConfig, BadInput, ModelFailed
from synth.core.llm.local import LocalModel, Style, engine, open_local
from synth.core.llm.local.engine import Settings
from synth.core.protocols import ChatRequest, Sampler
from synth.core.types import Message

ROOT = Path(__file__).parents[2]
PLACES = [
    *filter(None, os.environ.get("TOOLLOOM_MODELS", "").split(os.pathsep)),
    ROOT.parent / "shared" / "models",
    ROOT / "workspace" / "cache" / "models",
]
"""Where weights may lie: nothing of that size is kept beside the code."""
SMALL = "SmolLM2-135M-Instruct.Q4_1.gguf"
SETTINGS = Settings(context=2048)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_balance",
            "description": "Return the balance of an account.",
            "parameters": {
                "type": "object",
                "properties": {"account": {"type": "string", "maxLength": 12}},
                "required": ["account"],
            },
        },
    }
]
ASK = [
    {"role": "system", "content": "You work at a bank."},
    {"role": "user", "content": "What is the balance of account A-7?"},
]


@pytest.fixture(scope="module")
def weights():
    pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")
    found = [place for folder in PLACES if (place := Path(folder) / SMALL).is_file()]
    if not found:
        pytest.skip(f"no {SMALL}: toolloom models fetch smollm2, or set TOOLLOOM_MODELS")
    return found[0]


@pytest.fixture(scope="module")
def model(weights):
    model = LocalModel(weights, settings=SETTINGS, timeout_s=600)
    yield model
    asyncio.run(model.close())


def ask(model, messages=ASK, tools=(), **sampler):
    sampler = {"temperature": 0.0, "max_tokens": 60} | sampler
    return asyncio.run(model.complete(ChatRequest(messages, tools, Sampler(**sampler))))


def test_a_seeded_request_gives_the_same_text_whatever_was_asked_before(model):
    first = ask(model, temperature=1.0, max_tokens=24, seed=3)
    ask(model, ASK[1:], max_tokens=4)
    again = ask(model, temperature=1.0, max_tokens=24, seed=3)
    assert first.message.content
    assert again.message == first.message
    assert again.usage.cached_tokens == 0
    assert ask(model, temperature=1.0, max_tokens=24, seed=4).message != first.message


def test_an_unseeded_request_reuses_what_was_computed_for_its_beginning(model):
    ask(model, max_tokens=1)
    reply = ask(model, max_tokens=1)
    assert reply.usage.cached_tokens > reply.usage.prompt_tokens // 2
    assert (reply.finish, reply.usage.completion_tokens) == ("length", 1)


def test_the_same_call_draws_the_same_seed_and_another_try_another(model):
    bodies = [
        model._body(ChatRequest(ASK, call=call, sampler=Sampler(seed=seed)))
        for call, seed in (("e/agent/0", None), ("e/agent/0", None), ("e/agent/1", None),
                           ("e/agent/0", 1), (None, 1), (None, None))
    ]  # fmt: skip
    seeds = [body.get("seed") for body in bodies]
    assert seeds[0] == seeds[1]
    assert len(set(seeds)) == 5
    assert seeds[-1] is None


def test_with_tools_every_reply_is_a_call_or_words(model):
    schema = jsonschema_rs.validator_for(TOOLS[0]["function"]["parameters"])
    reply = ask(model, tools=TOOLS, temperature=0.8, max_tokens=100, seed=1)
    assert reply.finish in ("stop", "tool_calls", "length")
    for call in reply.message.tool_calls:
        assert call.name == "get_balance"
        assert schema.is_valid(call.value)
    assert reply.message.content or reply.message.tool_calls


def test_the_grammar_holds_replies_to_a_schema_of_any_make(model):
    schema = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["savings", "checking"]},
            "amount": {"type": "integer", "minimum": 10, "maximum": 99},
            "day": {"type": "string", "format": "date"},
            "parts": {"type": "array", "items": {"$ref": "#/$defs/part"}, "maxItems": 2},
        },
        "required": ["kind", "amount", "day", "parts"],
        "additionalProperties": False,
        "$defs": {"part": {"type": ["boolean", "null"]}},
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    request = ChatRequest(ASK, (), Sampler(1.0, 1.0, 200, seed=1), wanted)
    reply = asyncio.run(model.complete(request))
    assert jsonschema_rs.is_valid(schema, json.loads(reply.message.content))


def test_the_name_says_what_it_is_and_that_it_is_weak(model):
    assert model.name.startswith("local:SmolLM2-135M-Instruct.Q4_1/tools@")
    assert model.name.endswith(" (weak: 135M parameters)")
    assert ask(model, max_tokens=1).model == model.name


def test_text_in_a_message_never_becomes_a_control_token(model):
    assert "<|im_end|>" in model.weights.control

    def tokens(content):
        reply = ask(model, [{"role": "user", "content": content}], max_tokens=1)
        return reply.usage.prompt_tokens

    assert tokens("a<|im_end|>") >= tokens("a") + 3  # the mark itself would be one


def test_text_that_is_no_unicode_does_not_reach_the_engine(model):
    assert ask(model, [{"role": "user", "content": "a\ud800b"}], max_tokens=1).finish == "length"


def test_a_conversation_beyond_the_context_is_a_named_failure(model):
    with pytest.raises(ModelFailed, match="exceeds the available context") as caught:
        ask(model, [{"role": "user", "content": "word " * 4000}])
    assert caught.value.outcome == "rejected"


def test_a_deadline_ends_the_computation_itself(weights):
    model = LocalModel(weights, settings=SETTINGS, timeout_s=0.3)
    with pytest.raises(ModelFailed, match=r"no end within 0\.3 s") as caught:
        ask(model, max_tokens=2000)
    assert caught.value.outcome == "timeout"
    assert_idle()
    asyncio.run(model.close())


def test_a_cancelled_call_stops_computing_and_the_next_one_is_served(model):
    async def scene():
        long = ChatRequest(ASK, (), Sampler(0.0, 1.0, 2000))
        calls = [asyncio.create_task(model.complete(long)) for _ in range(3)]
        await asyncio.sleep(0.3)
        for call in calls:
            call.cancel()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in done)
        return await model.complete(ChatRequest(ASK, (), Sampler(0.0, 1.0, 1)))

    assert asyncio.run(scene()).usage.completion_tokens == 1
    assert_idle()


def assert_idle():
    """The process computes next to nothing once a generation is ended."""
    time.sleep(0.1)
    before = time.process_time()
    time.sleep(0.5)
    assert time.process_time() - before < 2


def test_the_event_loop_goes_on_while_the_model_computes(model):
    async def scene():
        beats = 0
        call = asyncio.create_task(
            model.complete(ChatRequest(ASK, (), Sampler(0.0, 1.0, 40, seed=1)))
        )
        while not call.done():
            beats += 1
            await asyncio.sleep(0.01)
        return beats

    assert asyncio.run(scene()) >= 5


def test_many_callers_from_several_threads_are_each_answered(model):
    found = []

    def caller(number):
        found.append(ask(model, max_tokens=2, seed=number).usage.completion_tokens)

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2, 2, 2, 2]


def test_two_roles_share_one_loaded_model_and_the_last_to_leave_closes_it(weights, model):
    user = LocalModel(weights, settings=SETTINGS, style=Style.SCRIPT)
    assert user._engine is model._engine
    asyncio.run(user.close())
    asyncio.run(user.close())
    assert ask(model, max_tokens=1).usage.completion_tokens == 1
    alone = LocalModel(weights, settings=Settings(context=512))
    assert alone._engine is not model._engine
    asyncio.run(alone.close())
    with pytest.raises(ModelFailed, match="closed"):
        ask(alone)


def test_a_user_is_played_as_a_line_of_the_script(weights):
    model = LocalModel(weights, settings=SETTINGS, style=Style.SCRIPT, timeout_s=600)
    assert "/script@" in model.name
    reply = ask(model, [*ASK, {"role": "assistant", "content": "I am Ann."}, ASK[1]], max_tokens=20)
    assert reply.finish in ("stop", "length")
    assert "\n" not in reply.message.content
    with pytest.raises(BadInput, match="no calls"):
        ask(model, tools=TOOLS)
    asyncio.run(model.close())


def test_a_probability_of_yes_comes_from_the_first_token(model):
    question = ChatRequest([{"role": "user", "content": "Is water wet?"}])
    probability = asyncio.run(model.probability_of_yes(question))
    assert 0 < probability < 1


def kernel_table(name):
    return Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:]


def test_nothing_listens_on_the_network_or_stays_on_the_disk(model):
    inodes = {
        os.readlink(link)[8:-1]
        for link in Path("/proc/self/fd").iterdir()
        if os.path.islink(link) and os.readlink(link).startswith("socket:")
    }
    for table in ("tcp", "tcp6"):
        rows = [row.split() for row in kernel_table(table)]
        assert not [row for row in rows if row[3] == "0A" and row[9] in inodes]
    ours = [
        row.split()[-1]
        for row in kernel_table("unix")
        if row.endswith("s.sock") and "toolloom-" in row and row.split()[6] in inodes
    ]
    assert ours  # it listens there, and
    assert not any(Path(path).exists() for path in ours)  # nobody can connect to it


def test_a_file_that_is_no_model_is_one_clear_line(tmp_path, weights):
    broken = tmp_path / "broken.gguf"
    with weights.open("rb") as file:
        broken.write_bytes(file.read(4_000_000))
    with pytest.raises(ModelFailed, match=r"llama\.cpp cannot load it"):
        open_local(f"local:{broken}")
    broken.write_bytes(b"hello")
    with pytest.raises(BadInput, match="not a GGUF file"):
        open_local(f"local:{broken}")
    gc.collect()
    assert not [key for key in engine._open if key[0] == broken]


def test_without_the_package_the_remedy_is_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(BadConfig, match=r"pip install 'toolloom\[local\]'"):
        engine.acquire(tmp_path / "m.gguf", Settings())


CHILD = """
import asyncio, sys
from synth.core.llm.local import open_local
from synth.core.protocols import ChatRequest, Sampler
model = open_local("local:" + sys.argv[1])
request = ChatRequest([{"role": "user", "content": "Tell a story."}], (), Sampler(0, 1, 3000))
if sys.argv[2] == "leave":
    asyncio.run(model.complete(ChatRequest(request.messages, (), Sampler(0, 1, 2))))
    print("left", flush=True)
else:
    print("running", flush=True)
    asyncio.run(model.complete(request))
"""


@pytest.mark.parametrize(("how", "code"), [("leave", 0), ("interrupt", 130)])
def test_a_process_ends_cleanly_that_never_closed_its_model(weights, how, code):
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(weights), how],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert child.stdout.readline().strip() in ("left", "running")
    if how == "interrupt":
        time.sleep(0.5)
        child.send_signal(2)
    _, said = child.communicate(timeout=60)
    assert child.returncode in ({0} if how == "leave" else {code, 1, -2})
    assert ("KeyboardInterrupt" in said) == (how == "interrupt")


def test_messages_of_the_past_may_hold_no_content(model):
    past = [*ASK, Message(role="assistant", content=None).openai(), ASK[1]]
    assert ask(model, past, max_tokens=1).usage.completion_tokens == 1
