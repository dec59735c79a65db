"""How users and offline agents say things: phrase sets kept as data.

A voice is a YAML file `voices/LANGUAGE/user/NAME.yaml`, a small grammar: each symbol has
alternatives; `<symbol>` inserts another symbol, `{field}` a value given by the caller, and `|`
parts that are joined by a space where they are not empty. Values are inserted as they are and never
read as grammar, so a fact survives verbatim whatever it holds. Agents' styles lie in
`voices/LANGUAGE/agent/`. Another language is another folder, not another line of code.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from synth.core.errors import BadInput, UnknownName
from synth.core.hearing import hearing
from synth.core.speech import ENGLISH, speech
from synth.core.types import Fact, Persona

_FOLDER = Path(__file__).parent / "voices"
_STOPS = ".。"
_ENDED = re.compile(r"(?<![.])[.!?。！？][\"”»“」』]?$")
_TOKEN = re.compile(r"<([a-z_]+)>|\{([A-Za-z_]+)\}")

USER_SYMBOLS = frozenset({
    "opening", "want", "also", "and", "fact", "answer", "unknown", "which", "yes", "no",
    "correct", "repeat", "wait", "thanks", "resigned", "give_up",
    "aside", "change",
})  # fmt: skip
"""What every user's voice can say."""
AGENT_SYMBOLS = frozenset({
    "ask_one", "ask_many", "confirm", "confirm_next", "done", "told", "both", "refused",
    "unserved", "handed_over", "failed", "declined", "farewell", "outputs", "output",
    "beside",
})  # fmt: skip
"""What every agent's style can say."""


class Voice:
    """One phrase set.

    Args:
        name: as in `Persona.voice` or `Behaviour.style`.
        grammar: symbol -> alternatives.
        space: what parts sentences.

    Raises:
        BadInput: a symbol is missing, or an alternative uses one that does not exist.
    """

    def __init__(self, name: str, grammar: Mapping[str, Sequence[str]], space: str = " ") -> None:
        self.name, self._space = name, space
        self._grammar = {
            symbol: [_compile(text) for text in texts] for symbol, texts in grammar.items()
        }
        self.symbols = frozenset(self._grammar)
        for symbol, alternatives in self._grammar.items():
            for reference in _references(alternatives):
                if reference not in self._grammar:
                    raise BadInput(f"<{reference}> has no alternatives", where=f"{name}: {symbol}")

    def say(self, symbol: str, rng: random.Random, **fields: str) -> str:
        """Return one way to say `symbol`; every field the alternative uses must be given."""
        return self._expand(symbol, rng, fields)

    def _expand(self, symbol: str, rng: random.Random, fields: Mapping[str, str]) -> str:
        alternatives = self._grammar[symbol]
        # rng.random() is several times cheaper than rng.choice(), and this is a hot path.
        parts = alternatives[int(rng.random() * len(alternatives))]
        said = []
        for part in parts:
            text = ""
            for kind, value in part:
                if kind == "text":
                    # A value that ends a sentence ("… home.") needs no second full stop.
                    ended = value[0] in _STOPS and _ENDED.search(text) is not None
                    text += value[1:] if ended else value
                elif kind == "field":
                    text += fields[value]
                else:
                    text += self._expand(value, rng, fields)
            if text:
                said.append(text)
        return self._space.join(said)


_Part = tuple[tuple[str, str], ...]


def _compile(text: str) -> tuple[_Part, ...]:
    return tuple(tuple(_pieces(part)) for part in text.split("|"))


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    end = 0
    for match in _TOKEN.finditer(text):
        if match.start() > end:
            yield "text", text[end : match.start()]
        yield ("symbol", match[1]) if match[1] else ("field", match[2])
        end = match.end()
    if end < len(text):
        yield "text", text[end:]


def _references(alternatives: Sequence[tuple[_Part, ...]]) -> Iterator[str]:
    for parts in alternatives:
        for part in parts:
            yield from (value for kind, value in part if kind == "symbol")


# --- the files -------------------------------------------------------------------------------


def _names(language: str, side: str) -> tuple[str, ...]:
    found = tuple(sorted(path.stem for path in (_FOLDER / language / side).glob("*.yaml")))
    if not found:
        raise UnknownName("language", language, (path.name for path in _FOLDER.iterdir()))
    return found


@cache
def names(language: str = "en") -> tuple[str, ...]:
    """Return the names of all users' voices, sorted.

    Raises:
        UnknownName: no voice speaks `language`.
    """
    return _names(language, "user")


@cache
def styles(language: str = "en") -> tuple[str, ...]:
    """Return the names of all agents' styles, sorted.

    Raises:
        UnknownName: no style speaks `language`.
    """
    return _names(language, "agent")


