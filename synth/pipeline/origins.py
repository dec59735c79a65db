"""What forks are made from: a run of others, read only, and what is wanted of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from synth.core import voices
from synth.core.config import Config, changes
from synth.core.errors import BadConfig, BadInput, BadRow, UnknownName
from synth.core.seeds import rng
from synth.core.types import Agent, Persona, Task
from synth.personas import sample_persona
from synth.pipeline.replay import config_of
from synth.run import Episode, Planned, Written, read_settings

Which = Literal["any", "accepted", "failed"]
WHICH: tuple[Which, ...] = ("any", "accepted", "failed")
LAST_GOOD, RANDOM, OTHER = "last-good", "random", "other"
_PLACE = re.compile(r"(?:(?P<messages>message):)?(?P<number>[0-9]{1,9})")
_FREE = ("seed", "generate.errors.", "generate.outcomes.", "generate.limits.", "models.", "budget.",
         "train.")  # fmt: skip
"""Settings that may be others in a fork: tasks are made, and stay what they are."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be forked, and how."""

    episodes: tuple[str, ...] = ()
    """Identities, or how they begin; none is all of them."""
    which: Which = "any"
    """`failed` are those that the agent failed."""
    share: float = 1.0
    """Of those, drawn from the seed."""
    at: str = LAST_GOOD
    """`3` calls or `message:5` messages kept, `last-good`, or `random`."""
    copies: int = 1
    """Forks of each place."""
    persona: str | None = None
    """A voice for the user, or `other` for another person; None leaves them as they are."""

    def __post_init__(self) -> None:
        if self.at not in (LAST_GOOD, RANDOM) and not _PLACE.fullmatch(self.at):
            raise BadInput(
                f"not a place in an episode: {self.at!r}",
                where="--at",
                remedy=f"a number of calls, message:N, {LAST_GOOD} or {RANDOM}",
            )

    def __str__(self) -> str:
        """Return it in words: runs that differ in it are not one."""
        who = ", ".join(self.episodes) or f"{self.share:g} of {self.which}"
        voice = f", persona {self.persona}" if self.persona else ""
        return f"{who}, at {self.at}, {self.copies} of each{voice}"

    def place(self) -> tuple[str, int] | None:
        """Return a number of `calls` or of `messages`; None where it is looked for or drawn."""
        found = _PLACE.fullmatch(self.at)
        if found is None:
            return None
        return "messages" if found["messages"] else "calls", int(found["number"])


class Origin:
    """A run whose episodes are forked.

    Args:
        folder: of the run; it is only read, and may be going on.

    Raises:
        BadInput: it is no run, or has no finished episode.
        BadRow: a row is damaged; names file and line.
    """

    def __init__(self, folder: Path) -> None:
        settings = read_settings(folder / "config.json")
        self.folder, self.name = folder, folder.name
        self.made_of: dict[str, str] = settings["made_of"]
        self.config: Config = config_of(settings["config"], folder, "fork")
        self._files = Written(folder)
        if not len(self._files.episodes):
            what = "the run has no finished episode"
            raise BadInput(what, where=str(folder), remedy="repeat the command that made it")

    @property
    def fingerprint(self) -> str:
        """Return the fingerprint of the run."""
        return self._files.fingerprint

    def chosen(self, wish: Wish, seed: int) -> Iterator[tuple[Planned, Episode]]:
        """Yield the finished episodes that a wish is for, in plan order.

        Args:
            wish: which.
            seed: of the run of the forks.

        Raises:
            BadInput: an episode that is named is not there, not finished, or two begin like that.
        """
        names = self._named(wish.episodes)
        for planned in self._files.plan:
            if names and planned.episode not in names:
                continue
            episode = self._files.episodes.get(planned.episode)
            if episode is None:
                continue
            drawn = rng(seed, "fork", "share", planned.episode).random() < wish.share
            if names or (drawn and _is(episode, wish.which)):
                yield planned, episode

    def agent(self, key: str) -> Agent:
        """Return the agent of an episode.

        Raises:
            BadRow: its row is lost.
        """
        agent = self._files.agents.get(key)
        if agent is None:
            file = self.folder / "agents.jsonl"
            what = f"the agent {key} of an episode is missing"
            raise BadRow(what, where=str(file), remedy="repeat the command that made it")
        return agent

    def _named(self, wanted: Sequence[str]) -> set[str]:
        if not wanted:
            return set()
        known = [planned.episode for planned in self._files.plan]
        names = set()
        for name in wanted:
            found = [episode for episode in known if name and episode.startswith(name)]
            if not found:
                raise UnknownName("episode", name, known)
            if len(found) > 1:
                what = f"{len(found)} episodes begin with {name!r}"
                raise BadInput(what, where=self.name, remedy=f"e.g. {found[0]}")
            if found[0] not in self._files.episodes:
                what = f"the episode {found[0]} is not finished"
                raise BadInput(what, where=self.name, remedy="repeat the command that made it")
            names.add(found[0])
        return names


def _is(episode: Episode, which: Which) -> bool:
    verdict = episode.verdict
    if which == "failed":
        return verdict.passed is False and verdict.broken_by is None
    return which == "any" or verdict.passed is True


def changed_settings(origin: Config, config: Config) -> tuple[str, ...]:
    """Return what the configuration of forks changes, `key: old -> new`.

    Raises:
        BadConfig: it changes what forks have from their origin.
    """
    before, now = origin.model_dump(mode="json"), config.model_dump(mode="json")
    for line in changes(before, now):
        if not line.startswith(tuple(free if free[-1] == "." else f"{free}:" for free in _FREE)):
            raise BadConfig(
                f"{line.partition(':')[0]} is the origin's: the tasks of forks are made",
                where="--set",
                remedy=f"these can be changed: {', '.join(free.strip('.') for free in _FREE)}",
            )
    return tuple(config.differences(before))


def with_persona(task: Task, wish: str | None, *path: str | int) -> tuple[Task, tuple[str, ...]]:
    """Return a task with another person as its user, and what is other about them.

    The name stays: it may be that of a row. What they said before the fork stays too.

    Args:
        task: the task.
        wish: a voice, or `other`; None leaves them as they are.
        *path: of the seed that draws another one.

    Raises:
        UnknownName: nobody speaks like that.
    """
    if wish is None:
        return task, ()
    was, language = task.persona, task.persona.language
    known = voices.names(language)
    if wish == OTHER:
        draw, voice = rng(*path, "persona"), was.voice
        while voice == was.voice:
            other = sample_persona(draw, language=language)
            voice = other.voice
        persona = Persona(name=was.name, voice=voice, language=language, traits=other.traits)
    elif wish in known:
        persona = Persona(name=was.name, voice=wish, language=language, traits=was.traits)
    else:
        raise UnknownName("voice", wish, (*known, OTHER))
    before, now = was.model_dump(mode="json"), persona.model_dump(mode="json")
    changed = tuple(f"persona.{line}" for line in changes(before, now))
    fields = {name: getattr(task, name) for name in Task.model_fields}
    return Task(**{**fields, "persona": persona}), changed
