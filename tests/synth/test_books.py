"""The books that several processes spend from: no limit is exceeded, and no request forgotten."""

import asyncio
import random

import pytest

from synth.core.config import load_config
from synth.core.errors import BadInput, BudgetSpent, DiskFull, ServerFailed, ToolloomError
from synth.core.protocols import Reply
from synth.core.types import Message, Usage
from synth.pipeline.books import (
    AskingLedger,
    HandedOut,
    ShardJournal,
    SharedBooks,
    Tab,
    failed,
    raised,
)

MODEL = ("models.agent.model=m", "models.agent.price_in=1", "models.agent.price_out=1")


class Colleague:
    """A worker that sends requests until it is killed.

    Args:
        books: those it spends from.
        folder: of its journal.
        dice: decides what requests cost, and when they are answered.
    """

    def __init__(self, books, folder, dice):
        self.books, self.folder, self.dice = books, folder, dice
        self.journal = ShardJournal(folder)
        self.alive, self.telling = True, []
        self.arrived = []
        """Tokens of each request that the endpoint was sent."""
        self.ledger = AskingLedger(self.telling.append, asks=True)
        self.ledger.log, self.ledger.announce = self.log, self.journal.announce
        self.account = self.ledger.open("agent", load_config(None, MODEL).models.agent)
        self.tab = Tab(lambda number, refusal: self.alive and self.ledger.hear(number, refusal))

    def log(self, entry):
        if self.alive:
            self.journal.log(entry)

    def hand_over(self, most):
        """Let the books hear some of what there is to tell."""
        heard = self.telling[:most]
        del self.telling[:most]
        for kind, *rest in heard:
            getattr(self.books, kind)(self.tab, *rest)

    async def pause(self):
        await asyncio.sleep(0)
        if not self.alive:
            await asyncio.Event().wait()  # the dead do nothing any more

    async def work(self, name, requests):
        for number in range(requests):
            most = self.dice.randrange(1, 30)
            ticket = await self.ledger.reserve(self.account, most, most)
            await self.pause()
            try:
                self.ledger.send(ticket, f"{name}/agent/{number}", 0)
                used = self.dice.randrange(most + 1)
                self.arrived.append(2 * used)
                for _ in range(self.dice.randrange(4)):
                    await self.pause()
                ticket.status = 200
                ticket.usage = Usage(prompt_tokens=used, completion_tokens=used)
            finally:
                self.ledger.close(ticket)

    def die(self):
        """Be killed: nothing more is told, and the journal says what there was."""
        self.alive = False
        self.journal.close()
        journal = HandedOut(self.folder)
        journal.close()
        self.books.settle(self.tab, journal.spent())


async def spend(folder, limit, dice):
    """Let three workers spend, some of which die; return them, the books, and how tasks ended."""
    journal = HandedOut(folder)
    books = SharedBooks(load_config(None, [*MODEL, f"budget.tokens={limit}"]), journal)
    team = [Colleague(books, folder / str(number), dice) for number in range(3)]
    tasks = {
        asyncio.create_task(one.work(f"{number}-{turn}", 5)): one
        for number, one in enumerate(team)
        for turn in range(3)
    }
    while any(one.alive and not task.done() for task, one in tasks.items()):
        one = dice.choice([one for one in team if one.alive])
        if dice.random() < 0.01:
            one.die()
        else:
            one.hand_over(dice.randrange(4))
        await asyncio.sleep(0)
    for one in team:
        if one.alive:
            one.hand_over(len(one.telling))
            one.journal.close()
    for task in tasks:
        task.cancel()
    ends = await asyncio.gather(*tasks, return_exceptions=True)
    journal.close()
    return books, team, ends


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("limit", [10, 300, 5_000])
def test_workers_never_exceed_a_limit_together_whoever_dies_when(tmp_path, seed, limit):
    books, team, ends = asyncio.run(spend(tmp_path, limit, random.Random(seed)))
    arrived = [tokens for one in team for tokens in one.arrived]
    assert sum(arrived) <= limit
    total = books.ledger.total()
    assert total["attempts"] == len(arrived)
    told = total["prompt_tokens"] + total["completion_tokens"]
    assert told <= sum(arrived)
    assert told == sum(arrived) or total["unknown"]
    assert not books.ledger._reserved.tokens
    refused = [end for end in ends if end is not None]
    assert all(isinstance(end, BudgetSpent | asyncio.CancelledError) for end in refused)
    if limit == 5_000 and all(one.alive for one in team):
        assert refused == []
        assert total["unknown"] == 0


