"""The reference agent: solves tasks, asks, confirms, recovers, and errs when told to."""

import asyncio
from collections import Counter
from dataclasses import fields

import pytest

from simulators.users.scripted import ScriptedUser
from synth.core import voices
from synth.core.errors import UnknownName
from synth.core.seeds import rng
from synth.core.types import Effect, OutputValue, StopReason, TaskKind
from synth.judge import judge
from synth.mistakes import draw_mistake
from synth.play import Limits, play
from synth.reference import ErrorRates, ReferenceAgent
from synth.telling import say_money, say_value


@pytest.fixture
def solve(library):
    def solve(task, *, agent=None, errors=None, seed=1, environment=None):
        agent = agent or library.agent()
        player = ReferenceAgent(task, agent, rng(seed, "agent"), errors)
        trajectory = asyncio.run(
            play(
                task=task,
                agent=agent,
                environment=environment or library.Shelf(),
                agent_player=player,
                user_player=ScriptedUser(task.request, rng(seed, "user")),
                limits=Limits(),
                episode=f"e{seed}",
                seed=seed,
            )
        )
        verdict = asyncio.run(judge(task, agent, trajectory, library.Shelf(), library.tools))
        solve.mistake = player.mistake
        return trajectory, verdict

    return solve


def task_calls(library):
    return library.task().blueprint.solution


def said(trajectory):
    return [m.content for m in trajectory.messages if m.role == "assistant" and m.content]


@pytest.mark.parametrize("style", voices.styles())
@pytest.mark.parametrize("make", ["task", "lookup", "refusal"])
def test_every_style_solves_every_task(library, solve, style, make):
    for confirms in (False, True):
        for seed in range(8):
            task = getattr(library, make)()
            agent = library.agent(style=style, confirms=confirms)
            trajectory, verdict = solve(task, agent=agent, seed=seed)
            assert verdict.reason == "accepted", (verdict, said(trajectory))
            assert trajectory.stop is StopReason.USER_DONE


def test_independent_calls_share_a_turn_and_dependent_ones_follow(library, solve):
    trajectory, _ = solve(library.task())
    turns = [[c.name for c in m.tool_calls] for m in trajectory.messages if m.tool_calls]
    assert turns == [["find_member", "find_books"], ["lend_book"]]
    ids = [step.call.id for step in trajectory.steps]
    assert len(set(ids)) == len(ids)


def test_a_withheld_fact_is_asked_for_before_it_is_needed(library, solve):
    task = library.task(TaskKind.MISSING_FACT, clauses=('borrow "Dune"',), withheld=(library.days,))
    for seed in range(12):
        trajectory, verdict = solve(task, seed=seed)
        assert verdict.passed, said(trajectory)
        question = next(m for m in said(trajectory) if "number of days" in m)
        place = [m.content for m in trajectory.messages].index(question)
        lending = next(s.message for s in trajectory.steps if s.call.name == "lend_book")
        assert place < lending
        assert "14" in trajectory.messages[place + 1].content


def test_a_confirming_agent_writes_only_after_a_yes(library, solve):
    trajectory, verdict = solve(library.task(), agent=library.agent(confirms=True))
    write = next(s.message for s in trajectory.steps if s.effect is Effect.WRITE)
    assert [m.role for m in trajectory.messages[write - 2 : write]] == ["assistant", "user"]
    assert 'borrow "Dune" for 14 days' in trajectory.messages[write - 2].content
    assert verdict.passed


def test_a_no_is_obeyed(library):
    task, agent = library.task(), library.agent(confirms=True)
    trajectory = asyncio.run(
        play(
            task=task,
            agent=agent,
            environment=library.Shelf(),
            agent_player=ReferenceAgent(task, agent, rng(1)),
            user_player=library.Says("user", task.request, "No, that is wrong.", "So be it, bye."),
            limits=Limits(),
            episode="e",
            seed=1,
        )
    )
    assert trajectory.diff == ()
    assert all(step.effect is Effect.READ for step in trajectory.steps)


def test_what_fails_for_a_moment_is_tried_again_and_only_that(library, solve):
    task = library.task()
    trajectory, _ = solve(task, environment=library.Shelf(flaky=(2, 3)))
    names = [step.call.name for step in trajectory.steps]
    assert names == ["find_member", "find_books", "find_books", "find_books", "lend_book"]
    assert trajectory.diff in task.blueprint.diffs


