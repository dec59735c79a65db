"""Voices are distinct: a simple classifier tells from a message who writes."""

import math
import random
from collections import Counter

import pytest

from synth.core import voices
from synth.core.hearing import languages
from synth.core.types import Fact, Persona
from synth.core.users import asides

SIZES = range(2, 5)
TRAINED, HELD_OUT = 60, 60
"""Messages of each voice."""
WISHES = (
    "borrow a book", "cancel my booking of the blue room", "know when my loan is due",
    "send 20.00 EUR to Ann", "move my appointment to 3 March 2026", "block my card",
    "change my address", "have a fee refunded", "add Tom as a guest", "see my balance",
)  # fmt: skip


class NaiveBayes:
    """Counts of character runs, smoothed; nothing else."""

    def __init__(self, texts):
        self.counts = {label: Counter() for label, _ in texts}
        for label, text in texts:
            self.counts[label].update(self.runs(text))
        self.totals = {label: sum(counts.values()) for label, counts in self.counts.items()}
        self.kinds = len(set().union(*self.counts.values()))

    @staticmethod
    def runs(text):
        return [text[i : i + size] for size in SIZES for i in range(len(text) - size + 1)]

    def guess(self, text):
        def score(label):
            counts, total = self.counts[label], self.totals[label] + self.kinds
            return sum(math.log((counts[run] + 1) / total) for run in self.runs(text))

        return max(self.counts, key=score)


def later_messages(voice, language, seeds, wishes):
    """What is said of a change of mind, and what is asked beside the point."""
    speaker = voices.voice(voice, language)
    for seed in seeds:
        rng = random.Random(f"{voice} {seed}")
        clause = rng.choice(wishes)
        question = asides(language)[rng.randrange(4) + 4 * (seed >= TRAINED)].asks
        change = speaker.say("change", rng, clause=clause)
        yield f"{change} {speaker.say('aside', rng, question=question)}"


def first_messages(voice, language, seeds, wishes):
    persona = Persona(name="Ann Lee", voice=voice, language=language)
    for seed in seeds:
        rng = random.Random(f"{voice} {seed}")
        email = f"user{rng.randrange(1000)}@example.org"
        fact = Fact(name="user.email", label="e-mail address", value=email, spoken=email)
        yield voices.opening(persona, [rng.choice(wishes)], [fact][: rng.randint(0, 1)], rng)


@pytest.mark.parametrize("language", languages())
@pytest.mark.parametrize("messages", [first_messages, later_messages])
def test_a_simple_classifier_tells_the_voices_apart_by_their_words(messages, language):
    """Held out are the wishes, the addresses and the draws; at least five voices, over 90 %."""
    names = voices.names(language)
    assert len(names) >= 5
    half = len(WISHES) // 2
    trained = [
        (name, text)
        for name in names
        for text in messages(name, language, range(TRAINED), WISHES[:half])
    ]
    model = NaiveBayes(trained)
    right = Counter()
    for name in names:
        seeds = range(TRAINED, TRAINED + HELD_OUT)
        for text in messages(name, language, seeds, WISHES[half:]):
            right[name] += model.guess(text) == name
    shares = {name: right[name] / HELD_OUT for name in names}
    assert sum(right.values()) / (HELD_OUT * len(names)) >= 0.9, shares
    assert min(shares.values()) >= 0.8, shares
