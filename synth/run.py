"""A run folder: the files that are the truth about one generation run.

    config.json          the resolved configuration, the keys of the applications and prompts it was
                         run with, and the fingerprint of all that
    plan.jsonl           every episode that shall exist, in order, with its whole task
    agents.jsonl         the agents the plan refers to
    episodes-0.jsonl     one finished episode a line: trajectory and verdict
    failures-0.jsonl     one line for each time that the infrastructure broke an episode
    calls-0.jsonl        every reply of a model and what it cost (see `synth.core.llm.journal`)
    report.json, .md     what came of it, written at the end

Every row begins with the checksum of the rest. Resume trusts these files only. The plan grows
deterministically from the configuration, so a plan row lost to a crash is made again. Finished
episodes are never played again; broken ones are, and meet the replies that they already had.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import orjson
from pydantic import ValidationError

from synth.core import jsonl
from synth.core.canonical import content_key
from synth.core.config import Config
from synth.core.errors import BadInput, BadRow, ToolloomError
from synth.core.types import Agent, Frozen, Task, Trajectory, Verdict

Row = TypeVar("Row", bound=Frozen)
_SEAL = b'{"crc":"'
_HEAD = len(_SEAL) + 10


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


class Episode(Frozen):
    """One finished episode."""

    trajectory: Trajectory
    verdict: Verdict


class Failure(Frozen):
    """One time that the infrastructure broke an episode: no result, it is played again."""

    episode: str
    error: str


def episode_id(task: Task, seed: int, fingerprint: str, sample: int = 0) -> str:
    """Return the identity of an episode."""
    return content_key([task.key, seed, fingerprint, sample], digits=16)


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
        self._lock = _lock(path)
        try:
            self._check_config()
            self.plan = _in_order(path)
            self.agents: dict[str, Agent] = {agent.key: agent for agent in read_agents(path)}
            self.episodes: dict[str, Episode] = {
                episode.trajectory.episode: episode for episode in read_episodes(path)
            }
            self.failures: dict[str, list[str]] = {}
            """Episode -> why the infrastructure broke it, each time."""
            for failure in read_failures(path):
                self.failures.setdefault(failure.episode, []).append(failure.error)
            self._plan_file = jsonl.Appender(path / "plan.jsonl")
            self._agent_file = jsonl.Appender(path / "agents.jsonl")
            self._episode_file = jsonl.Appender(path / "episodes-0.jsonl")
            self._failure_file = jsonl.Appender(path / "failures-0.jsonl")
        except BaseException:
            os.close(self._lock)
            raise

    def _check_config(self) -> None:
        file = self.path / "config.json"
        new = {
            "fingerprint": self.fingerprint,
            "made_of": self.made_of,
            "config": self.config.model_dump(mode="json"),
        }
        if not file.exists():
            jsonl.write_atomic(file, orjson.dumps(new, option=orjson.OPT_INDENT_2))
            return
        old = _settings(file)
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
        self._plan_file.append(_sealed(planned))
        self.plan.append(planned)

    def add_agent(self, agent: Agent) -> None:
        """Append an agent if it is new."""
        if agent.key not in self.agents:
            self._agent_file.append(_sealed(agent))
            self.agents[agent.key] = agent

    def add_episode(self, episode: Episode) -> None:
        """Append a finished episode."""
        self._episode_file.append(_sealed(episode))
        self.episodes[episode.trajectory.episode] = episode

    def add_failure(self, failure: Failure) -> None:
        """Append a time that the infrastructure broke an episode."""
        self._failure_file.append(_sealed(failure))
        self.failures.setdefault(failure.episode, []).append(failure.error)

    def write_report(self, report: dict[str, Any], page: str) -> None:
        """Write report.json, and report.md for people."""
        jsonl.write_atomic(self.path / "report.md", page.encode())
        data = orjson.dumps(report, option=orjson.OPT_INDENT_2)
        jsonl.write_atomic(self.path / "report.json", data)

    def close(self) -> None:
        """Sync the files and let others in."""
        files = (self._agent_file, self._plan_file, self._episode_file, self._failure_file)
        for file in files:
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


def _lock(path: Path) -> int:
    try:
        path.mkdir(parents=True, exist_ok=True)
        fd = os.open(path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise jsonl.storage_error(error, path) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = os.pread(fd, 20, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise ToolloomError(
            f"another process (pid {holder}) works on this run",
            where=str(path),
            remedy="wait for it, or give another --run name",
        ) from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, str(os.getpid()).encode(), 0)
    return fd


def _settings(file: Path) -> dict[str, Any]:
    """Return what config.json says of a run: fingerprint, made_of, config."""
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
    yield from _rows(path / "plan.jsonl", Planned)


def read_agents(path: Path) -> Iterator[Agent]:
    """Yield the agents of a run folder; raises as `read_plan`."""
    yield from _rows(path / "agents.jsonl", Agent)


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
            remedy="repeat the generate command: it makes it again",
        )
    return agent


def read_episodes(path: Path) -> Iterator[Episode]:
    """Yield the finished episodes of a run folder; raises as `read_plan`."""
    for file in sorted(path.glob("episodes-*.jsonl")):
        yield from _rows(file, Episode)


def read_failures(path: Path) -> Iterator[Failure]:
    """Yield how the infrastructure broke episodes of a run folder; raises as `read_plan`."""
    for file in sorted(path.glob("failures-*.jsonl")):
        yield from _rows(file, Failure)


def _in_order(path: Path) -> list[Planned]:
    """Return the whole plan.

    Raises:
        BadRow: a row is missing, or stands where it should not.
    """
    plan = list(read_plan(path))
    for place, planned in enumerate(plan):
        if planned.index != place:
            file = path / "plan.jsonl"
            what = f"here place {place} of the plan should stand, not {planned.index}"
            raise BadRow(what, where=f"{file}:{place + 1}", remedy=_again(file))
    return plan


def _sealed(row: Frozen) -> bytes:
    """Return a row as JSON whose first member is the checksum of the others."""
    data = row.model_dump_json().encode()
    return b'{"crc":"%08x",' % zlib.crc32(data) + data[1:]


def _rows(path: Path, model: type[Row]) -> Iterator[Row]:
    """Yield the rows of a file. One without a checksum, as people write it, is taken as it is."""
    for number, line in jsonl.lines(path):
        where = f"{path}:{number}"
        if line.startswith(_SEAL):
            data = b"{" + line[_HEAD:].rstrip(b"\n")
            if line[:_HEAD] != b'{"crc":"%08x",' % zlib.crc32(data):
                raise BadRow(
                    "the row is damaged: its checksum differs", where=where, remedy=_again(path)
                )
            line = data
        try:
            yield model.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            what = f"{place}: {first['msg']}" if place else first["msg"]
            raise BadRow(what, where=where, remedy=_again(path)) from error


def _again(path: Path) -> str:
    """Say what to do about a row: each file is made again from the others and the configuration."""
    more = " and all after it" if path.name.startswith("plan") else ""
    return f"remove that line{more}, and repeat the generate command: it makes them again"
