"""What is told of a run against models: while it goes on, and in its report."""

import re
import time

import pytest

from synth.app import _show
from synth.app.generate import _Tale
from synth.core.llm.ledger import Account, Ledger
from synth.core.llm.open import Waiting
from synth.pipeline.progress import Goal, Progress
from synth.report import funnel_lines, report_page

SPENT = {
    "calls": 40, "attempts": 44, "prompt_tokens": 12_000, "completion_tokens": 345,
    "cached_tokens": 0, "unknown": 0, "money": 1.5, "complete": True,
}  # fmt: skip


def told(progress, goal=None, *, after=10.0, before=0):
    """Return the note of a session that has played for `after` seconds."""
    tale = _Tale(goal or Goal(accept=100))
    first = Progress(accepted=before, played=before, fresh=1)
    tale.told(first)
    tale._started -= after
    tale._next = 0.0
    return tale.told(progress)[1]


def test_rate_and_time_left_are_those_of_this_session():
    """What earlier sessions did was counted at once, and says nothing of the pace."""
    progress = Progress(accepted=70, played=80, fresh=21)
    note = told(progress, before=50)
    assert note.startswith("70 accepted of 80 played, 2.0/s, 15 s left")
    slow = told(Progress(accepted=51, played=52, fresh=2), before=50, after=60)
    assert ", 1.0/min, 49 min left" in slow


def test_what_is_unknown_is_shown_as_unknown_or_at_least():
    whole = told(Progress(spent=SPENT))
    assert "44 requests, 12,345 tokens, 1.50 spent" in whole
    parts = told(Progress(spent=SPENT | {"complete": False}))
    assert "44 requests, >= 12,345 tokens, >= 1.50 spent" in parts
    free = told(Progress(spent=SPENT | {"money": None}))
    assert "tokens" in free
    assert "spent" not in free
    assert "requests" not in told(Progress())


def test_an_endpoint_that_is_waited_for_is_named_with_the_time():
    until = time.time() + 300
    clock = time.strftime("%H:%M:%S", time.localtime(until))
    waiting = Waiting("api", until, "api answered 429: too many requests", 7)
    note = told(Progress(waiting=[waiting]))
    assert note.endswith(f"waiting until {clock}: api answered 429: too many requests")


def test_the_note_is_worded_a_few_times_a_second_however_often_it_is_asked_for():
    tale = _Tale(Goal(episodes=9))
    first = tale.told(Progress(played=1))
    assert tale.told(Progress(played=2)) == first
    tale._next = 0.0
    assert tale.told(Progress(played=2)) != first


def test_the_counts_of_one_line_are_of_one_moment_and_the_last_line_is_the_goal():
    tale, progress = _Tale(Goal(accept=40)), Progress()
    for number in range(1, 51):
        progress.played, progress.accepted = number, number * 4 // 5
        done, note = tale.told(progress)
        assert note.startswith(f"{done} accepted of ")
    assert (done, note) == (40, "40 accepted of 50 played")


def test_an_interrupted_run_says_once_what_it_waits_for(capsys):
    tale = _Tale(Goal(episodes=9))
    for _ in range(3):
        tale.told(Progress(ending=True, spent=SPENT))
    said = capsys.readouterr().err
    assert said == "ending once the replies under way are here; Ctrl-C again ends at once\n"


def test_an_interrupted_run_of_programs_waits_for_no_reply_and_says_of_none(capsys):
    _Tale(Goal(episodes=9)).told(Progress(ending=True))
    assert capsys.readouterr().err == ""


def test_who_speaks_english_instead_of_what_was_asked_for_is_said_once(capsys):
    tale = _Tale(Goal(episodes=9))
    for _ in range(3):
        tale.told(Progress(english={"de": ("clinic", "hotel")}))
    said = capsys.readouterr().err
    assert said == "de: users speak English in clinic, hotel, for want of words\n"


def test_plain_lines_come_at_most_every_five_seconds(capsys, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(_show.time, "monotonic", lambda: now[0])
    with _show.bar("generate") as shown:
        for tenth in range(200):
            now[0] = tenth / 10
            shown.update(tenth, 200, "on")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert all(re.fullmatch(r"generate: \d+/200 on \(\d+ s\)", line) for line in lines)


# --- the report ------------------------------------------------------------------------------

REPORT = {
    "run": "r", "accepted": 60, "episodes": 100, "candidates": 110, "given_up": {"duplicate": 10},
    "tasks": 100, "agents": 3, "rejected_by_reason": {"state": 30},
    "faults_by_owner": {"infrastructure": 7, "user": 3}, "decoys": {},
    "failed_by": {
        "agent": 30, "user": 3, "tool": 0, "environment": 0, "judge": 0, "infrastructure": 7,
    },
    "infrastructure": {"api: the endpoint answered #": 7},
    "by_try": {
        "first": {"episodes": 81, "accepted": 57}, "retried": {"episodes": 12, "accepted": 3},
    },
    "agents_by_application": {}, "by_application": {}, "by_kind": {},
    "played_by": {"agent: model:m": 93}, "gave_up": None, "cost": None,
}  # fmt: skip


def spent(*accounts):
    ledger = Ledger()
    ledger._accounts = {(a.role, a.model): a for a in accounts}
    return {"by_role": ledger.rows(), "total": ledger.total()}


def shown(**changes):
    return [" ".join(line.split()) for line in funnel_lines(REPORT | changes)]


@pytest.mark.claim("d06")
def test_all_owners_of_failures_are_named():
    lines = shown()
    assert "failed by: agent 30, user 3, tool 0, environment 0, judge 0, infrastructure 7" in lines
    assert "7 without a result: api: the endpoint answered #" in lines


@pytest.mark.claim("l06")
def test_retried_episodes_are_told_from_others():
    """Retrying shifts what a dataset is made of: harder tasks break more often."""
    assert "accepted: at first try 57 of 81, retried 3 of 12" in shown()
    nobody = {"first": {"episodes": 9, "accepted": 9}, "retried": {"episodes": 0, "accepted": 0}}
    assert not any("retried" in line for line in shown(by_try=nobody))


@pytest.mark.claim("l01")
def test_costs_are_told_by_role_and_model_and_unknown_is_not_zero():
    agent = Account("agent", "big", 2.0, 6.0, calls=90, attempts=100)
    agent.prompt_tokens, agent.completion_tokens, agent.unknown = 1_000_000, 10_000, 4
    user = Account("user", "small", 0.5, 0.5, calls=50, attempts=50)
    user.prompt_tokens, user.completion_tokens = 200_000, 2_000
    lines = shown(cost=spent(agent, user))
    assert "agent big 90 100 >= 1,000,000 >= 10,000 >= 2.0600" in lines
    assert "user small 50 50 200,000 2,000 0.1010" in lines
    assert "in all 140 150 >= 1,200,000 >= 12,000 >= 2.1610" in lines
    assert "of 4 requests nobody told the tokens" in lines
    assert "an accepted episode: >= 0.036017" in lines
    free = Account("user", "small", calls=1, attempts=1)
    lines = shown(cost=spent(agent, free))
    assert any(line.startswith("in all") and line.endswith("unknown") for line in lines)
    assert not any("an accepted episode" in line for line in lines)


def test_the_page_holds_the_funnel_and_who_played_and_no_fence_of_strangers():
    page = report_page(REPORT | {"infrastructure": {"``` # hello": 7}})
    assert page.startswith("# Run r\n\n```\nrun r: 60 accepted of 100 episodes\n")
    assert page.count("```") == 2
    assert "- agent: model:m: 93 episodes\n" in page
