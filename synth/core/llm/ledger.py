"""What was spent, exactly, and the limits that no request may begin to exceed.

Every request that leaves is entered once: with its tokens where the endpoint tells them, as unknown
where it does not. Unknown is not 0: sums that lack something are shown as `>= x`. A limit counts
what is under way, so that calls in flight cannot exceed it together; where tokens stay unknown, it
counts the most they can have been. A request is announced before it leaves: what was under way when
the process was killed stays in the books as unknown.

A limit of tokens counts what endpoints tell. It holds unless a model ignores `max_tokens`, or its
template says more of its own than `TEMPLATE_TOKENS`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from synth.core.config import Budget, ModelConfig
from synth.core.errors import BadConfig, BudgetSpent
from synth.core.types import Usage

MILLION = 1e6
TEMPLATE_TOKENS = 1024
"""Of a prompt, besides what was sent: a template's own words on tools, which nobody can see here.
The longest that was met has some 700."""
REFUSED = 400
"""HTTP statuses from here on cost no tokens."""
UNSENT = "unsent"
"""Status of what was announced and found nobody to be sent to."""
_ROUNDING = 1e-9
_NOTHING_KNOWN = Usage()
Log = Callable[[dict[str, Any]], None]
"""Takes one entry, which must be durable when it returns."""


@dataclass(slots=True)
class Account:
    """What one role spent on one model."""

    role: str
    model: str
    price_in: float | None = None
    """Money for a million tokens."""
    price_out: float | None = None
    price_cached: float | None = None
    calls: int = 0
    """Replies asked for."""
    attempts: int = 0
    """Requests sent."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt tokens, those that the endpoint had cached."""
    unknown: int = 0
    """Requests that may have cost tokens which nobody told; none of them is in the sums."""

    def cost(self, prompt: int, completion: int, cached: int = 0) -> float | None:
        """Return the price of tokens; None where it is unknown."""
        if self.price_in is None or self.price_out is None:
            return None
        cheap = self.price_in if self.price_cached is None else self.price_cached
        full = (prompt - cached) * self.price_in + cached * cheap
        return (full + completion * self.price_out) / MILLION

    @property
    def money(self) -> float | None:
        """Return what the known tokens cost; None where a price is unknown."""
        return self.cost(self.prompt_tokens, self.completion_tokens, self.cached_tokens)

    def row(self) -> dict[str, Any]:
        """Return it for a report: `complete` says whether nothing is missing from the sums."""
        names = ("role", "model", "calls", "attempts", "prompt_tokens", "completion_tokens")
        shown = {name: getattr(self, name) for name in (*names, "cached_tokens", "unknown")}
        return {**shown, "money": self.money, "complete": not self.unknown}


@dataclass(slots=True)
class _Sums:
    """Requests, tokens and money: spent, or reserved."""

    requests: int = 0
    tokens: int = 0
    money: float = 0.0

    def add(self, requests: int, tokens: int, money: float) -> None:
        self.requests += requests
        self.tokens += tokens
        self.money += money


@dataclass(slots=True)
class Ticket:
    """The right to send one request; close it whatever happens."""

    account: Account
    most: tuple[int, int]
    """Tokens of prompt and reply, at most."""
    call: str | None = None
    attempt: int = 0
    sent: bool = False
    announced: bool = False
    status: int | str = "lost"
    """HTTP status of the answer, or what became of it."""
    usage: Usage = _NOTHING_KNOWN
    """What the endpoint told."""

    def entry(self) -> dict[str, Any]:
        """Return it for the log. What may have cost tokens that nobody told says the most."""
        usage = self.usage
        entry: dict[str, Any] = {
            "role": self.account.role,
            "model": self.account.model,
            "call": self.call,
            "attempt": self.attempt,
            "status": self.status,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens,
        }
        refused = isinstance(self.status, int) and self.status >= REFUSED
        if not refused and (usage.prompt_tokens is None or usage.completion_tokens is None):
            entry["most"] = self.most
        return entry


