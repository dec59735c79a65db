"""An object of another project behind the `Environment` protocol.

Its public methods are the tools, its public attributes the state. THE CODE OF THAT PROJECT RUNS IN
THIS PROCESS, with all that this process may do: use classes that you would import anyway. What a
model writes is never evaluated: a call is looked up by name and its arguments are validated against
the signature.

A call that fails is taken back. A snapshot is the seed and the calls that succeeded since, as JSON;
restoring makes them again, in any process where the class behaves alike.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs
import orjson

from simulators.foreign.state import Parts, changes, parts_of, plain
from synth.core import schemas
from synth.core.canonical import canonical
from synth.core.errors import BadInput, ToolloomError
from synth.core.types import CallError, Diff, ToolResult, ToolSpec

_FORMAT = "toolloom/foreign/1"
MAX_MESSAGE = 300
"""Characters of an error that an agent is shown."""


class Kind:
    """What all environments of one class have in common.

    Args:
        name: of the class, for the record.
        specs: its tools.
        make: seed -> a new object in the state that the seed names; same seed, same state.
        failed: result -> why the call failed, for classes that return errors; None where it did
            not. An exception always is a failure.
    """

    def __init__(
        self,
        name: str,
        specs: tuple[ToolSpec, ...],
        make: Callable[[int], Any],
        failed: Callable[[Any], str | None] = lambda result: None,
    ) -> None:
        self.name, self.specs, self.make, self.failed = name, specs, make, failed
        self.validators: dict[str, jsonschema_rs.Validator] = {
            spec.name: schemas.validator(spec.parameters) for spec in specs
        }


class ForeignEnvironment:
    """Implements `synth.core.protocols.Environment`.

    Args:
        kind: the class.
    """

    real = False

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._subject: Any = None
        self._seed = 0
        self._calls: list[bytes] = []
        """Those that succeeded since `reset`, as JSON."""
        self._base: Parts = {}
        self._looked: tuple[Parts, Diff] = ({}, ())
        """The state that was last compared with the beginning, and what had changed."""

    async def reset(self, seed: int) -> None:
        """Start over from the state that `seed` names.

        Raises:
            ToolloomError: the class cannot make it.
        """
        try:
            self._subject = self._kind.make(seed)
        except Exception as error:
            what = f"no state can be made: {type(error).__name__}: {error}"
            raise ToolloomError(what, where=self._kind.name) from error
        self._base = parts_of(self._subject)
        self._looked = (self._base, ())
        self._seed, self._calls = seed, []

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer."""
        return self._kind.specs

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Run one call. All of it happens or none of it."""
        subject = self._ready()
        validator = self._kind.validators.get(name)
        if validator is None:
            return _failure("unknown_tool", f"There is no tool {name!r}.")
        try:
            text = canonical([name, dict(arguments)]) if isinstance(arguments, Mapping) else ""
        except ValueError:
            text = ""
        if not text:
            return _failure("invalid_arguments", "The arguments are no JSON object.")
        given = json.loads(text)[1]  # the object may keep what it is given: it gets its own
        problem = _problem(validator, given)
        if problem is not None:
            return _failure("invalid_arguments", problem)
        before = pickle.dumps(subject)  # ours alone: nothing from outside is ever loaded
        done = False
        try:
            result = getattr(subject, name)(**given)
            why = self._kind.failed(result)
            done = why is None
        except (Exception, SystemExit) as error:
            why = f"{type(error).__name__}: {error}"
        finally:
            if not done:
                self._subject = pickle.loads(before)
        if why is not None:
            return _failure("failed", why[:MAX_MESSAGE])
        self._calls.append(text.encode())
        return ToolResult(ok=True, content=_content(result))

    async def diff(self) -> Diff:
        """Return the net change since `reset`."""
        now = parts_of(self._ready())
        if now != self._looked[0]:
            self._looked = (now, changes(self._base, now))
        return self._looked[1]

    async def snapshot(self) -> bytes:
        """Return the seed and the calls since."""
        self._ready()
        head = {"format": _FORMAT, "class": self._kind.name, "seed": self._seed}
        return b"\n".join([orjson.dumps(head), *self._calls])

    async def restore(self, state: bytes) -> None:
        """Make the calls of a snapshot again.

        Raises:
            BadInput: it is none, one of another class, or its calls do not succeed any more.
        """
        head, *calls = state.split(b"\n")
        try:
            facts, made = json.loads(head), [json.loads(call) for call in calls]
            seed, wrong = int(facts["seed"]), facts["format"] != _FORMAT
            pairs = [(str(name), dict(arguments)) for name, arguments in made]
        except (ValueError, TypeError, KeyError):
            raise BadInput("this is no snapshot of a foreign object") from None
        if wrong or facts["class"] != self._kind.name:
            raise BadInput("the snapshot is of another class", where=self._kind.name)
        await self.reset(seed)
        for name, arguments in pairs:
            if not (await self.call(name, arguments)).ok:
                raise BadInput(f"the snapshot's call of {name!r} fails", where=self._kind.name)

    async def fork(self) -> ForeignEnvironment:
        """Return an independent copy of the current state; its `diff` counts from `reset` too."""
        twin = ForeignEnvironment(self._kind)
        twin._subject = pickle.loads(pickle.dumps(self._ready()))
        twin._seed, twin._calls = self._seed, self._calls.copy()
        twin._base, twin._looked = self._base, self._looked
        return twin

    async def close(self) -> None:
        """Let the object go. Harmless when called twice."""
        self._subject = None

    def _ready(self) -> Any:
        if self._subject is None:
            raise ToolloomError("reset comes first", where=self._kind.name)
        return self._subject


def _problem(validator: jsonschema_rs.Validator, arguments: dict[str, Any]) -> str | None:
    if validator.is_valid(arguments):
        return None
    found = next(iter(validator.iter_errors(arguments)))
    where = ".".join(str(part) for part in found.instance_path)
    said = found.message[:MAX_MESSAGE]
    return f"{where}: {said}" if where else said


def _content(result: Any) -> str:
    if result is None:
        return '{"done":true}'
    value = plain(result)
    return canonical(value if isinstance(value, dict) else {"result": value})


def _failure(code: str, message: str) -> ToolResult:
    said = plain(message)
    content = orjson.dumps({"error": code, "message": said}).decode()
    return ToolResult(ok=False, content=content, error=CallError(code=code, message=said))
