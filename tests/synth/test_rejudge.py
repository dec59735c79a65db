"""Runs judged again: what changed is told, spoilt copies are caught, a model is calibrated."""

import asyncio
import json
import random

import pytest

from synth.core import jsonl
from synth.core.config import load_config
from synth.core.errors import BadInput
from synth.core.jsonl import write_atomic
from synth.core.llm.scripted import ScriptedLLM
from synth.core.protocols import Sampler
from synth.panel import ModelJudge
from synth.pipeline.generate import Goal
from synth.pipeline.job import generate
from synth.pipeline.rejudge import Wanted, _cases, _drift, rejudge, shows, summary
from synth.rowfile import sealed
from synth.run import read_episodes

EPISODES = 40
SETTINGS = [
    "generate.applications=['hotel','clinic']",
    "generate.agents=4",
    "generate.states=3",
    "generate.errors.rate=0.4",
    "generate.outcomes={transient=0.1, partial=0.1}",
]
FALSE_PASS, FALSE_REJECT = 0.25, 0.1
ALL = Wanted()


@pytest.fixture(scope="module", name="made")
def _made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("judged")
    config = load_config(None, SETTINGS)
    asyncio.run(generate(config, folder / "runs" / "r", folder, Goal(episodes=EPISODES)))
    return folder / "runs" / "r"


@pytest.fixture(name="run")
def _run(made, tmp_path):
    """Return a copy of the run that may be spoilt."""
    folder = tmp_path / "runs" / "r"
    folder.mkdir(parents=True)
    for path in made.iterdir():
        if path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def again(run, wanted=ALL, settings=(), **more):
    config = load_config(None, settings)
    return asyncio.run(rejudge(run, config, wanted, run.parent.parent, **more))


def rows(run):
    return list(jsonl.read(run / "judged" / "rows.jsonl"))


def test_todays_program_says_what_the_run_says(run):
    report = again(run)
    verdicts = [episode.verdict.passed for episode in read_episodes(run)]
    assert report["episodes"] == EPISODES
    assert report["passed"] == verdicts.count(True)
    assert 0 < report["passed"] < EPISODES
    assert report["changed"] == []


def test_another_verdict_is_told_with_its_reason(run):
    episodes = list(read_episodes(run))
    number = next(i for i, e in enumerate(episodes) if e.verdict.passed is False)
    wrong = episodes[number].verdict.model_copy(update={"passed": True})
    episodes[number] = episodes[number].model_copy(update={"verdict": wrong})
    write_atomic(run / "episodes-0.jsonl", b"".join(sealed(e) + b"\n" for e in episodes))
    (changed,) = again(run)["changed"]
    assert changed == {
        "episode": wrong.episode, "was": True, "is": False, "why": wrong.reason,
    }  # fmt: skip
    assert list(read_episodes(run))[number].verdict.passed is True  # the run stays as it is


def test_spoilt_copies_are_caught_and_harmless_ones_set_aside(run):
    mutants = again(run, Wanted(mutants=True))["mutants"]
    assert len(mutants) >= 12
    assert sum(share["of"] for share in mutants.values()) > 240
    assert [share["count"] for share in mutants.values()] == [0] * len(mutants)
    harmless = [row for row in rows(run) if row["harmless"]]
    assert all(row["program"] for row in harmless)


def test_what_is_judged_is_not_judged_again(run):
    told = []
    stop = iter([False] * 9 + [True] * 100)
    first = again(run, ended=lambda: next(stop))
    assert first["episodes"] == 10
    whole = again(run, tell=lambda done, name: told.append(name))
    names = [row["name"] for row in rows(run)]
    assert len(names) == len(set(names)) == whole["episodes"] == EPISODES
    assert again(run, Wanted(limit=7))["episodes"] == 7
    assert len(rows(run)) == EPISODES


def test_what_an_older_program_said_is_not_taken_for_todays(run):
    again(run)
    file = run / "judged" / "rows.jsonl"
    old = [row | {"program": not row["program"], "reason": "older"} for row in rows(run)]
    file.write_text("".join(json.dumps(row) + "\n" for row in old))
    assert again(run)["changed"] == []
    assert len(rows(run)) == 2 * EPISODES  # the last row of a name counts


def test_a_run_without_episodes_is_refused(run):
    (run / "episodes-0.jsonl").write_bytes(b"")
    with pytest.raises(BadInput, match="no finished episode"):
        again(run)


# --- a model beside the program --------------------------------------------------------------


def planted(run, tmp_path, truth):
    """Write the script of an endpoint that errs as often as planned; return it and its answers."""
    rng, script, said = random.Random(7), [], {}
    for case in _cases(run, Wanted(mutants=True)):
        if truth[case.name] is None or not shows(case):
            continue
        wrong = rng.random() < (FALSE_REJECT if truth[case.name] else FALSE_PASS)
        said[case.name] = truth[case.name] != wrong
        answer = {"reason": "-", "quote": "", "answer": "yes" if said[case.name] else "no"}
        llm = ScriptedLLM([json.dumps(answer)])
        asyncio.run(ModelJudge(llm, Sampler()).overall(case.task, case.trajectory))
        last = {"role": "assistant", "content": json.dumps(answer)}
        script.append({"messages": [*llm.requests[0].messages, last]})
    path = tmp_path / "judge.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in script))
    return path, said