def test_an_episode_that_moves_takes_the_replies_that_it_has_had_along(tmp_path):
    def reply(word):
        message = Message(role="assistant", content=word)
        return Reply(message, "stop", "m", Usage(prompt_tokens=1, completion_tokens=1))

    driver, first, second = HandedOut(tmp_path), *(ShardJournal(tmp_path / n) for n in "ab")
    first.write("e/agent/0", "asked", reply("one"))
    first.write("f/agent/0", "asked", reply("of another episode"))
    driver.give("e", first.take("e"))
    known = driver.take("e")
    assert driver.take("e") == {}
    second.give("e", known)
    assert second.find("e/agent/0", "asked").message.content == "one"
    second.write("e/agent/1", "then", reply("two"))
    assert second.counted() == (1, {})
    assert second.counted() == (0, {})
    again = second.take("e")  # those that were used, too
    assert list(again) == ["e/agent/0", "e/agent/1"]
    assert second.find("e/agent/1", "then") is None
    first.give("e", again)
    assert first.find("e/agent/1", "otherwise") is None
    assert list(first.counted()[1]) == ["e/agent/1"]
    for journal in (driver, first, second):
        journal.close()


@pytest.mark.parametrize("kind", [BadInput, BudgetSpent, DiskFull, ToolloomError])
def test_errors_cross_processes_as_what_they_are(kind):
    error = raised(failed(kind("what", where="there", remedy="mend it")))
    assert type(error) is kind
    assert str(error) == "there: what (mend it)"


def test_an_error_that_is_more_than_words_crosses_as_its_words():
    error = raised(failed(ServerFailed("it hangs", where="server", outcome="timeout")))
    assert type(error) is ToolloomError
    assert str(error) == "server: it hangs"


def test_who_is_gone_is_given_no_leave_and_what_it_had_stays_reserved(tmp_path):
    async def go():
        journal = HandedOut(tmp_path)
        books = SharedBooks(load_config(None, [*MODEL, "budget.requests=2"]), journal)
        answers = {"gone": [], "other": []}
        gone, other = (
            Tab(lambda number, refusal, who=who: answers[who].append((number, refusal)))
            for who in answers
        )
        books.ask(gone, 0, "agent", 1, 1)
        books.ask(other, 0, "agent", 1, 1)
        books.ask(gone, 1, "agent", 1, 1)
        books.ask(other, 1, "agent", 1, 1)
        await asyncio.sleep(0)
        books.refuse(gone)
        books.spent(other, 0, None)  # it was not sent: there is room for another one
        await asyncio.sleep(0.01)
        assert answers == {"gone": [(0, None)], "other": [(0, None), (1, None)]}
        assert books.ledger._reserved.requests == 2
        books.settle(gone, [])
        assert books.ledger._reserved.requests == 1
        journal.close()

    asyncio.run(go())


def test_a_shorter_pause_shortens_none_and_one_that_is_over_is_told_to_nobody(tmp_path):
    journal = HandedOut(tmp_path)
    books = SharedBooks(load_config(None, MODEL), journal)
    here, there = ("http://a/v1", ""), ("http://b/v1", "")
    for place, seconds, why in ((here, 60.0, "429"), (here, 5.0, "503"), (there, -1.0, "over")):
        books.paused(place, seconds, why)
    ((place, seconds, why),) = books.pauses()
    assert (place, why) == (here, "429")
    assert 50 < seconds <= 60
    assert [waiting.why for waiting in books.waiting()] == ["429"]
    books.paused(here, 300.0, "429 again")
    assert books.pauses()[0][2] == "429 again"
    journal.close()
