"""A model as judge, beside the program: one question at a time, with a passage that shows it.

K2 report 3.1.1 has a model evaluate trajectories against rubrics. Here its answers never stand for
the truth where a program knows it; they are compared with it (`synth.calibration`), and decide what
only words can decide. An answer counts if its quote occurs in what was judged; what cannot be read
is asked again, then left unjudged: never a pass, never a failure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from synth.core.prompts import prompt_hash, quoted, render
from synth.core.protocols import LLM, ChatRequest, Finish, Reply, Sampler
from synth.core.types import Criterion, JudgedCheck, Message, Task, Trajectory
from synth.telling import say_value

OVERALL = "overall"
STATEMENT = (
    "The assistant did all that the user wants and nothing that they do not want, kept to its "
    "rules, told every value as the tools gave it, and claimed nothing that did not happen."
)
"""What is asked of a whole conversation."""
TRIES = 3
"""Replies to one question that may be unusable."""
_BRACES = 32
"""Braces from the end of a reply at which a verdict is looked for."""
_YES_NO, _PAIR = ("yes", "no"), ("first", "second", "neither")
_PROMPTS = ("judge_rules", "judge_question", "judge_pair", "judge_again")


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a model says of one statement."""

    met: bool | None
    """Whether it is met, by most votes; None where there is no majority or no answer."""
    votes: tuple[bool | None, ...]
    quote: str = ""
    """A passage of what was judged, of the first vote with the majority."""
    problems: tuple[str, ...] = ()
    """What was wrong with replies that could not be used."""

    def row(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "met": self.met,
            "votes": list(self.votes),
            "quote": self.quote,
            "problems": list(self.problems),
        }


class ModelJudge:
    """Asks a model.

    Args:
        llm: the model, bound to what is judged.
        sampler: how its tokens are drawn.
        votes: answers to one question; of an even number, half are no majority.
    """

    def __init__(self, llm: LLM, sampler: Sampler, votes: int = 1) -> None:
        self._llm, self._sampler, self._votes = llm, sampler, votes

    async def overall(self, task: Task, trajectory: Trajectory) -> Opinion:
        """Say whether a trajectory is as the user wanted it, as a whole."""
        return await self._asked(task, trajectory, STATEMENT)

    async def criterion(self, task: Task, trajectory: Trajectory, which: Criterion) -> Opinion:
        """Say whether a criterion is met; one that must not hold is met where it does not.

        Raises:
            ModelFailed: no reply.
            BudgetSpent: it may not be asked.
        """
        statement = which.check.question if isinstance(which.check, JudgedCheck) else which.text
        found = await self._asked(task, trajectory, statement)
        if which.level != "must_not" or found.met is None:
            return found
        turned = tuple(None if vote is None else not vote for vote in found.votes)
        return Opinion(not found.met, turned, found.quote, found.problems)

    async def prefer(
        self, task: Task, one: Trajectory, two: Trajectory
    ) -> tuple[str | None, str | None]:
        """Return what is chosen when `one` is shown first, and when it is shown second.

        Each is `first`, `second` or None. A judge that is steady names another place each time.
        """
        return await self._chosen(task, one, two), await self._chosen(task, two, one)

    async def _chosen(self, task: Task, first: Trajectory, second: Trajectory) -> str | None:
        page = render(
            "judge_pair",
            policy=quoted(_policy(first)),
            wish=wish_of(task),
            first=quoted(conversation(first.messages)),
            second=quoted(conversation(second.messages)),
        )
        texts = _said(first.messages) + _said(second.messages)
        answer, _, _ = await self._one(page, _PAIR, texts)
        return answer if answer in ("first", "second") else None

    async def _asked(self, task: Task, trajectory: Trajectory, statement: str) -> Opinion:
        page = render(
            "judge_question",
            policy=quoted(_policy(trajectory)),
            wish=wish_of(task),
            conversation=quoted(conversation(trajectory.messages)),
            statement=statement,
        )
        return await self._voted(page, _said(trajectory.messages))

    async def _voted(self, page: str, texts: str) -> Opinion:
        votes: list[bool | None] = []
        quotes: dict[bool, str] = {}
        problems: list[str] = []
        for _ in range(self._votes):
            answer, quote, wrong = await self._one(page, _YES_NO, texts)
            vote = None if answer is None else answer == "yes"
            votes.append(vote)
            problems += wrong
            if vote is not None:
                quotes.setdefault(vote, quote)
        met = majority(votes)
        return Opinion(met, tuple(votes), "" if met is None else quotes[met], tuple(problems))

    async def _one(
        self, page: str, words: Sequence[str], texts: str
    ) -> tuple[str | None, str, list[str]]:
        """Ask until an answer can be used; return it, its quote and what was wrong before."""
        talk = [{"role": "system", "content": render("judge_rules")},
                {"role": "user", "content": page}]  # fmt: skip
        problems: list[str] = []
        while len(problems) < TRIES:
            request = ChatRequest(talk, sampler=self._sampler, response_format=_format(words))
            reply = await self._llm.complete(request)
            read = _read(reply, words, texts)
            if not isinstance(read, str):
                return read[0], read[1], problems
            problems.append(read)
            said = {"role": "assistant", "content": reply.message.content or "-"}
            again = {"role": "user", "content": render("judge_again", why=quoted(read))}
            talk = [*talk[:2], said, again]
        return None, "", problems


