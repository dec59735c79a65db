"""The queue in front of an endpoint, on a clock that jumps: cool-downs, jitter, limits."""

import asyncio
import selectors
import statistics
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from synth.core.errors import BudgetSpent
from synth.core.llm.patience import LONGEST_RETRY_AFTER_S, THAW_S, Patience, retry_after


class _Jumping(selectors.DefaultSelector):
    """Instead of waiting, lets the clock of its loop jump."""

    now = 0.0

    def select(self, timeout=None):
        self.now += timeout or 0.0
        return super().select(0)


def virtual(work):
    """Run a coroutine on a clock of its own; nothing waits in reality."""
    selector = _Jumping()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def now():
    return asyncio.get_running_loop().time()


async def once(patience, serve, log):
    """Ask until the server, a function of the time, says yes; note the times."""
    while True:
        sent = await patience.enter()
        log.append(now())
        await asyncio.sleep(0.1)
        wanted = serve(now())
        patience.leave()
        if wanted is None:
            patience.ok(sent)
            return
        patience.busy(sent, "429", wanted)


@pytest.mark.claim("a20")
def test_nobody_asks_before_the_moment_an_endpoint_named_and_then_not_all_at_once():
    async def go():
        patience, log = Patience(200), []
        serve = lambda at: 2.0 if at < 0.2 else None  # noqa: E731
        await asyncio.gather(*(once(patience, serve, log) for _ in range(100)))
        again = sorted(log)[100:]
        assert len(again) == 100
        assert again[0] >= 2.1
        assert statistics.pstdev(again) > 0.3
        assert again[-1] < 2.1 + 2 * THAW_S + 1

    virtual(go())


@pytest.mark.claim("a19")
def test_five_seconds_of_refusals_cost_each_request_few_tries():
    async def go():
        patience, tries = Patience(64), []

        async def one():
            log = []
            await once(patience, lambda at: 0.0 if at < 5 else None, log)
            tries.append(len(log))

        await asyncio.gather(*(one() for _ in range(200)))
        assert max(tries) <= 3
        assert sum(tries) <= 600
        return patience

    patience = virtual(go())
    assert patience.in_flight == patience.queued == 0


def test_a_busy_endpoint_halves_what_is_in_flight_and_answers_let_it_grow_again():
    async def go():
        patience = Patience(64)
        sent = [await patience.enter() for _ in range(64)]
        for number in sent:  # one wave of refusals is one piece of news
            patience.busy(number, "429")
            patience.leave()
        assert patience.limit == 32
        await asyncio.sleep(100)
        for _ in range(400):
            number = await patience.enter()
            patience.leave()
            patience.ok(number)
        assert patience.limit == 64

    virtual(go())


def test_never_more_than_the_bound_is_in_flight_and_everybody_gets_there():
    async def go():
        patience, most, done = Patience(3), 0, []

        async def one(number):
            nonlocal most
            sent = await patience.enter()
            most = max(most, patience.in_flight)
            await asyncio.sleep(1)
            patience.leave()
            patience.ok(sent)
            done.append(number)

        await asyncio.gather(*(one(number) for number in range(10)))
        assert (most, done) == (3, list(range(10)))
        assert now() == pytest.approx(4)

    virtual(go())


def test_who_gives_up_waiting_takes_no_place():
    async def go():
        patience = Patience(1)
        await patience.enter()
        waiting = asyncio.ensure_future(patience.enter())
        late = asyncio.ensure_future(patience.enter())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        assert patience.queued == 1
        patience.leave()
        await late
        assert patience.in_flight == 1
        # Given a place and cancelled in the same moment: the place goes on.
        third, fourth = (asyncio.ensure_future(patience.enter()) for _ in range(2))
        await asyncio.sleep(0)
        patience.leave()
        third.cancel()
        await asyncio.wait_for(fourth, 1)
        assert patience.in_flight == 1

    virtual(go())


def test_nobody_waits_for_an_endpoint_once_the_run_is_over():
    async def go():
        patience = Patience(2)
        sent = await patience.enter()
        patience.busy(sent, "429", 300)
        patience.leave()
        waiting = [asyncio.ensure_future(patience.enter()) for _ in range(3)]
        resting = asyncio.ensure_future(patience.rest(200))
        given_up = asyncio.ensure_future(patience.enter())
        await asyncio.sleep(1)
        given_up.cancel()
        assert not any(task.done() for task in waiting)
        patience.end()
        ends = await asyncio.gather(*waiting, resting, return_exceptions=True)
        assert now() == 1
        assert [str(end) for end in ends] == ["the run is over"] * 4
        assert {type(end) for end in ends} == {BudgetSpent}
        for late in (patience.enter(), patience.rest(0), patience.rest(9)):
            with pytest.raises(BudgetSpent):
                await late
        assert (now(), patience.in_flight, patience.queued) == (1, 0, 0)
        patience.close()

    virtual(go())


def test_what_is_in_flight_when_the_run_ends_arrives():
    async def go():
        patience = Patience(1)
        sent = await patience.enter()
        waiting = asyncio.ensure_future(patience.enter())
        await asyncio.sleep(0)
        patience.end()
        patience.ok(sent)
        patience.leave()
        with pytest.raises(BudgetSpent):
            await waiting
        assert patience.in_flight == 0

    virtual(go())