def test_an_error_that_stays_is_reported_and_not_talked_away(library, solve):
    for seed in range(6):
        trajectory, verdict = solve(
            library.task(), environment=library.Shelf(flaky=range(1, 99)), seed=seed
        )
        assert verdict.passed is False
        assert "no_false_claim" not in [r.id for r in verdict.results if r.passed is False]
        assert "Try again." in said(trajectory)[-1]
        # What the look-ups did not tell, the write does not go by.
        assert {step.call.name for step in trajectory.steps} == {"find_member", "find_books"}


def test_a_no_to_the_second_write_leaves_the_first_one_told_and_nothing_more(library):
    task = library.task(
        kind=TaskKind.CHAINED_WRITES,
        clauses=('borrow "Dune" for 14 days', "pay 0.50 EUR of my fees"),
        solution=(*task_calls(library), library.planned("pay_fee", 2, member_id="M1", amount=50)),
    )
    agent = library.agent(confirms=True)
    user = library.Says("user", task.request, "Yes, please.", "No, that is wrong.", "Bye.")
    trajectory = asyncio.run(
        play(
            task=task,
            agent=agent,
            environment=library.Shelf(),
            agent_player=ReferenceAgent(task, agent, rng(1)),
            user_player=user,
            limits=Limits(),
            episode="e",
            seed=1,
        )
    )
    assert [s.call.name for s in trajectory.steps if s.effect is not Effect.READ] == ["lend_book"]
    report = next(text for text in said(trajectory)[2:] if "Dune" in text)
    assert "fees" not in report


def test_a_refusal_states_the_rule_and_changes_nothing(library, solve):
    trajectory, verdict = solve(library.refusal())
    assert "A loan ends after 28 days." in said(trajectory)[-1]
    assert (trajectory.diff, verdict.passed) == ((), True)


def test_answers_go_with_their_questions(library, solve):
    text = said(solve(library.lookup())[0])[-1]
    assert text.index("3 March 2026" if "March" in text else "2026-03-03") < text.index("2.50 EUR")


@pytest.mark.parametrize("mistake", [field.name for field in fields(ErrorRates)])
def test_every_mistake_is_rejected_and_written_nowhere(library, solve, mistake):
    rates = ErrorRates(**{mistake: 1.0})
    tasks = [library.task(), library.lookup(), library.refusal()]
    made = 0
    for seed in range(5):
        for task in tasks:
            trajectory, verdict = solve(task, errors=rates, seed=seed)
            if solve.mistake is None:
                continue
            made += 1
            assert verdict.passed is False, (mistake, said(trajectory))
            assert f'"{mistake}"' not in trajectory.model_dump_json()
            assert trajectory.players["agent"] == "reference/1"
    assert made >= 5


def test_a_false_claim_of_a_refused_deed_is_seen_by_its_words(library, solve):
    _, verdict = solve(library.refusal(), errors=ErrorRates(false_claim=1.0))
    failed = {r.id for r in verdict.results if r.passed is False}
    assert (verdict.reason, failed) == ("false_claim", {"no_false_claim"})


def test_mistakes_come_at_the_configured_rate(library):
    task = library.task()
    drawn = Counter(draw_mistake(task, ErrorRates.uniform(0.3), rng(i)) for i in range(4000))
    assert 0.66 < drawn[None] / 4000 < 0.74
    assert set(drawn) == {
        None, "wrong_entity", "dropped_call", "superfluous_write", "false_claim",
        "ungrounded_argument", "invalid_argument",
    }  # fmt: skip
    assert {draw_mistake(task, ErrorRates(), rng(i)) for i in range(100)} == {None}


def test_an_unknown_style_names_the_known_ones(library):
    with pytest.raises(UnknownName, match="did you mean 'plain'"):
        ReferenceAgent(library.task(), library.agent(style="plian"), rng(1))


@pytest.mark.parametrize(
    ("kind", "value", "spoken"),
    [
        ("money", 1250, "12.50 EUR"),
        ("money", -5, "-0.05 EUR"),
        ("date", "2026-03-03", "3 March 2026"),
        ("datetime", "2026-03-03T09:05:00", "3 March 2026 at 09:05"),
        ("boolean", True, "yes"),
        ("boolean", 0, "no"),
        ("integer", 7, "7"),
        ("text", "in_transit", "in_transit"),
        ("date", None, "not set"),
    ],
)
def test_values_are_said_as_people_say_them(kind, value, spoken):
    output = OutputValue(label="x", type=kind, value=value, currency="EUR")
    assert say_value(output) == spoken


def test_minor_units_differ_by_currency():
    assert say_money(1250, "JPY") == "1250 JPY"
    assert say_money(1250, "KWD") == "1.250 KWD"
