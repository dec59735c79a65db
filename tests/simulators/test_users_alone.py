"""Scripted users alone against a scripted agent, over many episodes: what they never do."""

import random

import pytest

from simulators.users.scripted import ScriptedUser
from synth.core import voices
from synth.core.hearing import hearing, languages
from synth.core.invented import Known
from synth.core.protocols import UserView
from synth.core.types import Fact, Message, Persona

LINES = (
    "What is your {label}?",
    "Could you tell me your {label} and your customer number?",
    "Is it {code}, or rather {code}?",
    "Your {label} is {code}. Is that correct?",
    'I would take "{code}" for {number}.00 EUR by {number} days. Shall I go ahead?',
    "I wrote to {code}@example.org on {number} March 2026. Which address is right?",
    "Who am I speaking with?",
    "What is your IBAN?",
    "How can I help you?",
    "One moment, I will look at {code}.",
    "If you need to change {code}, please let me know.",
    "Done: {code}.",
    "",
)


def made(rng):
    """Draw facts, wishes and what else a user of an episode needs."""

    def digits(count):
        return "".join(str(rng.randrange(10)) for _ in range(count))

    values = {
        "e-mail address": f"user{digits(3)}@example.net",
        "phone number": f"+49 {digits(3)} {digits(4)} {digits(2)}",
        "name": rng.choice(("Ann Lee", "José Ruiz", "王 伟")),
        "IBAN": f"DE{digits(2)} {digits(4)} {digits(4)}",
        "day of the payment": f"{rng.randint(1, 28)} May 2026",
        "amount of the order": f"{digits(3)}.00 EUR",
        "size of the box": "L",
    }
    labels = rng.sample(sorted(values), rng.randint(0, len(values)))
    facts = tuple(
        Fact(name=f"user.f{i}", label=label, value=values[label], spoken=values[label])
        for i, label in enumerate(labels)
    )
    clause = f'move {digits(2)}.50 EUR to "{digits(4)} Club" on {rng.randint(1, 28)} June 2026'
    return facts, (clause,), rng.choice(tuple(values))


def episode(number):
    """Play one; return the texts of the user and what they may hold."""
    rng = random.Random(number)
    language = rng.choice(languages())
    persona = Persona(name="Ann Lee", voice=rng.choice(voices.names(language)), language=language)
    facts, clauses, asked = made(rng)
    request = voices.opening(persona, clauses, facts[:2], rng)
    asides = rng.choice(((), (1,), (1, 3), (2,)))
    user, messages, said = ScriptedUser(request, rng, asides), [], []
    retracted = rng.choice(("", "close my account"))
    for _ in range(8):
        view = UserView(persona, clauses, facts, messages, retracted=retracted)
        turn = _now(user.turn(view))
        said.append(turn.message.content)
        messages.append(turn.message)
        if turn.done:
            break
        code = f"K-{rng.randrange(10_000):04d}"
        line = rng.choice(LINES).format(label=asked, code=code, number=rng.randint(13, 99))
        messages.append(Message(role="assistant", content=line))
    known = [*clauses, persona.name, *(f.spoken for f in facts)]
    return said, Known(known)


def _now(coroutine):
    """Run what never waits; an event loop for each message would take longer than the talk."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("a scripted user waits for nothing")


def never_invents(numbers):
    for number in numbers:
        said, known = episode(number)
        for text in said:
            assert text.strip(), number
            assert list(known.invented(text)) == [], (number, text)


@pytest.mark.claim("d08")
@pytest.mark.claim("k2-users")
def test_a_scripted_user_never_utters_an_identifier_that_is_not_in_its_facts():
    never_invents(range(1000))


@pytest.mark.soak
def test_a_scripted_user_never_utters_a_foreign_identifier_in_ten_thousand_episodes():
    never_invents(range(10_000))


def length(line, clauses=("borrow a book",)):
    """Return after how many turns a user takes leave who hears one line again and again."""
    persona = Persona(name="Ann Lee", voice="plain")
    user, messages = ScriptedUser("I want a book.", random.Random(1)), []
    for number in range(1, 20):
        turn = _now(user.turn(UserView(persona, clauses, (), messages)))
        if turn.done:
            return number
        messages += [turn.message, Message(role="assistant", content=line)]
    return None


@pytest.mark.parametrize("line", LINES)
def test_whoever_asks_the_same_again_and_again_loses_the_user(line):
    line = line.format(label="IBAN", code="K-4711", number=30)
    # A yes may be wanted many times; it is the limit of turns that ends such a talk.
    lasts = hearing().has("consent", line)
    found = length(line)
    assert found is None if lasts else found <= 6, (line, found)