def test_a_rest_takes_its_time():
    async def go():
        patience = Patience(1)
        await patience.rest(0)
        assert now() == 0
        await patience.rest(7.5)
        assert now() == 7.5

    virtual(go())


def test_what_is_waited_for_can_be_read():
    async def go():
        patience = Patience(4)
        assert patience.waiting_until is None
        sent = await patience.enter()
        patience.busy(sent, "api.example answered 429: slow down", 60)
        assert patience.why == "api.example answered 429: slow down"
        assert patience.waiting_until == pytest.approx(time.time() + 60, abs=1)
        await asyncio.sleep(61)
        assert patience.waiting_until is None
        patience.close()

    virtual(go())


def test_refusals_without_a_time_wait_longer_each_time_up_to_a_bound():
    async def go():
        patience, waits = Patience(4), []
        for _ in range(12):
            sent = await patience.enter()
            patience.busy(sent, "503")
            patience.leave()
            waits.append(patience.pause_left())
            await asyncio.sleep(waits[-1] + THAW_S)
        for number, wait in enumerate(waits):
            longest = min(20.0, 0.5 * 2**number)
            assert longest / 2 <= wait <= longest

    virtual(go())


def test_an_absurd_time_is_not_believed():
    async def go():
        patience = Patience(4)
        patience.busy(await patience.enter(), "429", 1e9)
        assert patience.pause_left() == LONGEST_RETRY_AFTER_S
        patience.close()

    virtual(go())


def test_another_role_widens_the_endpoint():
    patience = Patience(4)
    patience.widen(10)
    patience.widen(2)
    assert (patience.most, patience.limit) == (10, 10)


DATE = format_datetime(datetime(2030, 1, 1, 12, 0, tzinfo=UTC), usegmt=True)


@pytest.mark.claim("a20")
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, 0),
        ({"retry-after": "7"}, 7),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "nan"}, 0),
        ({"retry-after": "inf"}, 0),
        ({"retry-after": "soon"}, 0),
        ({"retry-after": DATE, "date": "Tue, 01 Jan 2030 11:58:30 GMT"}, 90),
        ({"retry-after": DATE, "date": "Tue, 01 Jan 2030 12:58:30 GMT"}, 0),
    ],
)
def test_the_time_to_wait_is_read_as_seconds_and_as_a_date(headers, seconds):
    assert retry_after(headers) == seconds


def test_a_date_without_the_endpoints_clock_is_taken_by_ours():
    then = datetime.now(UTC) + timedelta(seconds=30)
    assert retry_after({"retry-after": format_datetime(then, usegmt=True)}) == pytest.approx(
        30, abs=2
    )


class Queue(RuleBasedStateMachine):
    """Everything that can happen at an endpoint, in any order; the clock jumps."""

    def __init__(self):
        super().__init__()
        self.selector = _Jumping()
        self.loop = asyncio.SelectorEventLoop(self.selector)
        self.loop.time = lambda: self.selector.now
        self.patience = Patience(4)
        self.inside, self.outside, self.allowed = [], [], 0.0

    def run(self, seconds=0.0):
        self.loop.run_until_complete(asyncio.sleep(seconds))
        for task in [task for task in self.outside if task.done()]:
            self.outside.remove(task)
            if not task.cancelled():
                self.inside.append(task.result())

    async def entering(self):
        sent = await self.patience.enter()
        assert asyncio.get_running_loop().time() >= self.allowed
        return sent

    @rule()
    def ask(self):
        self.outside.append(self.loop.create_task(self.entering()))
        self.run()

    @rule(wanted=st.sampled_from([None, 0.0, 0.3, 5.0]))
    def answer(self, wanted):
        if self.inside:
            sent = self.inside.pop(0)

            async def told():
                if wanted is None:
                    self.patience.ok(sent)
                else:
                    self.patience.busy(sent, "429", wanted)
                    self.allowed = max(self.allowed, self.selector.now + wanted)
                self.patience.leave()

            self.loop.run_until_complete(told())
            self.run()

    @rule(which=st.integers(0, 9))
    def give_up(self, which):
        if self.outside:
            self.outside[which % len(self.outside)].cancel()
            self.run()

    @rule(seconds=st.sampled_from([0.1, 1.0, 7.0]))
    def wait(self, seconds):
        self.run(seconds)

    @invariant()
    def places_are_counted(self):
        assert self.patience.in_flight == len(self.inside) <= 4
        assert 1 <= self.patience.limit <= 4
        assert self.patience.queued == len(self.outside)

    def teardown(self):
        for _ in range(100):  # everybody gets there
            while self.inside:
                self.answer(None)
            if not self.outside:
                break
            self.run(30)
        assert not self.outside
        self.loop.close()


def test_whatever_happens_no_place_is_lost_and_nobody_goes_too_early():
    run_state_machine_as_test(
        Queue, settings=settings(max_examples=25, stateful_step_count=25, deadline=None)
    )
