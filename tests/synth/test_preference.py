"""Preference pairs: one beginning, two continuations, and the agent is who makes the difference."""

import asyncio
import json

import pytest

from synth.core.config import change_config, load_config
from synth.core.errors import BadInput, TargetMissed
from synth.core.types import CriterionResult, Fault, Fork, Message, ToolCall, Trajectory, Verdict
from synth.pairs import conversational, pair_rows, pairs, parting
from synth.pipeline.export import export, run_tools
from synth.pipeline.forks import fork
from synth.pipeline.generate import Goal
from synth.pipeline.job import How, generate
from synth.pipeline.origins import Origin, Wish
from synth.pipeline.pairs import export_pairs
from synth.pipeline.replay import replay
from synth.run import Episode, read_episodes, read_plan

SETTINGS = ["generate.applications=['hotel']", "generate.agents=4", "generate.errors.rate=0.5"]


@pytest.fixture(scope="module", name="workspace")
def _workspace(tmp_path_factory):
    """A run of which half of the episodes fail, and what an exact agent makes of those."""
    folder = tmp_path_factory.mktemp("paired")
    base = folder / "runs" / "base"
    asyncio.run(generate(load_config(None, SETTINGS), base, folder, Goal(episodes=16)))
    config = change_config(Origin(base).config, ["generate.errors.rate=0"])
    wish = Wish(which="failed", copies=2)
    asyncio.run(fork(base, folder / "runs" / "forks", folder, wish, config, How()))
    return folder


@pytest.fixture(scope="module", name="run")
def _run(workspace):
    return workspace / "runs" / "forks"


@pytest.fixture(scope="module", name="episodes")
def _episodes(workspace):
    runs = ("base", "forks")
    found = (e for name in runs for e in read_episodes(workspace / "runs" / name))
    return {episode.trajectory.episode: episode for episode in found}


def plain(messages):
    """Messages of a row as those of an episode: roles, words, calls."""
    return [
        (
            m["role"],
            m["content"],
            [(c["function"]["name"], c["function"]["arguments"]) for c in m.get("tool_calls", ())],
        )
        for m in messages
    ]


def said(trajectory):
    return [
        (m.role, m.content or "", [(c.name, c.value) for c in m.tool_calls])
        for m in trajectory.messages
    ]


def test_each_side_is_the_beginning_and_a_whole_continuation_of_an_episode(run, episodes):
    rows = list(pair_rows(run, run_tools(run)))
    assert len(rows) >= 6
    for row in rows:
        for side in ("chosen", "rejected"):
            episode = episodes[row[f"{side}_episode"]]
            assert plain(row["prompt"] + row[side]) == said(episode.trajectory)
            verdict = episode.verdict.model_dump(mode="json", exclude={"episode"})
            assert json.loads(row[f"{side}_verdict"]) == verdict
            assert row["task"] == episode.trajectory.task
        first = row["chosen"][0], row["rejected"][0]
        assert [message["role"] for message in first] == ["assistant", "assistant"]
        assert plain(first[:1]) != plain(first[1:])
        assert json.loads(row["chosen_verdict"])["passed"] is True
        assert json.loads(row["rejected_verdict"])["passed"] is False
        assert json.loads(row["rejected_verdict"])["fault"] in (None, "agent")
        names = {tool["function"]["name"] for tool in json.loads(row["tools"])}
        assert {name for _, _, calls in plain(row["chosen"]) for name, _ in calls} <= names


def test_both_sides_replay(run, workspace):
    for name in ("base", "forks"):
        replayed = asyncio.run(replay(workspace / "runs" / name, workspace))
        assert replayed.same == replayed.planned
        assert not replayed.differing


def test_no_two_rows_say_the_same(run):
    rows = list(pair_rows(run, run_tools(run), "step"))
    texts = [json.dumps([row["prompt"], row["chosen"], row["rejected"]]) for row in rows]
    assert len(set(texts)) == len(texts)
    plan = list(read_plan(run))
    assert len(plan) > len(texts)  # two copies often say the same at first
    assert all(len(row["chosen"]) == len(row["rejected"]) == 1 for row in rows)


def test_a_file_of_pairs_has_its_card_and_a_row_a_line(run, tmp_path):
    formats = ("preference", "preference-step")
    written = export_pairs(run, tmp_path, formats=formats, limit=5)
    assert list(written["files"].values()) == [5, 5]
    lines = (tmp_path / "train.jsonl").read_text().splitlines()
    assert len(lines) == 5
    assert written["episodes"][str(tmp_path / "train.jsonl")] == [
        json.loads(line)["chosen_episode"] for line in lines
    ]
    card = (tmp_path / "README.md").read_text()
    assert "5 pairs of" in card
    assert "data_files: train.jsonl" in card


def test_calls_are_renamed_as_in_one_conversation(run, tmp_path):
    export_pairs(run, tmp_path, formats=("preference",), limit=None, ids="mistral9")
    for line in (tmp_path / "train.jsonl").read_text().splitlines():
        row = json.loads(line)
        for side in ("chosen", "rejected"):
            messages = row["prompt"] + row[side]
            asked = [c["id"] for m in messages for c in m.get("tool_calls", ())]
            given = [m["tool_call_id"] for m in messages if m["role"] == "tool"]
            assert asked == given
            assert all(len(name) == 9 and name.isalnum() for name in asked)
            assert len(set(asked)) == len(asked)


def test_episodes_of_a_run_of_forks_are_exported_as_ever(run, tmp_path):
    written = export(run, tmp_path, formats=("openai",), limit=None)
    assert written["rows"] == len(list(read_plan(run)))


