"""A user without a model: says the request, answers what is asked, and nothing else.

The contract of tau-bench's simulated user (papers 14.4) kept by construction: facts are told when
a question names them, identifiers are never invented, and the goodbye comes only after the agent
has reported something, never together with a consent (tau2-bench #297).
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from synth.core import voices
from synth.core.protocols import Turn, UserView
from synth.core.types import Fact, Message

PATIENCE = 4
"""Turns without progress (unanswerable or repeated questions) before the user gives up."""

_CONSENT = re.compile(
    r"\b(shall i|should i|may i (go|do|proceed|now|then)|do you (agree|consent|confirm|give your)|"
    r"do you want me to|would you like me to|want me to|"
    r"(please|kindly|can you) confirm(?! (your|the|which|what)\b)|"
    r"is (that|this|it) (correct|right|ok(ay)?|fine|all right)|(that|this) (correct|right)|"
    r"correct\?|right\?|ok(ay)?\?|(go|going) ahead|proceed\?|sounds good|may i\?|are you sure)",
    re.I,
)
_WAIT = re.compile(
    r"\b(one|a|just a) (moment|second|minute)\b|\blet me (check|look|see|find)\b|"
    r"\b(please|kindly) (wait|hold)\b|\bI('ll| will| am going to|'m going to) (now )?"
    r"(check|look|see|find|get|do|take)\b|\bbear with me\b",
    re.I,
)
_REFUSAL = re.compile(
    r"\b(cannot|can't|can not|unable|not (allowed|possible|permitted|able)|must not|declin\w+|"
    r"sorry|unfortunately|regret|not have a tool|no tool|failed|could not)\b",
    re.I,
)
_IDENTITY = re.compile(
    r"\b(who (am I|are you)|identif\w+|verify (you|that it)|your (details|data|identity)|"
    r"personal (details|data))\b",
    re.I,
)
_WORD = re.compile(r"[^\W_]+(?:-mail)?", re.I)
_EMPTY = frozenset({
    "a", "an", "the", "of", "to", "for", "in", "on", "at", "by", "with", "and", "or", "your", "my",
    "our", "this", "that", "it", "is", "are", "was", "you", "me", "i", "please", "tell", "give",
    "could", "would", "can", "which", "what", "when", "where", "who", "how", "do", "does", "need",
})  # fmt: skip
_SAME = {
    "mail": "email", "e-mail": "email", "emails": "email", "telephone": "phone",
    "mobile": "phone", "numbers": "number", "names": "name", "dates": "date", "day": "date",
}  # fmt: skip


@lru_cache(maxsize=1024)
def _words(text: str) -> tuple[str, ...]:
    """Return the words that carry meaning, in one spelling."""
    found = (word.lower() for word in _WORD.findall(text))
    words = tuple(_SAME.get(word, word) for word in found if word not in _EMPTY)
    # "e-mail" asks for the "e-mail address".
    return tuple(w for w in words if w != "address") if "email" in words else words


class ScriptedUser:
    """Plays the user of one episode in the persona's voice.

    Args:
        request: the first message.
        rng: chooses phrases.
    """

    who = "scripted/1"

    def __init__(self, request: str, rng: random.Random) -> None:
        self._request, self._rng = request, rng
        self._told: Counter[str] = Counter()
        """Names of facts -> how often they were told in answers."""
        self._lost = 0
        """Turns that brought nothing."""

    async def turn(self, view: UserView) -> Turn:
        """Return the next user message; the first is the request.

        Raises:
            UnknownName: nobody speaks in the persona's voice.
        """
        if not any(message.role == "user" for message in view.messages):
            return _turn(self._request)
        heard = next((m.content for m in reversed(view.messages) if m.role == "assistant"), None)
        return self._answer(heard or "", view)

    def _answer(self, heard: str, view: UserView) -> Turn:
        speaker = voices.voice(view.persona.voice, view.persona.language)
        questions = voices.questions(heard)
        if not questions:
            return self._close(heard, speaker)
        consent = [question for question in questions if _CONSENT.search(question)]
        if consent:
            objection = self._objection(heard, view, speaker)
            if objection:
                return _turn(f"{speaker.say('no', self._rng)} {objection}")
            if len(consent) == len(questions):
                return _turn(speaker.say("yes", self._rng))
        asked = _asked(questions, view.facts) or _asked([heard], view.facts)
        if not asked:
            return self._puzzled(questions, view.facts, speaker)
        turn = self._tell(asked, speaker)
        if not consent or turn.done:
            return turn
        return _turn(f"{speaker.say('yes', self._rng)} {turn.message.content}")

    def _objection(self, heard: str, view: UserView, speaker: voices.Voice) -> str | None:
        """Say what is right if the agent's proposal contradicts what the user knows or wants."""
        fact = _wrong_fact(heard, view.facts, view.clauses)
        if fact is not None:
            return voices.state(speaker, fact, self._rng, "correct")
        if _other_values(heard, [*view.clauses, *(f.spoken for f in view.facts)]):
            return speaker.say(
                "want", self._rng, clause=" and ".join(map(voices.wish, view.clauses))
            )
        return None

    def _close(self, heard: str, speaker: voices.Voice) -> Turn:
        """The agent asked nothing: it is at work, or it has come to an end."""
        if _WAIT.search(heard) and self._lost < PATIENCE:
            self._lost += 1
            return _turn(speaker.say("wait", self._rng))
        symbol = "resigned" if _REFUSAL.search(heard) else "thanks"
        return _turn(speaker.say(symbol, self._rng), done=True)

    def _tell(self, facts: list[Fact], speaker: voices.Voice) -> Turn:
        again = all(self._told[fact.name] for fact in facts)
        self._lost += again
        if self._lost > PATIENCE:
            return _turn(speaker.say("give_up", self._rng), done=True)
        said = []
        for fact in facts:
            symbol = "repeat" if self._told[fact.name] else "answer"
            # "It is M" says nothing when two things were asked for.
            symbol = symbol if len(facts) == 1 else "fact"
            said.append(voices.state(speaker, fact, self._rng, symbol))
            self._told[fact.name] += 1
        return _turn(" ".join(said))

    def _puzzled(self, questions: list[str], facts: Sequence[Fact], speaker: voices.Voice) -> Turn:
        """The question names nothing the user knows, or more than one thing."""
        self._lost += 1
        if self._lost > PATIENCE:
            return _turn(speaker.say("give_up", self._rng), done=True)
        options = _meant(" ".join(questions), facts)
        if len(options) > 1:
            named = " or ".join(voices.possessive(fact) for fact in options[:3])
            return _turn(speaker.say("which", self._rng, options=named))
        return _turn(speaker.say("unknown", self._rng))


