"""A run folder: the files that are the truth about one generation run.

    config.json          the resolved configuration, the keys of the applications and prompts it was
                         run with, and the fingerprint of all that
    plan.jsonl           every episode that shall exist, in order, with its whole task
    agents.jsonl         the agents the plan refers to
    episodes-0.jsonl     one finished episode a line: trajectory and verdict
    failures-0.jsonl     one line for each time that the infrastructure broke an episode
    calls-0.jsonl        every reply of a model and what it cost (see `synth.core.llm.journal`)
    report.json, .md     what came of it, written at the end
    shards/              what workers on other machines wrote, until it is merged into these files
                         (see `synth.pipeline.shards`); their journals become calls-1.jsonl, …

Every row begins with the checksum of the rest. Resume trusts these files only. The plan grows
deterministically from the configuration, so a plan row lost to a crash is made again. Finished
episodes are never played again; broken ones are, and meet the replies that they already had.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
from pydantic import Field

from synth.core import jsonl
from synth.core.canonical import content_key
from synth.core.config import Config
from synth.core.errors import BadInput, BadRow
from synth.core.happenings import Schedule
from synth.core.imagined import Imagined
from synth.core.locks import lock_folder
from synth.core.types import Agent, Frozen, Task, Trajectory, Verdict
from synth.fork import Prefix
from synth.rowfile import RowFile, again, read_rows, sealed


class Planned(Frozen):
    """One episode that shall exist."""

    episode: str
    """Content key of task, seed, configuration fingerprint and sample index."""
    index: int
    """Place in the plan, from 0."""
    world: str
    agent: str
    """Key of the agent."""
    task: Task
    seed: int
    sample: int = 0
    rejected: dict[str, int] = {}
    """Candidates that were given up on the way to this one, by reason."""
    decoys: dict[str, tuple[int, int]] = {}
    """Wrong solution -> how often the gate tried it on these candidates, how often it failed."""
    prefix: Prefix | None = None
    """What is kept of the episode that it is a fork of, if it is one."""
    schedule: Schedule | None = Field(default=None, exclude_if=lambda found: found is None)
    """What happens by itself, where clocks move; forks keep their origin's."""


class Episode(Frozen):
    """One finished episode."""

    trajectory: Trajectory
    verdict: Verdict
    imagined: Imagined | None = Field(default=None, exclude_if=lambda found: found is None)
    """Where a model played the tools: each call, and how far it was from the truth."""


class Failure(Frozen):
    """One time that the infrastructure broke an episode: no result, it is played again."""

    episode: str
    error: str


def episode_id(task: Task, seed: int, fingerprint: str, sample: int = 0) -> str:
    """Return the identity of an episode."""
    return content_key([task.key, seed, fingerprint, sample], digits=16)


class Episodes:
    """The finished episodes of a run folder, by identity; of one that is there twice, the last.

    Args:
        folder: every `episodes-*.jsonl` is read, the first is written.
        writable: False for the files of another process.

    Raises:
        BadRow: a row is damaged; names file and line.
    """

    def __init__(self, folder: Path, *, writable: bool = True) -> None:
        self._files: list[RowFile[Episode]] = []
        self._places: dict[str, int] = {}
        own = folder / "episodes-0.jsonl"
        for path in (own, *sorted(set(folder.glob("episodes-*.jsonl")) - {own})):
            number = len(self._files)

            def note(episode: Episode, place: int, number: int = number) -> None:
                self._places[episode.trajectory.episode] = place << 16 | number

            mine = writable and path == own
            self._files.append(RowFile(path, Episode, seen=note, writable=mine))

    def append(self, episode: Episode) -> None:
        """Append a finished episode."""
        self._places[episode.trajectory.episode] = self._files[0].append(episode) << 16

    def get(self, episode: str) -> Episode | None:
        """Return an episode, if it is finished."""
        place = self._places.get(episode)
        return None if place is None else self._files[place & 0xFFFF][place >> 16]

    def __contains__(self, episode: object) -> bool:
        """Say whether an episode is finished."""
        return episode in self._places

    def __len__(self) -> int:
        """Return how many are finished."""
        return len(self._places)

    def __iter__(self) -> Iterator[Episode]:
        """Yield all of them."""
        for number, file in enumerate(self._files):
            for place, episode in enumerate(file):
                if self._places[episode.trajectory.episode] == place << 16 | number:
                    yield episode

    def close(self) -> None:
        """Sync and close."""
        for file in self._files:
            file.close()