@cache
def voice(name: str, language: str = "en") -> Voice:
    """Return a user's voice.

    Raises:
        UnknownName: no such voice; close names are suggested.
        BadInput: its file is broken.
    """
    if name not in names(language):
        raise UnknownName("voice", name, names(language))
    path = _FOLDER / language / "user" / f"{name}.yaml"
    return _load(path, USER_SYMBOLS, speech(language).space)


@cache
def style(name: str, language: str = "en") -> Voice:
    """Return an agent's style.

    Raises:
        UnknownName: no such style; close names are suggested.
        BadInput: its file is broken.
    """
    if name not in styles(language):
        raise UnknownName("style", name, styles(language))
    path = _FOLDER / language / "agent" / f"{name}.yaml"
    return _load(path, AGENT_SYMBOLS, speech(language).space)


def _load(path: Path, needed: frozenset[str], space: str) -> Voice:
    grammar: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    right = isinstance(grammar, dict) and all(
        isinstance(texts, list) and texts and all(isinstance(text, str) for text in texts)
        for texts in grammar.values()
    )
    if not right:
        raise BadInput("a voice maps symbols to lists of texts", where=path.name)
    if missing := needed - set(grammar):
        raise BadInput(f"symbols are missing: {', '.join(sorted(missing))}", where=path.name)
    return Voice(path.stem, grammar, space)


# --- what users say --------------------------------------------------------------------------

_OWN = re.compile(
    r"(first |last |full |family )?names?|(e-?mail|mail|home|postal|billing)?( ?address)?|e-?mail|"
    r"((new|old|mobile) )?(tele)?phone( number)?|date of birth|birthday|"
    r"(member|customer|account|client|patient|guest|user|card|policy) (number|id|name)"
)


def possessive(fact: Fact, language: str = "en") -> str:
    """Return how its owner calls a fact: `name` -> `my name`, `size of the box` -> `the size …`.

    Args:
        fact: anybody's.
        language: what its label is in. Other languages write labels with their article.
    """
    label = fact.label
    if language != ENGLISH.language:
        return speech(language).mine(label) if fact.name.startswith("user.") else label
    if label.startswith(("my ", "the ", "our ")):
        return label
    mine = fact.name.startswith("user.") or _OWN.fullmatch(label.lower())
    return f"my {label}" if mine else f"the {label}"


def fact_fields(fact: Fact, language: str = "en") -> dict[str, str]:
    """Return the fields that phrases about a fact may use."""
    mine, label = possessive(fact, language), speech(language).bare(fact.label)
    return {
        "label": label,
        "Label": label[:1].upper() + label[1:],
        "my": mine,
        "My": mine[0].upper() + mine[1:],
        "spoken": fact.spoken,
    }


def state(
    speaker: Voice, fact: Fact, rng: random.Random, symbol: str = "fact", *, language: str = "en"
) -> str:
    """Return a sentence that states `fact`; a voice may have special words for a name."""
    named = fact.name in ("user.name", "user.full_name") or fact.label in ("name", "full name")
    if named and symbol == "fact" and "name_fact" in speaker.symbols:
        symbol = "name_fact"
    return speaker.say(symbol, rng, **fact_fields(fact, language))


def wish(clause: str, language: str = "en") -> str:
    """Return a clause as it follows "I would like to": a bare question gets its "know"."""
    if hearing(language).has("question_clause", clause):
        return f"{speech(language).know}{clause}"
    return clause


def opening(
    persona: Persona, clauses: Sequence[str], facts: Sequence[Fact], rng: random.Random
) -> str:
    """Say the first message: what the user wants, and the facts it states.

    Args:
        persona: gives voice and language.
        clauses: what is wanted, each as it follows "I would like to" (see `wish`).
        facts: stated one by one; each `spoken` occurs verbatim.
        rng: the only source of chance.

    Raises:
        UnknownName: no such voice or language.
    """
    language = persona.language
    speaker = voice(persona.voice, language)
    wants: list[str] = []
    rest = [wish(clause, language) for clause in clauses]
    while rest:
        # Two wishes in one sentence now and then; three would not be understood.
        count = 2 if len(rest) > 1 and rng.random() < 0.5 else 1
        clause = speaker.say("and", rng, first=rest[0], second=rest[1]) if count > 1 else rest[0]
        wants.append(speaker.say("also" if wants else "want", rng, clause=clause))
        del rest[:count]
    stated = [state(speaker, fact, rng, language=language) for fact in facts]
    space = speech(language).space
    return speaker.say("opening", rng, wants=space.join(wants), facts=space.join(stated))
