"""An environment made of records: what was asked is answered, what was not is refused by name."""

import asyncio
from pathlib import Path

import pytest

from simulators.check import check_environment
from simulators.recorded import UNRECORDED, Recorded, Recorder, Tape, tape
from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from synth.core.canonical import content_key
from synth.core.errors import BadInput, BadRow, ToolloomError
from synth.core.types import (
    CallError,
    Effect,
    Message,
    Step,
    StopReason,
    TaskKind,
    ToolCall,
    ToolResult,
    Trajectory,
)

ENGINE = Engine(load_application(Path(__file__).parent / "data" / "library.yaml"))
SPECS = tuple(ENGINE.application.specs.values())
SEED = 7
LIST = ("list_loans", {"member_id": "M001"})
LEND = ("lend_book", {"book_id": "B1", "member_id": "M001"})
HOLD = ("place_hold", {"book_id": "B1", "member_id": "M001"})
CALLS = [LIST, LEND, LIST, HOLD, LIST]


def taped(calls=CALLS):
    recorder = Recorder(ENGINE.environment())

    async def play():
        await recorder.reset(SEED)
        results = [await recorder.call(*one) for one in calls]
        diff = await recorder.diff()
        await recorder.close()
        return results, diff

    results, diff = asyncio.run(play())
    return recorder.tape(), results, diff


TAPE, RESULTS, DIFF = taped()


def recorded(*tapes):
    environment = Recorded(tapes or (TAPE,), SPECS)
    asyncio.run(environment.reset(SEED))
    return environment


def call(environment, name, arguments):
    return asyncio.run(environment.call(name, arguments))


def test_a_record_keeps_the_contract_of_environments():
    assert asyncio.run(check_environment(lambda: Recorded((TAPE,), SPECS), CALLS)) == []


def test_calls_in_order_get_the_recorded_results_and_the_recorded_end():
    environment = recorded()
    assert [call(environment, *one) for one in CALLS] == RESULTS
    assert asyncio.run(environment.diff()) == DIFF


def test_the_same_call_on_the_same_state_gets_what_it_got_whatever_came_between():
    environment = recorded()
    assert call(environment, *LIST) == call(environment, *LIST) == RESULTS[0]
    assert call(environment, *LEND) == RESULTS[1]
    twin = asyncio.run(environment.fork())
    for one in (environment, twin):
        assert call(one, *LIST) == call(one, *LIST) == RESULTS[2]
        assert call(one, *HOLD) == RESULTS[3]
        assert asyncio.run(one.diff()) == DIFF


def test_what_was_never_asked_is_refused_by_name_and_changes_nothing():
    environment = recorded()
    before = asyncio.run(environment.snapshot())
    assert call(environment, *HOLD).error == UNRECORDED  # it was made after the loan only
    assert call(environment, "list_loans", {"member_id": "M002"}).error == UNRECORDED
    deep = []
    for _ in range(3_000):
        deep = [deep]
    assert call(environment, "list_loans", {"member_id": deep}).error.code == "invalid_arguments"
    asyncio.run(environment.reset(SEED + 1))
    assert call(environment, *LIST).error == UNRECORDED
    asyncio.run(environment.reset(SEED))
    assert asyncio.run(environment.snapshot()) == before


def test_a_call_that_failed_for_a_moment_fails_and_works_in_its_turn():
    broken = ToolResult(
        ok=False, content="{}", error=CallError(code="timeout", message="?"), outcome="transient"
    )
    first = TAPE.calls[0]
    state = content_key(())
    calls = (type(first)(first.name, first.arguments, broken, state), *TAPE.calls)
    environment = recorded(Tape(SEED, calls, TAPE.diffs))
    assert [call(environment, *LIST) for _ in range(3)] == [broken, RESULTS[0], RESULTS[0]]


def test_records_of_one_state_are_known_together():
    other, results, _ = taped([HOLD, LEND])
    environment = recorded(TAPE, other)
    assert [call(environment, *HOLD), call(environment, *LEND)] == results


# --- from a trajectory ---------------------------------------------------------------------------


def trajectory(**changes):
    steps = tuple(
        Step(
            message=2,
            call=ToolCall(id=str(n), name=one.name, arguments=one.arguments),
            result=one.result,
            effect=Effect.READ if one.name == "list_loans" else Effect.WRITE,
            state=None if one.name == "list_loans" else one.state,
        )
        for n, one in enumerate(TAPE.calls)
    )
    facts = {
        "episode": "e",
        "task": "t",
        "agent": "a",
        "world": "library",
        "kind": TaskKind.SINGLE_WRITE,
        "real": True,
        "seed": 1,
        "messages": (Message(role="system", content="s"),),
        "steps": steps,
        "diff": DIFF,
        "stop": StopReason.USER_DONE,
        "players": {},
    }
    return Trajectory(**facts | changes)


def test_an_episode_is_its_own_record():
    environment = recorded(tape(trajectory(), SEED))
    assert [call(environment, *one) for one in CALLS[:2]] == RESULTS[:2]
    (line,) = asyncio.run(environment.diff())
    assert TAPE.calls[1].state in line  # only the key of what had changed by then is known
    assert [call(environment, *one) for one in CALLS[2:]] == RESULTS[2:]
    assert asyncio.run(environment.diff()) == DIFF


def test_a_record_whose_end_does_not_follow_from_its_calls_is_refused():
    with pytest.raises(BadRow, match="the final state is not that after the last write"):
        tape(trajectory(diff=()), SEED)


def test_calls_that_never_came_to_the_environment_are_not_in_the_record():
    refused = ToolResult(
        ok=False, content="{}", error=CallError(code="unknown_tool", message="No tool.")
    )
    step = Step(
        message=2,
        call=ToolCall(id="x", name="fly", arguments="{}"),
        result=refused,
        effect=Effect.UNKNOWN,
    )
    whole = trajectory()
    made = tape(whole.model_copy(update={"steps": (step, *whole.steps)}), SEED)
    assert [one.name for one in made.calls] == [name for name, _ in CALLS]


def test_a_foreign_snapshot_and_a_closed_record_are_refused():
    environment = recorded()
    with pytest.raises(BadInput, match="no snapshot of a recorded environment"):
        asyncio.run(environment.restore(b'["other",1,2,3,{}]'))
    asyncio.run(environment.close())
    with pytest.raises(ToolloomError, match="closed"):
        call(environment, *LIST)