def _turn(text: str, *, done: bool = False) -> Turn:
    return Turn(Message(role="user", content=text), done=done)


# --- what a question is about ----------------------------------------------------------------


def _asked(questions: Sequence[str], facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts that the questions name."""
    found: dict[str, Fact] = {}
    for question in questions:
        for fact in _named(question, facts) or _only_one(_meant(question, facts)):
            found[fact.name] = fact
    if not found and _IDENTITY.search(" ".join(questions)):
        found = {f.name: f for f in facts if _words(f.label)[-1:] in (("name",), ("email",))}
    return list(found.values())


def _only_one(facts: list[Fact]) -> list[Fact]:
    return facts if len(facts) == 1 else []


def _named(question: str, facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts whose whole label is in the question, the longest labels first."""
    left = Counter(_words(question))
    found: list[Fact] = []
    for fact in sorted(facts, key=lambda f: -len(_words(f.label))):
        label = Counter(_words(fact.label))
        if _of_something_else(question, fact):
            continue
        # Words are used up: "name of the box" does not ask for "name" as well.
        if label and label <= left:
            if not any(other.label == fact.label for other in found):
                left -= label
            found.append(fact)
    return found


def _of_something_else(question: str, fact: Fact) -> bool:
    """Return whether `name` stands in "the name of the book", which is another fact."""
    if " of " not in question.lower():
        return False
    words = fact.label.split(" of ")[0].split()
    owner = re.search(
        rf"\b{re.escape(words[-1])} of (?:the|this|that|your|an?) (\w+)", question, re.I
    )
    return owner is not None and owner[1].lower() not in fact.label.lower().split()


def _meant(question: str, facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts whose head word is in the question: `size` for `size of the box`."""
    asked = set(_words(question))
    best = 0
    found: list[Fact] = []
    for fact in facts:
        label = _words(fact.label)
        head = _words(fact.label.split(" of ")[0])[-1:]
        if _of_something_else(question, fact):
            continue
        score = len(asked.intersection(label))
        if head and head[0] in asked and score >= best:
            found = [*found, fact] if score == best else [fact]
            best = score
    return found


# --- what must not be agreed to --------------------------------------------------------------

_QUOTED = re.compile(r'"([^"]+)"')
_VALUE = re.compile(r"[\w.@+:-]*[\w@]")
_AMOUNT = re.compile(
    r"(?<![\w.,-])(\d+(?:[.,]\d+)?) "
    r"(?!(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b)([a-z]{3,})",
    re.I,
)


def _wrong_fact(heard: str, facts: Sequence[Fact], clauses: Sequence[str]) -> Fact | None:
    """Return a fact that the agent has wrong: another value stands beside its label."""
    wished = {word.casefold() for clause in clauses for word in _VALUE.findall(clause)}
    for fact in facts:
        # Two payees have two IBANs: a value is wrong if it is that of none of them.
        head = fact.label.split(" of ")[0]
        alike = [other for other in facts if other.label.split(" of ")[0] == head]
        for value in _beside(heard, fact.label):
            if value.casefold() not in wished and not any(_agrees(value, f) for f in alike):
                return fact
    return None


def _beside(heard: str, label: str) -> Iterator[str]:
    """Yield the values that are put right behind a label: `the size of the box is L`."""
    if label.lower() not in heard.lower():
        return  # compiling a pattern for each label takes longer than all the rest
    pattern = rf"\b{re.escape(label)}(?!\w)(?: is| as| to|:| =|,)? *(\"[^\"]+\"|[\w.@+:-]*[\w@])"
    for match in re.finditer(pattern, heard, re.I):
        value = match[1].strip('"')
        # A plain word goes on with the sentence; figures, addresses, codes and sizes are values.
        marked = match[1].startswith('"') or any(c.isdigit() or c in "@+" for c in value)
        if marked or (value.isupper() and len(value) <= 3):
            yield value


def _agrees(value: str, fact: Fact) -> bool:
    said = value.casefold()
    for text in (fact.spoken.casefold(), str(fact.value).casefold()):
        if said == text.strip('"') or said in _VALUE.findall(text):
            return True
        # 12,50 for 12.50 EUR; 03.03.2026 for 2026-03-03
        if any(c.isdigit() for c in said) and _figures(said) == _figures(text):
            return True
    return False


def _figures(text: str) -> list[int]:
    return sorted(int(digits) for digits in re.findall(r"[0-9]{1,15}", text))


def _other_values(heard: str, own: Sequence[str]) -> bool:
    """Return whether quoted names or amounts of a unit are all others than the user's."""
    mine = "\n".join(own)
    quoted, my_quoted = set(_QUOTED.findall(heard)), set(_QUOTED.findall(mine))
    if quoted and my_quoted and not quoted & my_quoted:
        return True
    amounts, my_amounts = _amounts(heard), _amounts(mine)
    return any(
        not numbers & my_amounts[unit] for unit, numbers in amounts.items() if unit in my_amounts
    )


def _amounts(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for number, unit in _AMOUNT.findall(text):
        found.setdefault(unit.lower().rstrip("s"), set()).add(number.replace(",", "."))
    return found