def test_a_models_planted_errors_are_found_over_http(serving, run, tmp_path):
    again(run, Wanted(mutants=True))
    truth = {row["name"]: row["program"] for row in rows(run)}
    path, said = planted(run, tmp_path, truth)
    (run / "judged" / "rows.jsonl").unlink()

    def twice(mock):
        settings = ["models.judge.model=mock", f"models.judge.base_url={mock.url}"]
        report = again(run, Wanted(mutants=True), settings)
        asked = mock.ledger.requests
        again(run, Wanted(mutants=True), settings)
        assert mock.ledger.requests == asked >= len(said)
        return report

    with serving(script=path) as mock:
        report = twice(mock)
    overall = report["judges"]["overall"]
    told = {row["name"]: row for row in rows(run)}
    counted = {name: met for name, met in said.items() if not told[name]["harmless"]}
    passes = sum(counted[name] and not truth[name] for name in counted)
    assert overall["false_pass"]["count"] == passes
    low, high = overall["false_pass"]["interval"]
    assert low < overall["false_pass"]["share"] < high < 2 * FALSE_PASS
    assert overall["unanswered"]["count"] == 0
    assert report["model"] == "mock"


def test_a_model_that_always_takes_the_first_is_found_in_both_orders(serving, run, tmp_path):
    wanted, script = Wanted(limit=4, mutants=True, pairs=True), []
    for case in _cases(run, wanted):
        for answer in ("first", "yes"):
            told = json.dumps({"reason": "-", "quote": "", "answer": answer})
            llm = ScriptedLLM(lambda request, told=told: told)
            judge, original = ModelJudge(llm, Sampler()), case.episode.trajectory
            if answer == "yes":
                asyncio.run(judge.overall(case.task, case.trajectory))
            else:
                asyncio.run(judge.prefer(case.task, original, case.trajectory))
            last = {"role": "assistant", "content": told}
            script += [{"messages": [*r.messages, last]} for r in llm.requests]
    path = tmp_path / "judge.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in script))

    def ask(mock):
        return again(run, wanted, ["models.judge.model=mock", f"models.judge.base_url={mock.url}"])

    with serving(script=path) as mock:
        pairs = ask(mock)["pairs"]
    assert pairs["unsteady"]["of"] > 12
    assert (pairs["unsteady"]["share"], pairs["first"]["share"]) == (1.0, 1.0)
    assert (pairs["original"]["of"], pairs["unanswered"]["count"]) == (0, 0)


def row_of(name, met=None, pair=None, fault="untold_value"):
    model = {} if met is None else {"overall": {"met": met}}
    return {
        "name": name,
        "fault": fault,
        "stored": None,
        "program": False,
        "harmless": False,
        "reason": "state",
        "results": {},
        "length": 9,
        "model": model,
        "pair": pair,
    }


def test_a_choice_by_place_is_told_from_a_choice_by_merit():
    steady = [row_of(f"a{n}", pair=["first", "second"]) for n in range(6)]
    wrong = [row_of("b", pair=["second", "first"])]
    placed = [row_of(f"c{n}", pair=["first", "first"]) for n in range(3)]
    found = summary([*steady, *wrong, *placed, row_of("d", pair=["first", None]), row_of("e")])
    pairs = found["pairs"]
    assert (pairs["unsteady"]["count"], pairs["unsteady"]["of"]) == (3, 10)
    assert (pairs["original"]["count"], pairs["original"]["of"]) == (6, 7)
    assert (pairs["first"]["count"], pairs["first"]["of"]) == (13, 20)
    assert (pairs["unanswered"]["count"], pairs["unanswered"]["of"]) == (1, 11)


def test_a_later_judge_is_compared_with_an_earlier_one(tmp_path):
    earlier = [row_of("a", True), row_of("b", True), row_of("c", False), row_of("d", True)]
    lines = [json.dumps(row | {"how": "x", "judge": "old"}) for row in earlier]
    (tmp_path / "rows.jsonl").write_text("".join(f"{line}\n" for line in lines))
    now = [row_of("a", True), row_of("b", False), row_of("c", True), row_of("e", True)]
    found = _drift(tmp_path, "new", now)
    assert found.keys() == {"old"}
    assert (found["old"]["agreement"]["count"], found["old"]["agreement"]["of"]) == (1, 3)
    assert (found["old"]["only_first"], found["old"]["only_second"]) == (1, 1)
    assert _drift(tmp_path, "old", now) == {}


def test_rows_without_a_model_have_no_calibration(run):
    report = again(run)
    assert report["judges"] == {}
    assert report["model"] is None
    assert summary([])["episodes"] == 0
