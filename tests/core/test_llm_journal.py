"""The journal: nothing is paid twice; nothing that differs, is torn or flipped is used."""

import asyncio
import dataclasses
import zlib

import orjson
import pytest

from synth.core import jsonl
from synth.core.errors import DiskFull, ModelFailed
from synth.core.llm.journal import Journal, Journalled, request_hash
from synth.core.llm.ledger import Ledger
from synth.core.llm.scripted import ScriptedLLM
from synth.core.protocols import ChatRequest, Reply, Sampler
from synth.core.types import Message, ToolCall, Usage

HI = ChatRequest([{"role": "user", "content": "Hi ü"}])
WHOLE = Reply(
    Message(
        role="assistant",
        content=None,
        reasoning="hm",
        tool_calls=(ToolCall(id="a", name="get-it.now", arguments='{"x": "é"}'),),
    ),
    "tool_calls",
    "m-1",
    Usage(prompt_tokens=3, completion_tokens=None, cached_tokens=0),
    ("missing_id",),
    ({"Yes": -0.1, "No": -2.0},),
)


def ask(journal, replies, *, episode="e1", role="agent", requests=(HI,)):
    llm = ScriptedLLM(replies)
    bound = Journalled(llm, journal, episode, role)

    async def go():
        return [await bound.complete(request) for request in requests]

    return asyncio.run(go()), llm


def reopened(folder, **options):
    journal = Journal(folder, **options)
    journal.close()
    return journal


def filled(folder, count=3):
    journal = Journal(folder)
    replies, _ = ask(journal, [f"reply {n}" for n in range(count)], requests=[HI] * count)
    journal.close()
    return replies


def test_calls_are_numbered_by_role_and_episode():
    llm = ScriptedLLM(["a", "b", "c"])

    async def go():
        agent = Journalled(llm, None, "e1", "agent")
        await agent.complete(HI)
        await agent.complete(HI)
        await Journalled(llm, None, "e1", "user").complete(HI)

    asyncio.run(go())
    assert [r.call for r in llm.requests] == ["e1/agent/0", "e1/agent/1", "e1/user/0"]


def test_every_part_of_a_reply_comes_back(tmp_path):
    journal = Journal(tmp_path)
    ask(journal, [WHOLE])
    journal.close()
    journal = Journal(tmp_path)
    (reply,), llm = ask(journal, [])
    journal.close()
    assert reply == WHOLE
    assert llm.requests == []
    assert journal.replayed == 1


def test_replies_are_replayed_in_order_and_the_rest_is_asked_for(tmp_path):
    first = filled(tmp_path)
    journal = Journal(tmp_path)
    again, llm = ask(journal, ["new"], requests=[HI] * 4)
    journal.close()
    assert again[:3] == first
    assert again[3].message.content == "new"
    assert [r.call for r in llm.requests] == ["e1/agent/3"]
    assert reopened(tmp_path).find("e1/agent/3", request_hash(HI, "scripted")) == again[3]


@pytest.mark.claim("a29")
def test_eight_rollouts_of_one_prompt_stay_eight_texts(tmp_path):
    journal = Journal(tmp_path)
    texts = [ask(journal, [f"text {n}"], episode=f"e{n}")[0][0].message.content for n in range(8)]
    journal.close()
    journal = Journal(tmp_path)
    again = [ask(journal, [], episode=f"e{n}")[0][0].message.content for n in range(8)]
    journal.close()
    assert again == texts
    assert len(set(again)) == 8