def test_a_run_that_is_none_of_forks_has_no_pairs(workspace, tmp_path):
    run = workspace / "runs" / "base"
    with pytest.raises(BadInput, match=r"no run of forks \(toolloom fork --run base --all\)"):
        export_pairs(run, tmp_path / "out", formats=("preference",), limit=None)
    assert not (tmp_path / "out").exists()


def test_forks_that_all_pass_beside_an_origin_that_passed_are_no_pairs(workspace, tmp_path):
    base = workspace / "runs" / "base"
    config = change_config(Origin(base).config, ["generate.errors.rate=0"])
    wish = Wish(which="accepted", at="random")
    asyncio.run(fork(base, tmp_path / "forks", workspace, wish, config, How()))
    with pytest.raises(TargetMissed, match="no two continuations"):
        export_pairs(tmp_path / "forks", tmp_path / "out", formats=("preference",), limit=None)


# --- which two are a pair ------------------------------------------------------------------------


def told(name, *messages, passed=True, fault=None, task="t"):
    trajectory = Trajectory(
        episode=name, task=task, agent="a", world="w", kind="lookup", real=False, seed=0,
        messages=(Message(role="system", content="s"), user("u"), *messages),
        steps=(), diff=(), stop="user_done", players={"agent": "x", "user": "y"},
        fault=fault,
    )  # fmt: skip
    result = CriterionResult(id="c", passed=passed, evidence="e")
    verdict = Verdict(episode=name, passed=passed, reason="r", results=(result,), fault=fault)
    return Episode(trajectory=trajectory, verdict=verdict)


def agent(text):
    return Message(role="assistant", content=text)


def user(text):
    return Message(role="user", content=text)


def call(name, arguments="{}", number=1):
    asked = ToolCall(id=f"call_{number}", name=name, arguments=arguments)
    return Message(role="assistant", tool_calls=(asked,))


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ([agent("A")], [agent("B")], 2),
        ([agent("A"), user("b"), agent("C")], [agent("A"), user("b"), call("f")], 4),
        ([call("f", '{"x":1}')], [call("f", '{"x":2}')], 2),
        ([agent("A"), user("b")], [agent("A"), user("c")], None),  # the user parts them
        ([agent("A"), user("b")], [agent("A")], None),  # one is the other, and goes on
        ([call("f", number=1)], [call("f", number=2)], None),  # they say the same
        ([agent("A")], [agent("A ")], None),
        ([agent("A")], [agent("")], None),  # nothing was said
        ([agent("A")], [agent(" \n")], None),
        ([agent("A")], [user("B")], None),
    ],
)
def test_two_part_where_the_agent_says_something_else(one, other, shared):
    assert parting(told("1", *one), told("2", *other, passed=False)) == shared


class Plan:
    """Plan rows of forks of one origin, as far as pairing looks at them."""

    def __init__(self, *names):
        where = Fork(run="base", episode="origin", messages=2, calls=0)
        prefix = type("Prefix", (), {"fork": where})
        self.rows = [type("Row", (), {"episode": name, "prefix": prefix})() for name in names]


def paired(origin, *forks):
    rows = Plan(*(episode.trajectory.episode for episode in forks)).rows
    known = {episode.trajectory.episode: episode for episode in forks}
    found = pairs(rows, known, {"origin": origin})
    return [(p.chosen.trajectory.episode, p.rejected.trajectory.episode) for p in found]


def test_origin_and_forks_are_compared_with_one_another_and_the_pass_is_chosen():
    origin = told("origin", agent("A"), passed=False)
    good, bad = told("1", agent("B")), told("2", agent("C"), passed=False)
    assert paired(origin, good, bad) == [("1", "origin"), ("1", "2")]
    assert paired(told("origin", agent("A")), bad) == [("origin", "2")]
    assert paired(told("origin", agent("A")), good) == []


@pytest.mark.parametrize(
    "broken",
    [
        {"passed": None, "fault": Fault.USER},
        {"passed": None, "fault": Fault.ENVIRONMENT},
        {"passed": None, "fault": Fault.INFRASTRUCTURE},
        {"passed": None, "fault": None},  # left to a model that was not asked
        {"passed": False, "fault": Fault.USER},
    ],
)
def test_what_others_broke_or_nobody_judged_is_in_no_pair(broken):
    odd = told("1", agent("B"), **broken)
    assert paired(told("origin", agent("A")), odd) == []
    assert paired(told("origin", agent("A"), passed=False), odd) == []


def test_another_person_is_another_task():
    origin = told("origin", agent("A"), passed=False)
    assert paired(origin, told("1", agent("B"), task="other")) == []


def test_arguments_that_are_no_object_stay_the_text_that_the_agent_wrote():
    """Unreadable arguments are what some are rejected for: nothing is made up in their place."""
    for text, shown in (('{"x": 1}', {"x": 1}), ("{x}", "{x}"), ("[1]", "[1]"), ("", "")):
        (row,) = conversational(call("f", text))["tool_calls"]
        assert row["function"] == {"name": "f", "arguments": shown}


# --- the trainer that reads them -----------------------------------------------------------------


def test_the_trainer_of_trl_reads_them(run, tmp_path):
    trl = pytest.importorskip("trl", reason="TRL is not installed here")
    datasets = pytest.importorskip("datasets")
    export_pairs(run, tmp_path, formats=("preference", "preference-step"), limit=4)
    for name in ("train.jsonl", "train-step.jsonl"):
        file = str(tmp_path / name)
        data = datasets.load_dataset("json", data_files=file, split="train", cache_dir=tmp_path)
        rows = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert trl.is_conversational(data[0])
        for row, read in zip(rows, data, strict=True):
            for side in ("prompt", "chosen", "rejected"):
                assert plain(read[side]) == plain(row[side])