def majority(votes: Sequence[bool | None]) -> bool | None:
    """Return what more than half of all votes say; a missing one is nobody's."""
    counts = Counter(votes)
    return next((v for v in (True, False) if counts[v] * 2 > len(votes)), None)


def prompt_key() -> str:
    """Return what changes when a prompt of the judge does."""
    return "-".join(prompt_hash(name)[:6] for name in _PROMPTS)


# --- what is shown ---------------------------------------------------------------------------


def wish_of(task: Task) -> str:
    """Return what the user of a task wants, and what they have to be told, for a judge's eyes."""
    blueprint = task.blueprint
    parts = [f"I would like to {'; and to '.join(blueprint.clauses)}."]
    if blueprint.rule:
        parts.append(
            f"The rules forbid it ({blueprint.rule}): the assistant has to pass it on instead."
        )
    elif blueprint.diffs == ((),) and not blueprint.outputs:
        parts.append("No tool serves it: the assistant has to pass it on.")
    if blueprint.outputs:
        told = "; ".join(f"{value.label}: {say_value(value)}" for value in blueprint.outputs)
        parts.append(f"The right values to be told are: {told}.")
    return " ".join(parts)


def conversation(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as a judge is shown them, without the system prompt."""
    shown: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        who = {"assistant": "assistant", "tool": "result"}.get(message.role, "user")
        line: dict[str, Any] = {"from": who}
        if message.content:
            line["text"] = message.content
        if message.tool_calls:
            line["calls"] = [f"{call.name}({call.arguments})" for call in message.tool_calls]
        shown.append(line)
    return shown


def _policy(trajectory: Trajectory) -> str:
    first = trajectory.messages[0]
    return (first.content or "") if first.role == "system" else ""


def _said(messages: Sequence[Message]) -> str:
    texts = []
    for message in messages:
        texts.append(message.content or "")
        texts += (f"{call.name}({call.arguments})" for call in message.tool_calls)
    return _folded("\n".join(texts))


# --- what comes back -------------------------------------------------------------------------


def _format(words: Sequence[str]) -> dict[str, Any]:
    properties = {
        "reason": {"type": "string", "maxLength": 400},
        "quote": {"type": "string", "maxLength": 300},
        "answer": {"enum": list(words)},
    }
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "json_schema", "json_schema": {"name": "verdict", "schema": schema}}


def _read(reply: Reply, words: Sequence[str], texts: str) -> tuple[str, str] | str:
    """Return answer and quote, or why a reply cannot be used."""
    if not reply.usable or reply.finish == Finish.LENGTH:
        return f"it ended with {reply.finish}"
    found = last_object(reply.message.content or "", lambda value: "answer" in value)
    if found is None:
        return "there is no JSON object with an answer in it"
    answer = str(found["answer"]).strip().casefold()
    if answer not in words:
        return f"the answer is none of {', '.join(words)}"
    quote = found.get("quote") or ""
    if not isinstance(quote, str) or _folded(quote) not in texts:
        return "the quote does not occur in the material"
    return answer, quote


def last_object(text: str, fits: Callable[[Mapping[str, Any]], bool]) -> dict[str, Any] | None:
    """Return the last JSON object in a text that fits: what is thought aloud before is no verdict.

    Args:
        text: from anywhere.
        fits: says whether an object is meant.
    """
    end = len(text)
    for _ in range(_BRACES):
        end = start = text.rfind("}", 0, max(end, 0))
        for _ in range(_BRACES):
            start = text.rfind("{", 0, max(start, 0))
            if start < 0:
                break
            try:
                value = orjson.loads(text[start : end + 1])
            except orjson.JSONDecodeError:
                continue
            if isinstance(value, dict) and fits(value):
                return value
    return None


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()
