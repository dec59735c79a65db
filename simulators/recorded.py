"""An environment made of records: it answers the calls that were made, and no others.

For replays without the server, sandbox or model that answered, and for forks of such episodes: as
long as the calls come in the recorded order they get the recorded results, and a call that is made
again on the same state gets what it got there. What was never asked of a state is refused by name
(`not_recorded`): nobody can know.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jsonschema_rs
import orjson

from synth.core import schemas
from synth.core.canonical import canonical, content_key
from synth.core.errors import BadInput, BadRow, ToolloomError
from synth.core.types import CallError, Diff, ToolResult, ToolSpec, Trajectory

UNRECORDED = CallError(
    code="not_recorded", message="The record has no such call on this state, and nobody to ask."
)
_FORMAT = "toolloom/recorded/1"
_START: Diff = ()


@dataclass(frozen=True, slots=True)
class Taped:
    """One recorded call.

    Args:
        name: of the tool.
        arguments: canonical JSON.
        result: what it returned.
        state: key of the diff after it.
    """

    name: str
    arguments: str
    result: ToolResult
    state: str


@dataclass(frozen=True, slots=True)
class Tape:
    """Calls in order, from one start.

    Args:
        seed: of the state at the start.
        calls: that came to the environment.
        diffs: those that are known, by their keys.
    """

    seed: int
    calls: tuple[Taped, ...]
    diffs: Mapping[str, Diff]


def tape(trajectory: Trajectory, state_seed: int) -> Tape:
    """Return the calls of an episode that came to its environment.

    Args:
        trajectory: the episode.
        state_seed: the state that it started from.

    Raises:
        BadRow: the record contradicts itself: its last write does not lead to its final state.
    """
    state = content_key(_START)
    calls = []
    for step in trajectory.steps:
        error = step.result.error
        if step.call.value is None or (error is not None and error.code == "unknown_tool"):
            continue  # refused before it came there
        state = state if step.state is None else step.state
        arguments = canonical(step.call.value)
        calls.append(Taped(step.call.name, arguments, step.result, state))
    end = content_key(trajectory.diff)
    if trajectory.fault is None and state != end:
        raise BadRow(
            "the final state is not that after the last write",
            where=f"episode {trajectory.episode}",
            remedy="restore the file from a copy",
        )
    return Tape(state_seed, tuple(calls), {content_key(_START): _START, end: trajectory.diff})


class Recorded:
    """Implements `synth.core.protocols.Environment`.

    A record holds the key of the diff after each call, and the diff itself of the start and the
    end. Where only the key is known, `diff` is a line that names it: diffs are still equal where
    states are.

    Args:
        tapes: of one world; those of one seed are known together, the first one leads.
        specs: the tools that were on offer.
        real: whether they ran on a real server.
    """

    def __init__(
        self, tapes: Iterable[Tape], specs: Sequence[ToolSpec], *, real: bool = False
    ) -> None:
        self.real = real
        self._specs = {spec.name: spec for spec in specs}
        self._validators = {spec.name: _validator(spec) for spec in specs}
        self._leading: dict[int, Tape] = {}
        self._known: dict[str, list[Taped]] = {}
        self._diffs: dict[str, Diff] = {}
        for one in tapes:
            self._leading.setdefault(one.seed, one)
            self._diffs |= one.diffs
            state = content_key(_START)
            for call in one.calls:
                place = _place(one.seed, state, call.name, call.arguments)
                self._known.setdefault(place, []).append(call)
                state = call.state
        self._seed: int | None = None
        self._at = 0
        """Calls of the leading tape that were made in order; -1 once another one was made."""
        self._state = content_key(_START)
        self._asked: Counter[str] = Counter()
        """How often each call was made on each state since `reset`."""
        self._closed = False

    async def reset(self, seed: int) -> None:
        """Start over from the state that `seed` names; there may be no record of it.

        Raises:
            ToolloomError: the environment is closed.
        """
        if self._closed:
            raise ToolloomError("the environment is closed", remedy="make a new one")
        self._seed, self._at, self._state = seed, 0, content_key(_START)
        self._asked.clear()

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools that were on offer."""
        return tuple(self._specs.values())

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Return what the call returned when it was recorded."""
        seed = self._ready()
        if name not in self._specs:
            return _failed(CallError(code="unknown_tool", message=f"There is no tool {name!r}."))
        try:
            said = canonical(dict(arguments) if isinstance(arguments, Mapping) else arguments)
        except (ValueError, RecursionError):
            said = ""
        found = self._next(seed, name, said)
        if found is None:
            return _failed(self._objection(name, arguments) or UNRECORDED)
        self._state = found.state
        return found.result

    def _next(self, seed: int, name: str, arguments: str) -> Taped | None:
        leading = self._leading.get(seed)
        place = _place(seed, self._state, name, arguments)
        number = self._asked[place]
        ahead = leading.calls[self._at : self._at + 1] if leading and self._at >= 0 else ()
        if ahead and (ahead[0].name, ahead[0].arguments) == (name, arguments):
            self._at += 1
            self._asked[place] += 1
            return ahead[0]
        known = self._known.get(place)
        if known is None:
            return None
        found = known[min(number, len(known) - 1)]
        self._asked[place] += 1
        if found.state != self._state:
            self._at = -1  # the course is another one from here on
        return found

    def _objection(self, name: str, arguments: Any) -> CallError | None:
        """Say what is wrong with arguments that nobody was asked about."""
        if not isinstance(arguments, Mapping):
            message = "The arguments are no object."
            return CallError(code="invalid_arguments", message=message)
        validator = self._validators[name]
        try:
            for error in validator.iter_errors(dict(arguments)) if validator else ():
                return CallError(code="invalid_arguments", message=error.message[:300])
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            return CallError(code="invalid_arguments", message=str(error).splitlines()[0][:300])
        properties = self._specs[name].parameters.get("properties")
        unknown = [n for n in arguments if isinstance(properties, Mapping) and n not in properties]
        if unknown:
            message = f"There is no parameter {unknown[0]!r}."
            return CallError(code="invalid_arguments", message=message)
        return None

    async def diff(self) -> Diff:
        """Return the net change since `reset`, or a line that names it."""
        self._ready()
        found = self._diffs.get(self._state)
        return (canonical(["recorded", "state", None, self._state]),) if found is None else found

    async def snapshot(self) -> bytes:
        """Return where the record is."""
        whole = [_FORMAT, self._ready(), self._at, self._state, dict(self._asked)]
        return canonical(whole).encode()

    async def restore(self, state: bytes) -> None:
        """Go back to a snapshot.

        Raises:
            BadInput: it is none of a record.
        """
        try:
            form, seed, at, key, asked = orjson.loads(state)
            asked = Counter(dict(asked))
            wrong = form != _FORMAT
        except (ValueError, TypeError):
            wrong = True
        if wrong:
            what = "this is no snapshot of a recorded environment"
            raise BadInput(what, where="restore", remedy="give one that it made")
        self._seed, self._at, self._state, self._asked = seed, at, key, asked

    async def fork(self) -> Recorded:
        """Return an independent copy, which has the same record."""
        twin = Recorded((), tuple(self._specs.values()), real=self.real)
        twin._leading, twin._known, twin._diffs = self._leading, self._known, self._diffs
        await twin.restore(await self.snapshot())
        return twin

    async def close(self) -> None:
        """Give nothing back: there is nothing. Harmless when called twice."""
        self._closed = True

    def _ready(self) -> int:
        if self._closed or self._seed is None:
            what = "the environment is closed" if self._closed else "reset comes first"
            raise ToolloomError(what, where="a recorded environment")
        return self._seed


class Recorder:
    """Implements `Environment` around another one, and tapes what it answers.

    Args:
        environment: the one; it is closed with this one.
    """

    def __init__(self, environment: Any) -> None:
        self.real = bool(environment.real)
        self._environment = environment
        self._seed, self._calls = 0, list[Taped]()
        self._diffs: dict[str, Diff] = {}

    async def reset(self, seed: int) -> None:
        """Start over; the tape does, too."""
        await self._environment.reset(seed)
        self._seed, self._calls, self._diffs = seed, [], {content_key(_START): _START}

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer."""
        found: tuple[ToolSpec, ...] = self._environment.tools()
        return found

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Make a call and tape it."""
        result: ToolResult = await self._environment.call(name, arguments)
        diff = await self._environment.diff()
        self._diffs[content_key(diff)] = diff
        self._calls.append(Taped(name, canonical(dict(arguments)), result, content_key(diff)))
        return result

    def tape(self) -> Tape:
        """Return what was taped since `reset`."""
        return Tape(self._seed, tuple(self._calls), dict(self._diffs))

    async def diff(self) -> Diff:
        """Return the net change since `reset`."""
        found: Diff = await self._environment.diff()
        return found

    async def close(self) -> None:
        """Close the environment."""
        await self._environment.close()


def _place(seed: int, state: str, name: str, arguments: str) -> str:
    return content_key([seed, state, name, arguments])


def _failed(error: CallError) -> ToolResult:
    content = orjson.dumps({"error": error.code, "message": error.message}).decode()
    return ToolResult(ok=False, content=content, error=error)


def _validator(spec: ToolSpec) -> jsonschema_rs.Validator | None:
    try:
        return schemas.validator(spec.parameters)
    except schemas.BROKEN:
        return None  # the server knew what it took