@pytest.mark.claim("a29")
@pytest.mark.parametrize(
    "change",
    [
        {"messages": [{"role": "user", "content": "Ho"}]},
        {"tools": [{"type": "function"}]},
        {"sampler": Sampler(temperature=0.7)},
        {"sampler": Sampler(seed=1)},
        {"sampler": Sampler(max_tokens=5)},
        {"sampler": Sampler(top_p=0.5)},
        {"response_format": {"type": "json_object"}},
        {"top_logprobs": 2},
    ],
)
def test_a_reply_to_another_request_is_not_used_and_the_reason_is_kept(tmp_path, change):
    filled(tmp_path, 1)
    journal = Journal(tmp_path)
    (reply,), llm = ask(journal, ["new"], requests=[dataclasses.replace(HI, **change)])
    journal.close()
    assert reply.message.content == "new"
    assert len(llm.requests) == 1
    assert "prompts or tools have changed" in journal.differed["e1/agent/0"]


def test_another_model_is_another_request():
    assert request_hash(HI, "a") != request_hash(HI, "b")


def test_what_no_encoding_can_write_is_hashed_all_the_same():
    odd = ChatRequest([{"role": "user", "content": "\ud83c", "n": 1 << 70}])
    assert request_hash(odd) == request_hash(odd) != request_hash(HI)


def test_a_failed_call_leaves_nothing_and_is_asked_for_again(tmp_path):
    journal = Journal(tmp_path)
    with pytest.raises(ModelFailed):
        ask(journal, [])
    journal.close()
    journal = Journal(tmp_path)
    (reply,), _ = ask(journal, ["now"])
    journal.close()
    assert reply.message.content == "now"


def test_finished_episodes_take_no_memory_and_others_can_be_forgotten(tmp_path):
    filled(tmp_path, 1)
    hash_ = request_hash(HI, "scripted")
    assert reopened(tmp_path, finished={"e1"}).find("e1/agent/0", hash_) is None
    journal = reopened(tmp_path)
    journal.forget("e1")
    assert journal.find("e1/agent/0", hash_) is None


def test_every_shard_is_read_and_one_is_written(tmp_path):
    for shard in (0, 1):
        journal = Journal(tmp_path, shard=shard)
        ask(journal, [f"of {shard}"], episode=f"e{shard}")
        journal.close()
    journal = Journal(tmp_path, shard=2)
    assert ask(journal, [], episode="e0")[0][0].message.content == "of 0"
    assert ask(journal, [], episode="e1")[0][0].message.content == "of 1"
    journal.close()
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"calls-{n}.jsonl" for n in range(3)]


def test_a_torn_last_line_at_any_byte_costs_that_reply_only(tmp_path):
    filled(tmp_path)
    path = tmp_path / "calls-0.jsonl"
    whole = path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    for end in range(start, len(whole)):
        path.write_bytes(whole[:end])
        journal = Journal(tmp_path)
        replies, llm = ask(journal, ["again"], requests=[HI] * 3)
        journal.close()
        assert [r.message.content for r in replies] == ["reply 0", "reply 1", "again"]
        assert len(llm.requests) == 1
        assert journal.damaged == 0


def test_a_flipped_byte_anywhere_costs_at_most_two_replies_and_is_counted(tmp_path):
    filled(tmp_path)
    path = tmp_path / "calls-0.jsonl"
    whole = path.read_bytes()
    hash_ = request_hash(HI, "scripted")
    for place in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x15]) + whole[place + 1 :])
        journal = reopened(tmp_path)
        found = [journal.find(f"e1/agent/{n}", hash_) for n in range(3)]
        said = [reply.message.content for reply in found if reply]
        assert set(said) < {"reply 0", "reply 1", "reply 2"}
        assert journal.damaged >= 1


