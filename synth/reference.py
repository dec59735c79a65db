"""The reference agent: plays a task by its solution, so that generation works without any model.

It looks things up first, makes independent calls in one turn, asks for what only the user knows,
confirms writes where its behaviour says so, retries what failed for a moment, and reports in plain
words. At configured rates it errs on purpose (`synth.mistakes`).
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping, Sequence
from itertools import compress, groupby
from typing import Any, TypeAlias

import orjson

from synth.core import voices
from synth.core.acting import acting
from synth.core.hearing import hearing
from synth.core.protocols import AgentView, Turn
from synth.core.speech import ENGLISH, speech
from synth.core.types import (
    Agent,
    Effect,
    Fact,
    Message,
    OutputValue,
    PlannedCall,
    Task,
    TaskKind,
    ToolCall,
)
from synth.core.users import Aside, aside_in
from synth.mistakes import ErrorRates, draw_mistake, right_plan, spoil
from synth.past import Made, Past, is_for_now, read_error
from synth.rubrics import REFUSALS
from synth.telling import capital, ended, say_value

__all__ = ["ErrorRates", "ReferenceAgent"]

_Script: TypeAlias = Generator[Message, Sequence[Message], None]
TRIES = 8
"""Rounds of calls before what fails for a moment counts as failed: a result that came in part may
fail again when it is asked for."""
_ORDERS = 2
"""How often the agent asks the user to do the same thing before it gives up."""
_ASKS = 3
"""How often the agent asks for the same fact before it gives up."""


class ReferenceAgent:
    """Plays the agent of one episode.

    Args:
        task: its blueprint holds the solution.
        agent: its behaviour decides style and confirmations.
        rng: chooses phrases and mistakes.
        errors: how often it errs; by default never.
    """

    who = "reference/1"

    def __init__(
        self, task: Task, agent: Agent, rng: random.Random, errors: ErrorRates | None = None
    ) -> None:
        self._task, self._rng = task, rng
        self._confirms = agent.behaviour.confirms_writes
        self._language = task.persona.language
        self._hears, self._speech = hearing(self._language), speech(self._language)
        self._style = voices.style(agent.behaviour.style, self._language)
        self.mistake = draw_mistake(task, errors, rng) if errors is not None else None
        """What goes wrong on purpose in this episode, if anything. For tests and audits only."""
        known = task.blueprint
        facts = (*known.opening, *known.withheld, *known.background)
        self._values = frozenset(fact.spoken for fact in facts)
        """What stays as it is where the user's words are turned round."""
        self._plan = spoil(task, self.mistake, rng) if self.mistake else right_plan(task)
        self._iso_dates = rng.random() < 0.3 and self._language == ENGLISH.language
        self._calls = 0
        self._script: _Script | None = None
        self._heard: Sequence[Message] = ()
        self._apart = False
        """Something else was said in its part than it would have said."""

    async def turn(self, view: AgentView) -> Turn:
        """Return the next assistant message."""
        if self._apart:
            self._apart, self._calls, self._script = False, 0, None
        return Turn(self._next(view))

    def recall(self, view: AgentView, said: Message) -> None:
        """Remember what was said in its part before.

        As long as that is what it would have said itself, it goes on as if it had; otherwise it
        takes the episode over, and does what is left of its plan.
        """
        self._apart = self._apart or self._next(view) != said

    def _next(self, view: AgentView) -> Message:
        self._heard = view.messages
        if self._script is None:
            self._script = self._play(view.messages)
            return next(self._script)
        return self._script.send(view.messages)

    # --- the course of an episode ------------------------------------------------------------

    def _play(self, before: Sequence[Message]) -> _Script:
        past = Past(before, self._hears)
        self._taken, agreed = past.ids, past.agreed
        missing = yield from self._ask_first(past.untold(self._task.blueprint.withheld))
        written = 0
        reason: str | None = None
        groups = [list(g) for _, g in groupby(self._plan.calls, key=lambda call: call.group)]
        for number, group in enumerate(groups):
            if group[0].by == "user":
                reason = yield from self._have_done(group)
                if reason is not None:
                    break
                continue
            made = [past.take(call) for call in group]
            done = list(compress(group, made))
            group = [call for call, was in zip(group, made, strict=True) if was is None]
            written += sum(call.effect is not Effect.READ for call in done)
            if not group:
                over, reason, agreed = self._had(done, made, agreed)
                if over:
                    break
                continue
            needed = [f for f in missing if number == len(groups) - 1 or _needs(group, f)]
            if needed:
                missing = [fact for fact in missing if fact not in needed]
                yield from self._ask(needed)
            writes = _writes(group)
            if self._confirms and writes and self._plan.claims and agreed < 0:
                messages = yield self._text(self._consent(writes, written))
                if self._hears.has("declines", messages[-1].content or ""):
                    yield from self._end(self._stopped(written))
            agreed = -1 if writes else agreed
            written += len(writes)
            reason, over = yield from self._call(group)
            if over:
                break
        yield from self._end(self._report(reason))

    def _had(
        self, done: Sequence[PlannedCall], made: Sequence[Made | None], agreed: int
    ) -> tuple[bool, str | None, int]:
        """Go past a group of calls that was made before.

        Returns:
            Whether that is the end, the message of an error that stayed, and the user's yes, if it
            was not to these calls.
        """
        problem = next((was.problem for was in made if was and was.problem), None)
        wrote = [
            was.place
            for was, call in zip(made, done, strict=True)
            if was and call.effect is not Effect.READ
        ]
        over = problem is not None and not self._plan.persists
        return over, problem, -1 if max(wrote, default=-1) > agreed else agreed

    def _ask_first(self, missing: list[Fact]) -> Generator[Message, Sequence[Message], list[Fact]]:
        """Ask at once where the wish may still change; return what is left to ask for."""
        if not self._task.blueprint.retracted or not missing:
            return missing
        yield from self._ask(missing)
        return []

    def _ask(self, facts: list[Fact]) -> _Script:
        """Ask until the user has said every fact, all at once the first time."""
        for _ in range(_ASKS):
            whats = [self._yours(voices.possessive(fact, self._language)) for fact in facts]
            what = self._speech.listed(whats)
            symbol = "ask_one" if len(whats) == 1 else "ask_many"
            messages = yield self._text(self._say(symbol, what=what, What=capital(what)))
            answer = messages[-1].content or ""
            facts = [fact for fact in facts if fact.spoken not in answer]
            if not facts:
                return

    def _have_done(
        self, group: list[PlannedCall]
    ) -> Generator[Message, Sequence[Message], str | None]:
        """Ask the user to do what only they can, one thing after the other.

        Returns:
            What they said where it cannot be done; None where all is done.
        """
        says = acting(self._language)
        for call in group:
            acts = self._task.blueprint.acts
            act = next(a for a in acts if (a.tool, a.arguments) == (call.tool, call.arguments))
            symbol = "ask_read" if call.effect is Effect.READ else "ask"
            answer = ""
            for _ in range(_ORDERS):
                messages = yield self._text(says.say(symbol, self._rng, words=act.words))
                answer = messages[-1].content or ""
                if not says.excuses(answer):
                    break
            else:
                return answer
        return None

    def _call(
        self, group: list[PlannedCall]
    ) -> Generator[Message, Sequence[Message], tuple[str | None, bool]]:
        """Make the calls of a group in one turn.

        Returns:
            The message of an error that stayed, and whether that is the end: what a call did not
            tell, later ones must not go by.
        """
        problem: str | None = None
        for _ in range(TRIES):
            messages = yield self._calls_message(group)
            results = [m.content or "" for m in messages[len(messages) - len(group) :]]
            errors = map(read_error, results)
            problem = next((error["message"] for error in errors if error), None)
            group = list(compress(group, map(is_for_now, results)))
            if not (group and self._plan.persists):
                break
        return problem, problem is not None and (bool(group) or not self._plan.persists)

    def _end(self, text: str) -> _Script:
        """Say the last word, and goodbye to whatever comes after it but a question."""
        yield self._text(text)
        while True:
            asked = self._asked_beside()
            yield self._text("" if asked else self._say("farewell"))

    # --- words -------------------------------------------------------------------------------

    def _say(self, symbol: str, **fields: str) -> str:
        return self._style.say(symbol, self._rng, **fields)

    def _text(self, text: str) -> Message:
        """Return a message; what the user asked beside the point is answered before the rest."""
        aside = self._asked_beside()
        if aside is not None:
            answer = self._say("beside", answer=aside.answer)
            text = self._speech.space.join(filter(None, (answer, text)))
        return Message(role="assistant", content=text)

    def _asked_beside(self) -> Aside | None:
        """Return what the user's last message asks beside the point, if nothing was said to it."""
        for message in reversed(self._heard):
            if message.role == "assistant" and message.content:
                return None
            if message.role == "user":
                return aside_in(message.content or "", self._language)
        return None

    def _calls_message(self, group: list[PlannedCall]) -> Message:
        calls = []
        for call in group:
            self._calls += 1
            while f"call_{self._calls}" in self._taken:
                self._calls += 1
            text = orjson.dumps(call.arguments).decode()
            calls.append(ToolCall(id=f"call_{self._calls}", name=call.tool, arguments=text))
        return Message(role="assistant", content=None, tool_calls=tuple(calls))

    def _clauses(self) -> list[str]:
        clauses = self._task.blueprint.clauses
        return [self._yours(voices.wish(clause, self._language)) for clause in clauses]

    def _yours(self, text: str) -> str:
        return self._speech.turned(text, self._values)

    def _is_question(self, clause: str) -> bool:
        return self._hears.has("asks_to_know", clause)

    def _consent(self, writes: list[PlannedCall], written: int) -> str:
        """Ask for a yes to `writes`, after `written` others.

        In the user's own words: arguments of calls (minor units, keys) are nothing to agree to.
        """
        clauses = self._clauses()
        total = len(_writes(self._plan.calls))
        if total == len(clauses):
            clauses = clauses[written : written + len(writes)]
        elif written and self._language == ENGLISH.language:
            clauses = [call.tool.replace("_", " ") for call in writes]
        wish = self._speech.listed(clauses)
        if written:
            return self._say("confirm_next", action=wish)
        wish += "".join(map(self._added, self._task.blueprint.withheld))
        return self._say("confirm", clauses=wish, Clauses=capital(wish))

    def _added(self, fact: Fact) -> str:
        """Return how a fact that was asked for is put behind the wish; not who the user is."""
        if fact.name.startswith("user."):
            return ""
        return self._speech.added(self._speech.bare(self._yours(fact.label)), fact.spoken)

    def _stopped(self, written: int) -> str:
        """Return what to say to a user who declines a write, after so many others."""
        if written == 0:
            return self._say("declined")
        wanted = _writes(self._task.blueprint.solution)
        if written >= len(wanted):  # the one too many, of which the user thought better
            self.mistake = None
            return self._report(None)
        done = [call.tool.replace("_", " ") for call in wanted[:written]]
        clauses = self._clauses()
        if len(clauses) == len(wanted):
            done = clauses[:written]
        wish = self._speech.listed(done)
        return self._say("done", clause=wish, Clause=capital(wish))

    def _report(self, reason: str | None) -> str:
        """Return the final message: a sentence a goal."""
        blueprint = self._task.blueprint
        clauses = self._clauses()
        wish = self._speech.listed(clauses)
        refuses = blueprint.kind in REFUSALS
        if refuses and not self._plan.claims:
            return self._refusal(wish)
        if reason is not None and not refuses:
            return self._say("failed", clause=wish, reason=ended(reason))
        runs = [list(run) for _, run in groupby(self._plan.outputs, key=lambda o: o.label)]
        each = len(runs) == sum(map(self._is_question, clauses))
        sentences: list[str] = []
        for clause in clauses:
            if not self._is_question(clause):
                sentences.append(self._say("done", clause=clause, Clause=capital(clause)))
            elif each:
                sentences.append(self._told(clause, self._tell(runs.pop(0)), sentences))
        if runs:
            told = self._tell([output for run in runs for output in run])
            sentences.append(self._say("outputs", outputs=told))
        if not sentences:  # a question that no tool serves, answered all the same by mistake
            sentences.append(self._say("done", clause=wish, Clause=capital(wish)))
        text = sentences[0]
        for sentence in sentences[1:]:
            text = self._say("both", first=text, second=sentence)
        return text

    def _told(self, clause: str, outputs: str, before: Sequence[str]) -> str:
        """Answer one question, without opening two sentences alike."""
        rest = self._hears.after("asks_to_know", clause)
        openings = {sentence[:12] for sentence in before}
        text = self._say("told", clause=clause, rest=rest, outputs=outputs)
        return outputs if text[:12] in openings else text

    def _refusal(self, wish: str) -> str:
        blueprint = self._task.blueprint
        if blueprint.kind is TaskKind.FORBIDDEN:
            rule = ended(blueprint.rule or "it is not allowed")
            text = self._say("refused", clause=wish, Clause=capital(wish), rule=rule)
        else:
            text = self._say("unserved", clause=wish, Clause=capital(wish))
        if _writes(self._plan.calls):
            text += self._speech.space + self._say("handed_over")
        return text

    def _tell(self, outputs: Sequence[OutputValue]) -> str:
        """Tell values, those of one name together."""
        by_label: dict[str, list[OutputValue]] = {}
        for output in outputs:
            by_label.setdefault(self._yours(output.label), []).append(output)
        return self._speech.space.join(map(self._tell_one, by_label, by_label.values()))

    def _tell_one(self, label: str, outputs: Sequence[OutputValue]) -> str:
        the = label
        if self._language == "en" and not label.startswith(("the ", "your ")):
            the = f"the {label}"
        bare = self._speech.bare(label)
        fields = {"the": the, "The": capital(the), "Label": capital(bare)}
        values = [
            say_value(output, iso_dates=self._iso_dates, language=self._language)
            for output in outputs
        ]
        text = self._say("output", spoken=self._speech.listed(values), **fields)
        # "The points is 5", "the on hold is no": what is no single thing is only put beside it.
        odd = len(values) > 1 or outputs[0].type == "boolean" or self._speech.is_many(label)
        if odd or self._speech.is_many(self._hears.head(label)):
            return self._speech.line(capital(bare), self._speech.listed(values))
        return text


def _writes(calls: Sequence[PlannedCall]) -> list[PlannedCall]:
    """Return the agent's calls that change something."""
    return [call for call in calls if call.effect is not Effect.READ and call.by == "agent"]


def _needs(group: list[PlannedCall], fact: Fact) -> bool:
    return any(_holds(call.arguments, fact) for call in group)


def _holds(value: Any, fact: Fact) -> bool:
    if isinstance(value, Mapping):
        return any(_holds(item, fact) for item in value.values())
    if isinstance(value, list | tuple):
        return any(_holds(item, fact) for item in value)
    if isinstance(value, str) and isinstance(fact.value, str):
        return len(fact.value) > 0 and fact.value in value
    return type(value) is type(fact.value) and bool(value == fact.value)