class Run:
    """An open run folder. One process at a time; a second one is refused.

    Args:
        path: the folder; made if absent.
        config: the resolved configuration. An existing run must have the same fingerprint.
        made_of: name -> content key of the applications and prompts it is run with.

    Raises:
        BadInput: the run was made with another configuration, or with other applications or
            prompts; says which.
        ToolloomError: another process has the run open.
    """

    def __init__(
        self, path: Path, config: Config, made_of: Mapping[str, str] | None = None
    ) -> None:
        self.path, self.config, self.made_of = path, config, dict(made_of or {})
        self.fingerprint = config.fingerprint(self.made_of)
        self._lock = lock_folder(path, "run")
        try:
            self._check_config()
            self.plan = RowFile(path / "plan.jsonl", Planned, seen=self._check_place)
            self.agents: dict[str, Agent] = {agent.key: agent for agent in read_agents(path)}
            self.episodes = Episodes(path)
            self.failures = failures_of(path)
            """Episode -> why the infrastructure broke it, each time."""
            self._agent_file = jsonl.Appender(path / "agents.jsonl")
            self._failure_file = jsonl.Appender(path / "failures-0.jsonl")
        except BaseException:
            os.close(self._lock)
            raise

    def _check_place(self, planned: Planned, place: int) -> None:
        if planned.index != place:
            file = self.path / "plan.jsonl"
            what = f"here place {place} of the plan should stand, not {planned.index}"
            raise BadRow(what, where=f"{file}:{place + 1}", remedy=again(file))

    def _check_config(self) -> None:
        file = self.path / "config.json"
        new = {
            "fingerprint": self.fingerprint,
            "made_of": self.made_of,
            "config": self.config.model_dump(mode="json"),
        }
        if is_empty(self.path):  # what never began binds nobody to its settings
            (self.path / "tools.json").unlink(missing_ok=True)
            jsonl.write_atomic(file, orjson.dumps(new, option=orjson.OPT_INDENT_2))
            return
        old = read_settings(file)
        if old["fingerprint"] != self.fingerprint:
            found = self.config.differences(old["config"])
            found += _changed(old["made_of"], self.made_of)
            raise BadInput(
                "this run was started with other settings: " + "; ".join(found),
                where=str(self.path),
                remedy="give the same settings, or another --run name",
            )

    def add_plan(self, planned: Planned, agent: Agent) -> None:
        """Append an episode to the plan, and its agent if it is new."""
        self.add_agent(agent)
        self.plan.append(planned)

    def add_agent(self, agent: Agent) -> None:
        """Append an agent if it is new."""
        if agent.key not in self.agents:
            self._agent_file.append(sealed(agent))
            self.agents[agent.key] = agent

    def add_episode(self, episode: Episode) -> None:
        """Append a finished episode."""
        self.episodes.append(episode)

    def add_failure(self, failure: Failure) -> None:
        """Append a time that the infrastructure broke an episode."""
        self._failure_file.append(sealed(failure))
        self.failures.setdefault(failure.episode, []).append(failure.error)

    def write_report(self, report: dict[str, Any], page: str) -> None:
        """Write report.json, and report.md for people."""
        jsonl.write_atomic(self.path / "report.md", page.encode())
        data = orjson.dumps(report, option=orjson.OPT_INDENT_2)
        jsonl.write_atomic(self.path / "report.json", data)

    def close(self) -> None:
        """Sync the files and let others in."""
        for file in (self._agent_file, self.plan, self.episodes, self._failure_file):
            file.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _changed(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Say which of the things a run is made of are others now."""
    names = sorted(before.keys() | now.keys())
    return [
        f"{name} {'is gone' if name not in now else 'changed' if name in before else 'is new'}"
        for name in names
        if before.get(name) != now.get(name)
    ]


def is_empty(path: Path) -> bool:
    """Say whether nothing of a run is in its folder, as when nobody was there to play it."""
    rows = any(file.stat().st_size for file in path.glob("*.jsonl"))
    return not rows and not (path / "shards").exists()


class Written:
    """The files of a run folder as they are now, to read only: the run may be going on.

    Args:
        path: the folder.

    Raises:
        BadInput: it is no run folder.
        BadRow: a row is damaged; names file and line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fingerprint = str(read_settings(path / "config.json")["fingerprint"])
        self.plan = RowFile(path / "plan.jsonl", Planned, writable=False)
        self.agents = {agent.key: agent for agent in read_agents(path)}
        self.failures = failures_of(path)
        self.episodes = Episodes(path, writable=False)


def failures_of(path: Path) -> dict[str, list[str]]:
    """Return episode -> why the infrastructure broke it, each time; raises as `read_plan`."""
    found: dict[str, list[str]] = {}
    for failure in read_failures(path):
        found.setdefault(failure.episode, []).append(failure.error)
    return found


def read_settings(file: Path) -> dict[str, Any]:
    """Return what config.json says of a run: fingerprint, made_of, config.

    Raises:
        BadInput: there is no such file.
        BadRow: it says something else.
    """
    if not file.is_file():
        what = "the run has no configuration"
        raise BadInput(what, where=str(file), remedy="name a run with --run")
    try:
        found = orjson.loads(file.read_bytes())
        shape = {"fingerprint": str, "made_of": dict, "config": dict}
        return {name: kind(found[name]) for name, kind in shape.items()}
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise BadRow(f"not a run's configuration: {error!r}", where=str(file)) from error


def read_plan(path: Path) -> Iterator[Planned]:
    """Yield the plan of a run folder.

    Raises:
        BadRow: a row does not validate; names file and line.
    """
    yield from read_rows(path / "plan.jsonl", Planned)


def read_agents(path: Path) -> Iterator[Agent]:
    """Yield the agents of a run folder; raises as `read_plan`."""
    yield from read_rows(path / "agents.jsonl", Agent)


def agent_of(planned: Planned, agents: Mapping[str, Agent], path: Path) -> Agent:
    """Return the agent of a plan row of the run folder `path`.

    Raises:
        BadRow: the agent's row is lost.
    """
    agent = agents.get(planned.agent)
    if agent is None:
        raise BadRow(
            f"the agent of episode {planned.index} of the plan is missing: {planned.agent}",
            where=str(path / "agents.jsonl"),
            remedy="repeat the command that made the run: it makes it again",
        )
    return agent


def read_episodes(path: Path) -> Iterator[Episode]:
    """Yield the finished episodes of a run folder; raises as `read_plan`."""
    for file in sorted(path.glob("episodes-*.jsonl")):
        yield from read_rows(file, Episode)


def read_failures(path: Path) -> Iterator[Failure]:
    """Yield how the infrastructure broke episodes of a run folder; raises as `read_plan`."""
    for file in sorted(path.glob("failures-*.jsonl")):
        yield from read_rows(file, Failure)
