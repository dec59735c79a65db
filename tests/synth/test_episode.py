"""An episode from its first word to its verdict; whatever breaks, the run goes on."""

import asyncio

import pytest

from synth.core.errors import ModelFailed, ServerFailed
from synth.core.types import Fault, StopReason, Verdict
from synth.episode import play_and_judge
from synth.play import Limits

FIND = ("find_member", {"email": "ann@example.org"})
BOOKS = ("find_books", {"title": "Dune"})
LEND = ("lend_book", {"book_id": "B11", "member_id": "M1", "days": 14})
DONE = ([FIND, BOOKS], [LEND], "I have lent you Dune for 14 days.")


def run(library, shelf, lines=DONE):
    task = library.task()
    return asyncio.run(
        play_and_judge(
            library.tools,
            task=task,
            agent=library.agent(),
            environment=shelf,
            agent_player=library.Says("assistant", *lines),
            user_player=library.Says("user", task.request, "Thanks, bye."),
            limits=Limits(),
            episode="e1",
            seed=7,
        )
    )


@pytest.mark.parametrize("real", [False, True])
def test_simulated_and_live_episodes_are_both_judged_on_a_replay(library, real):
    shelf = library.Shelf()
    shelf.real = real
    trajectory, verdict = run(library, shelf)
    assert (trajectory.real, verdict.reason) == (real, "accepted")
    assert "replay" in [result.id for result in verdict.results]


def test_a_judge_that_breaks_gives_no_verdict_and_one_line(library):
    class Once(library.Shelf):
        async def reset(self, seed):
            if self.made:
                raise KeyError("the replay\nbroke")
            await super().reset(seed)

    trajectory, verdict = run(library, Once())
    assert (trajectory.fault, trajectory.stop) == (None, StopReason.USER_DONE)
    assert (verdict.passed, verdict.fault, verdict.reason) == (None, Fault.JUDGE, "fault:judge")
    assert verdict.results[0].evidence.startswith("KeyError: ")
    assert "\n" not in verdict.results[0].evidence


def test_a_broken_episode_keeps_the_change_it_made(library):
    trajectory, _ = run(library, library.Shelf(), [[LEND], [FIND], ModelFailed("HTTP 500")])
    assert trajectory.diff == library.task().blueprint.diffs[0]
    assert trajectory.error == "HTTP 500"


def test_a_broken_environment_is_asked_once_and_the_record_says_what_is_unknown(library):
    class Dies(library.Shelf):
        asked = 0

        async def diff(self):
            if self.made < 2:
                return await super().diff()
            self.asked += 1
            raise ServerFailed("has no running episode", outcome="invalid")

    shelf = Dies(broken={2: ServerFailed("exited", outcome="exited")})
    trajectory, verdict = run(library, shelf, [[LEND], [FIND]])
    assert shelf.asked == 1
    assert trajectory.diff == ()
    assert trajectory.error == "exited; the final state is unknown"
    assert verdict.fault is Fault.ENVIRONMENT


@pytest.mark.parametrize(
    ("passed", "fault", "owner"),
    [
        (True, None, None),
        (False, None, None),
        (False, Fault.AGENT, None),
        (None, None, Fault.JUDGE),
        (None, Fault.TOOL, Fault.TOOL),
        (False, Fault.USER, Fault.USER),
    ],
)
def test_a_verdict_says_who_left_an_episode_without_one(passed, fault, owner):
    verdict = Verdict(episode="e", passed=passed, reason="r", fault=fault)
    assert verdict.broken_by == owner