class Ledger:
    """The books of one run, and its limits.

    Args:
        budget: the limits.
        log: told every request that was sent, or announced in vain (its status is `UNSENT`).
        announce: told every request before it is sent, as if nothing came of it.
    """

    def __init__(
        self,
        budget: Budget | None = None,
        log: Log | None = None,
        announce: Log | None = None,
    ) -> None:
        self.budget, self.log, self.announce = budget or Budget(), log, announce
        self._accounts: dict[tuple[str, str], Account] = {}
        self._spent, self._reserved = _Sums(), _Sums()
        self._waiting: list[asyncio.Future[None]] = []
        self._limited = self.budget != Budget()

    def open(self, role: str, config: ModelConfig) -> Account:
        """Return the account of a role.

        Raises:
            BadConfig: money is limited and this model has no price.
        """
        account = self._account(role, config.model)
        account.price_in, account.price_out = config.price_in, config.price_out
        account.price_cached = config.price_cached
        if self.budget.money is not None and account.cost(0, 0) is None:
            raise BadConfig(
                "money is limited, and the price of this model is unknown",
                where=f"models.{role}",
                remedy="give price_in and price_out; 0 if it costs nothing",
            )
        return account

    def _account(self, role: str, model: str) -> Account:
        return self._accounts.setdefault((role, model), Account(role, model))

    def restore(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Take over what earlier sessions spent, as `log` was told it; open the accounts first.

        Of what was announced and is not in the log, the announcement counts.
        """
        for entry in entries:
            self._enter(self._account(entry["role"], entry["model"]), entry)

    async def reserve(self, account: Account, prompt: int, completion: int) -> Ticket:
        """Return the right to send one request, once calls in flight leave room for it.

        Args:
            account: who asks.
            prompt: tokens of the prompt, at most.
            completion: tokens of the reply, at most.

        Raises:
            BudgetSpent: it would exceed a limit, whatever those in flight turn out to cost.
        """
        ticket = Ticket(account, (prompt, completion))
        if self._limited:
            while not self._has_room(ticket):
                future = asyncio.get_running_loop().create_future()
                self._waiting.append(future)
                await future
            self._reserve(ticket, 1)
        return ticket

    def send(self, ticket: Ticket, call: str | None, attempt: int) -> None:
        """Announce a request that leaves now.

        Args:
            ticket: its ticket.
            call: identity of the call.
            attempt: number of the try, from 0.

        Raises:
            DiskFull: it is not announced, and must not be sent.
        """
        ticket.call, ticket.attempt = call, attempt
        if self.announce is not None:
            self.announce(ticket.entry())
            ticket.announced = True
        ticket.sent = True

    def close(self, ticket: Ticket) -> None:
        """Enter what a request cost; give its reservation back if it was never sent.

        Raises:
            DiskFull: it is entered, and not in the log.
        """
        if self._limited:
            self._reserve(ticket, -1)
        if not ticket.sent:
            ticket.status = UNSENT
        entry = ticket.entry()
        if ticket.sent:
            self._enter(ticket.account, entry)
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        if (ticket.sent or ticket.announced) and self.log is not None:
            self.log(entry)

    def _reserve(self, ticket: Ticket, sign: int) -> None:
        money = ticket.account.cost(*ticket.most) or 0.0
        self._reserved.add(sign, sign * sum(ticket.most), sign * money)

    def _has_room(self, ticket: Ticket) -> bool:
        """Say whether a request fits besides those in flight.

        Raises:
            BudgetSpent: it does not fit without them either.
        """
        need = (1, sum(ticket.most), ticket.account.cost(*ticket.most) or 0.0)
        fits = True
        for name, wanted in zip(("requests", "tokens", "money"), need, strict=True):
            limit = getattr(self.budget, name)
            if limit is None:
                continue
            spent, reserved = getattr(self._spent, name), getattr(self._reserved, name)
            if spent + wanted > limit + _ROUNDING:
                raise _spent(name, limit, spent, wanted)
            fits = fits and spent + reserved + wanted <= limit + _ROUNDING
        return fits

    def _enter(self, account: Account, entry: Mapping[str, Any]) -> None:
        prompt, completion = entry["prompt_tokens"] or 0, entry["completion_tokens"] or 0
        cached = entry["cached_tokens"] or 0
        account.attempts += 1
        account.calls += entry["attempt"] == 0
        account.prompt_tokens += prompt
        account.completion_tokens += completion
        account.cached_tokens += cached
        most = entry.get("most")
        if most is not None:
            account.unknown += 1
            (prompt, completion), cached = most, 0
        money = account.cost(prompt, completion, cached) or 0.0
        self._spent.add(1, prompt + completion, money)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row a role and model, for a report."""
        return [account.row() for account in self._accounts.values()]

    def total(self) -> dict[str, Any]:
        """Return the sums of all rows. `money` is None if any price is unknown."""
        rows = self.rows()
        names = ("calls", "attempts", "prompt_tokens", "completion_tokens", "cached_tokens")
        sums = {name: sum(row[name] for row in rows) for name in (*names, "unknown")}
        prices = [row["money"] for row in rows if row["attempts"]]
        money = None if None in prices else sum(prices)
        return {**sums, "money": money, "complete": not sums["unknown"]}


def most_tokens(body: bytes) -> int:
    """Return the most tokens that the prompt of a request can be.

    A tokenizer whose smallest piece is a byte never makes more tokens than bytes. A request holds
    more bytes about each message than a template has marks; tools are written with a space behind
    each comma and colon, which the request leaves out.
    """
    return len(body) + body.count(b",") + body.count(b":") + TEMPLATE_TOKENS


def at_least(value: float | None, *, complete: bool, digits: int = 0) -> str:
    """Return a sum for a person: `1,234`, `>= 1,234` where something is missing, or `unknown`."""
    if value is None:
        return "unknown"
    return f"{'' if complete else '>= '}{value:,.{digits}f}"


def _spent(name: str, limit: float, spent: float, wanted: float) -> BudgetSpent:
    what = f"the budget of {limit:,g} {name} is spent"
    if spent < limit and name != "requests":
        what += f": {spent:,g} are used, and the next call may take {wanted:,g}"
    return BudgetSpent(
        what, where=f"budget.{name}", remedy="raise it, and the same command goes on from here"
    )
