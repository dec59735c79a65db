"""A user without a model: says the request, answers what is asked, and nothing else.

The contract of tau-bench's simulated user (papers 14.4) kept by construction: facts are told when
a question names them, identifiers are never invented, and the goodbye comes only after the agent
has reported something, never together with a consent (tau2-bench #297). It may take its wish back,
once and before anything can be done, and ask things that are beside the point.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

from simulators.users.acts import obey, report
from simulators.users.asked import asked, meant
from simulators.users.wrong import other_values, wrong_fact
from synth.core import voices
from synth.core.hearing import Hearing, hearing
from synth.core.protocols import Turn, UserView
from synth.core.speech import speech
from synth.core.types import Fact, Message
from synth.core.users import aside_in, asides

PATIENCE = 4
"""Turns without progress (unanswerable or repeated questions) before the user gives up."""


class ScriptedUser:
    """Plays the user of one episode in the persona's voice.

    Args:
        request: the first message.
        rng: chooses phrases.
        asides: turns after the request at which something beside the point is asked, or at the
            last turn if that comes first (see `synth.core.users.draw_asides`).
    """

    who = "scripted/1"

    def __init__(self, request: str, rng: random.Random, asides: Sequence[int] = ()) -> None:
        self._request, self._rng, self._asides = request, rng, tuple(asides)
        self._told: Counter[str] = Counter()
        """Names of facts -> how often they were told in answers."""
        self._lost = 0
        """Turns that brought nothing."""

    async def turn(self, view: UserView) -> Turn:
        """Return the next user message; the first is the request.

        Raises:
            UnknownName: nobody speaks in the persona's voice.
        """
        return self._reply(view)

    def recall(self, view: UserView, said: Message) -> None:
        """Remember having answered: what was told, and how long nothing came of it.

        What counts is what it would have said itself, whoever said it.
        """
        self._reply(view)

    def _reply(self, view: UserView) -> Turn:
        if not any(message.role == "user" for message in view.messages):
            return _turn(self._request)
        if view.messages[-1].role == "tool":
            return Turn(report(view, self._rng))
        heard = next((m.content for m in reversed(view.messages) if m.role == "assistant"), None)
        if view.retracted and sum(message.role == "user" for message in view.messages) == 1:
            return self._change(heard or "", view)
        acted = self._do(heard or "", view)
        return acted or self._beside(self._answer(heard or "", view), view)

    def _change(self, heard: str, view: UserView) -> Turn:
        """Take back what the request said, and answer what is asked: nothing can be done yet."""
        speaker = voices.voice(view.persona.voice, view.persona.language)
        hears = hearing(view.persona.language)
        said = [speaker.say("change", self._rng, clause=_wishes(view))]
        questions = hears.questions(heard)
        facts = asked(questions, view.facts, hears) if questions else []
        if facts:
            said.append(self._tell(facts, speaker, hears.language).message.content or "")
        return _turn(speech(hears.language).space.join(said))

    def _beside(self, turn: Turn, view: UserView) -> Turn:
        """Add a question beside the point, if one is due; it may take the place of a goodbye."""
        if not self._asides or self._lost > PATIENCE:
            return turn
        language = view.persona.language
        mine = [message.content or "" for message in view.messages if message.role == "user"]
        known = [aside_in(text, language) for text in mine[1:]]
        done = [aside for aside in known if aside is not None]
        due = self._asides[len(done) :]
        if not due or not (turn.done or due[0] <= len(mine)):
            return turn
        left = [aside for aside in asides(language) if aside not in done]
        aside = left[int(self._rng.random() * len(left))]
        speaker = voices.voice(view.persona.voice, language)
        text = speaker.say("aside", self._rng, question=aside.asks)
        if turn.done:
            return _turn(text)
        return _turn(f"{turn.message.content}{speech(language).space}{text}")

    def _do(self, heard: str, view: UserView) -> Turn | None:
        """Do what the agent asks for, or say why not; None if it asks for nothing to be done."""
        message = obey(heard, view, self._rng) if view.acts else None
        if message is None:
            return None
        self._lost += not message.tool_calls
        if self._lost > PATIENCE:
            speaker = voices.voice(view.persona.voice, view.persona.language)
            return _turn(speaker.say("give_up", self._rng), done=True)
        return Turn(message)

    def _answer(self, heard: str, view: UserView) -> Turn:
        language = view.persona.language
        speaker, hears = voices.voice(view.persona.voice, language), hearing(language)
        space = speech(language).space
        questions = hears.questions(heard)
        if not questions:
            return self._close(heard, speaker, hears)
        consent = [question for question in questions if hears.has("consent", question)]
        if consent:
            objection = self._objection(heard, view, speaker, hears)
            if objection:
                return _turn(f"{speaker.say('no', self._rng)}{space}{objection}")
            if len(consent) == len(questions):
                return _turn(speaker.say("yes", self._rng))
        facts = view.facts
        wanted = asked(questions, facts, hears) or asked([heard], facts, hears)
        if not wanted:
            if any(hears.has("wish", question) for question in questions):
                return self._wish(view, speaker)
            return self._puzzled(questions, facts, speaker, hears)
        turn = self._tell(wanted, speaker, hears.language)
        if not consent or turn.done:
            return turn
        return _turn(f"{speaker.say('yes', self._rng)}{space}{turn.message.content}")

    def _objection(
        self, heard: str, view: UserView, speaker: voices.Voice, hears: Hearing
    ) -> str | None:
        """Say what is right if the agent's proposal contradicts what the user knows or wants."""
        fact = wrong_fact(heard, view.facts, view.clauses, hears)
        if fact is not None:
            return voices.state(speaker, fact, self._rng, "correct", language=hears.language)
        own = [*view.clauses, *(f.spoken for f in view.facts)]
        return self._wanted(view, speaker) if other_values(heard, own, hears) else None

    def _wanted(self, view: UserView, speaker: voices.Voice) -> str:
        return speaker.say("want", self._rng, clause=_wishes(view))

    def _wish(self, view: UserView, speaker: voices.Voice) -> Turn:
        """The agent asks what it may do: it has heard nothing, or forgotten it."""
        self._lost += 1
        if self._lost > PATIENCE:
            return _turn(speaker.say("give_up", self._rng), done=True)
        return _turn(self._wanted(view, speaker))

    def _close(self, heard: str, speaker: voices.Voice, hears: Hearing) -> Turn:
        """The agent asked nothing: it is at work, or it has come to an end."""
        if hears.has("wait", heard) and self._lost < PATIENCE:
            self._lost += 1
            return _turn(speaker.say("wait", self._rng))
        symbol = "resigned" if hears.has("refusal", heard) else "thanks"
        return _turn(speaker.say(symbol, self._rng), done=True)

    def _tell(self, facts: list[Fact], speaker: voices.Voice, language: str) -> Turn:
        again = all(self._told[fact.name] for fact in facts)
        self._lost += again
        if self._lost > PATIENCE:
            return _turn(speaker.say("give_up", self._rng), done=True)
        said = []
        for fact in facts:
            symbol = "repeat" if self._told[fact.name] else "answer"
            # "It is M" says nothing when two things were asked for.
            symbol = symbol if len(facts) == 1 else "fact"
            said.append(voices.state(speaker, fact, self._rng, symbol, language=language))
            self._told[fact.name] += 1
        return _turn(speech(language).space.join(said))

    def _puzzled(
        self,
        questions: list[str],
        facts: Sequence[Fact],
        speaker: voices.Voice,
        hears: Hearing,
    ) -> Turn:
        """The question names nothing the user knows, or more than one thing."""
        self._lost += 1
        if self._lost > PATIENCE:
            return _turn(speaker.say("give_up", self._rng), done=True)
        options = meant(" ".join(questions), facts, hears)
        if len(options) > 1:
            calls = [voices.possessive(fact, hears.language) for fact in options[:3]]
            named = speech(hears.language).listed(calls, choice=True)
            return _turn(speaker.say("which", self._rng, options=named))
        return _turn(speaker.say("unknown", self._rng))


def _wishes(view: UserView) -> str:
    language = view.persona.language
    return speech(language).listed([voices.wish(clause, language) for clause in view.clauses])


def _turn(text: str, *, done: bool = False) -> Turn:
    return Turn(Message(role="user", content=text), done=done)