def test_a_reply_that_is_not_on_disk_is_not_used(tmp_path):
    resource = pytest.importorskip("resource")
    import signal

    journal = Journal(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, before[1]))
        with pytest.raises(DiskFull):
            ask(journal, ["too much"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    journal.close()
    assert (tmp_path / "calls-0.jsonl").read_bytes() == b""


def sealed(row):
    data = orjson.dumps(row)
    return b'{"crc":"%08x",' % zlib.crc32(data) + data[1:] + b"\n"


ENTRY = {
    "role": "agent",
    "model": "m",
    "call": "e1/agent/0",
    "attempt": 0,
    "status": 200,
    "prompt_tokens": 3,
    "completion_tokens": None,
    "cached_tokens": None,
}
COST = ("prompt_tokens", "completion_tokens", "cached_tokens")


@pytest.mark.parametrize("kind", ["asked", "spent"])
@pytest.mark.parametrize(
    "wrong",
    [
        *({name: value} for name in COST for value in (-1, 2.5, "3", True, [])),
        *({"attempt": value} for value in (None, "0", -1)),
        *({"role": value} for value in (None, 7, ["agent"])),
        {"model": None},
        {"call": 7},
        {"status": None},
        {"most": 5},
        {"most": [1]},
        {"most": [1, -2]},
    ],
    ids=str,
)
def test_a_cost_that_the_books_cannot_enter_is_damage_though_its_checksum_is_right(
    tmp_path, kind, wrong
):
    rows = [{kind: ENTRY}, {kind: ENTRY | {"call": "e1/agent/1"} | wrong}]
    (tmp_path / "calls-0.jsonl").write_bytes(b"".join(map(sealed, rows)))
    journal = reopened(tmp_path)
    ledger = Ledger()
    ledger.restore(journal.spent())
    assert journal.damaged == 1
    assert ledger.total()["attempts"] == 1


@pytest.mark.parametrize("missing", [*ENTRY, "all"])
def test_a_cost_without_one_of_its_fields_is_damage(tmp_path, missing):
    entry = {} if missing == "all" else {k: v for k, v in ENTRY.items() if k != missing}
    (tmp_path / "calls-0.jsonl").write_bytes(sealed({"spent": entry}))
    journal = reopened(tmp_path)
    assert (journal.damaged, journal.spent()) == (1, [])


ROW = {"call": "e1/agent/0", "request": "r", "reply": {"content": "hm"}}


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"other": 1},
        {"call": "e1/agent/0"},
        *(ROW | {name: value} for name in ROW for value in (None, 7, ["a"])),
        {"spent": None},
        {"asked": [1]},
    ],
    ids=str,
)
def test_a_row_of_no_kind_is_damage_though_its_checksum_is_right(tmp_path, row):
    (tmp_path / "calls-0.jsonl").write_bytes(sealed(row))
    journal = reopened(tmp_path)
    journal.recall({"e1"})
    assert journal.damaged == 1
    assert journal.find("e1/agent/0", "r") is None


@pytest.mark.parametrize("data", [b"{1}", b"{", b'{"call":"\xff"}'])
def test_a_row_that_is_not_json_is_damage_though_its_checksum_is_right(tmp_path, data):
    line = b'{"crc":"%08x",' % zlib.crc32(data) + data[1:] + b"\n"
    (tmp_path / "calls-0.jsonl").write_bytes(line)
    assert reopened(tmp_path).damaged == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"usage": None},
        {"usage": [1, 2]},
        {"usage": [1, 2, 3, 4]},
        {"usage": ["many", 2, 3]},
        {"calls": [["a", "b"]]},
        {"calls": [["a", "b", "{}", 4]]},
        {"calls": 7},
        {"content": 7},
        {"repairs": 7},
        {"logprobs": 7},
    ],
    ids=str,
)
def test_a_reply_that_cannot_be_read_is_asked_for_again_and_the_reason_is_kept(tmp_path, wrong):
    filled(tmp_path, 1)
    path = tmp_path / "calls-0.jsonl"
    (row,) = jsonl.read(path)
    del row["crc"]
    row["reply"] |= wrong
    path.write_bytes(sealed(row))
    journal = Journal(tmp_path)
    (reply,), llm = ask(journal, ["new"])
    journal.close()
    assert reply.message.content == "new"
    assert len(llm.requests) == 1
    assert journal.differed["e1/agent/0"].startswith("written by another version: ")
