"""Tools that a model plays over a typed, persistent state (K2 report 3.1.1; papers 2.4).

The model says what changes and what is returned; code decides whether that can be. A reply that
does not fit the types, the references, the promises or the state itself is refused with the reason
and asked for again, twice at most; then the tool fails, which is nobody's failure. A patch is made
whole or not at all. The same call on the same state is answered as it was the first time, so that a
replay and a fork ask for nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import orjson

from simulators.imagined.asking import Asker, Scene, again, text_of
from simulators.imagined.drift import Twin, same
from simulators.imagined.excerpt import leaves
from simulators.imagined.patch import Call, Change, Refused, State, read_reply
from simulators.imagined.results import Observations, Result, of_spec
from synth.core.canonical import canonical, content_key
from synth.core.errors import BadInput, ToolloomError
from synth.core.imagined import Imagined, WorldCall
from synth.core.messages import ToolCall
from synth.core.protocols import LLM, Sampler
from synth.core.types import CallError, Diff, Effect, Scalar, ToolResult, ToolSpec, Usage

REPAIRS = 2
"""Replies asked for beyond the first."""
LOGGED = 6
"""Calls whose changes the model is shown."""
FAULT = CallError(code="tool_fault", message="The tool failed. Nothing was changed; try again.")
UNRECORDED = CallError(
    code="not_recorded", message="Nobody plays this tool, and the record has no such call."
)
_FORMAT = "toolloom/imagined/1"


@dataclass(frozen=True)
class Stage:
    """The tools of one world, and the state they are played on.

    Args:
        name: of the world.
        scene: what a model is told of it.
        specs: the tools on offer.
        state: makes a state.
        objection: says what is wrong with the arguments of a call, before any model is asked.
        results: what tools may return; what is not in it follows from the specification.
        twin: makes an executable twin, where there is one.
        user_specs: the tools that users hold.
    """

    name: str
    scene: Scene
    specs: Mapping[str, ToolSpec]
    state: Callable[[], State]
    objection: Callable[[State, str, Mapping[str, Any]], CallError | None]
    results: Mapping[str, Result] = field(default_factory=dict)
    twin: Callable[[], Twin] | None = None
    user_specs: Mapping[str, ToolSpec] = field(default_factory=dict)

    @cached_property
    def readers(self) -> dict[str, Observations]:
        """Return a reader of each tool's observations."""
        return {
            name: Observations(self.results.get(name) or of_spec(spec))
            for name, spec in {**self.specs, **self.user_specs}.items()
        }


@dataclass(slots=True)
class _Memory:
    """What was asked and answered: shared by an environment and its forks."""

    outcomes: dict[str, list[WorldCall]] = field(default_factory=dict)
    """Key of a call on a state -> what came of it, each time."""
    calls: list[WorldCall] = field(default_factory=list)
    """Those that were made here."""
    used: set[tuple[str, int]] = field(default_factory=set)
    usage: Usage | None = None


@dataclass(slots=True)
class _Asking:
    """A call that a model is asked about."""

    state: str
    """Key of the state before it."""
    before: bytes
    """Snapshot of that state."""
    wrote: bool
    refused: list[str] = field(default_factory=list)


class ImaginedEnvironment:
    """Implements `synth.core.protocols.Environment`.

    Args:
        stage: the world.
        llm: plays its tools; None answers from what is recalled only.
        sampler: how the model's tokens are drawn.
    """

    real = False

    def __init__(self, stage: Stage, llm: LLM | None, sampler: Sampler | None = None) -> None:
        self._stage, self._llm = stage, llm
        self._sampler = sampler or Sampler()
        self._asker = None if llm is None else Asker(llm, stage.scene, self._sampler)
        self._state = stage.state()
        self._readers = stage.readers
        self._twin = stage.twin() if stage.twin else None
        self._memory = _Memory()
        self._seed: int | None = None
        self._faults: Counter[str] = Counter()
        """Key of a call on a state -> how often the tool failed in it since `reset`."""
        self._log: list[Any] = []
        self._made: list[Call] = []
        """Calls that were answered since `reset`."""
        self._closed = False

    # --- the protocol ------------------------------------------------------------------------

    async def reset(self, seed: int) -> None:
        """Start over from the state that `seed` names."""
        if self._closed:
            raise ToolloomError("the environment is closed", remedy="make a new one")
        self._state.reset(seed)
        self._seed = seed
        self._faults.clear()
        self._log, self._made = [], []

    def tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools on offer."""
        return tuple(self._stage.specs.values())

    def user_tools(self) -> tuple[ToolSpec, ...]:
        """Return the tools that users hold."""
        return tuple(self._stage.user_specs.values())

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Have one call of the agent played.

        Raises:
            ModelFailed, BudgetSpent, DiskFull: the model; never a verdict on the agent.
        """
        return await self._call(self._stage.specs.get(name), Call(name, _plain(arguments)))

    async def act(self, user: Scalar, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Have one call played of the user whose row has the key `user`; raises as `call`."""
        call = Call(name, _plain(arguments), user, by_user=True)
        return await self._call(self._stage.user_specs.get(name), call)

    async def _call(self, spec: ToolSpec | None, call: Call) -> ToolResult:
        self._ready()
        if spec is None:
            said = f"There is no tool {call.name!r}."
            return _failed(CallError(code="unknown_tool", message=said))
        problem = _not_json(call.arguments)
        problem = problem or self._stage.objection(self._state, call.name, call.arguments)
        if problem is not None:
            return _failed(problem)
        state = self._state.key()
        key = content_key([state, call.key])
        outcomes = self._memory.outcomes.setdefault(key, [])
        number = self._faults[key]
        if number < len(outcomes):
            known = outcomes[number]
            result = FAULT if known.reply is None else self._recalled(call, known.reply)
        elif self._asker is None:
            return _failed(UNRECORDED)
        else:
            known, result = await self._ask(self._asker, spec, call, state)
            outcomes.append(known)
        if (key, number) not in self._memory.used:
            self._memory.used.add((key, number))
            self._memory.calls.append(known)
        if isinstance(result, CallError):
            self._faults[key] += 1
            return _failed(result)
        self._made.append(call)
        return result

    async def diff(self) -> Diff:
        """Return the net change since `reset`."""
        self._ready()
        return self._state.diff()

    async def snapshot(self) -> bytes:
        """Return the whole state: rows, counters of keys, log, and how often what failed."""
        self._ready()
        head = {
            "format": _FORMAT,
            "seed": self._seed,
            "faults": dict(sorted(self._faults.items())),
            "log": self._log,
            "made": [[c.name, c.arguments, c.user, c.by_user] for c in self._made],
        }
        return canonical(head).encode() + b"\n" + self._state.snapshot()

    async def restore(self, state: bytes) -> None:
        """Go back to a snapshot; `diff` still counts from the `reset` before it.

        Raises:
            BadInput: it is none of this world.
        """
        head, _, rows = state.partition(b"\n")
        try:
            facts = orjson.loads(head)
            faults, log = Counter(facts["faults"]), list(facts["log"])
            made = [Call(*call) for call in facts["made"]]
            seed, wrong = facts["seed"], facts["format"] != _FORMAT
        except (ValueError, TypeError, KeyError):
            wrong = True
        if wrong:
            what = "this is no snapshot of a world that a model plays"
            raise BadInput(what, where=self._stage.name, remedy="give one that it made")
        self._state.restore(rows)
        self._seed, self._faults, self._log, self._made = seed, faults, log, made

    async def fork(self) -> ImaginedEnvironment:
        """Return an independent copy, which is answered alike."""
        twin = ImaginedEnvironment(self._stage, self._llm, self._sampler)
        twin._memory = self._memory
        await twin.restore(await self.snapshot())
        return twin

    async def close(self) -> None:
        """Give everything back. Harmless when called twice."""
        self._closed = True
        self._state.close()
        if self._twin is not None:
            self._twin.close()

    def _ready(self) -> None:
        if self._closed or self._seed is None:
            what = "the environment is closed" if self._closed else "reset comes first"
            raise ToolloomError(what, where=self._stage.name)

    # --- the record --------------------------------------------------------------------------

    def recall(self, calls: Iterable[WorldCall]) -> None:
        """Remember what was answered elsewhere; it is not asked for again."""
        for known in calls:
            arguments = ToolCall(id="", name=known.tool, arguments=known.arguments).value
            if arguments is None:
                continue  # nobody made such a call
            call = Call(known.tool, arguments, known.user, known.by_user)
            key = content_key([known.state, call.key])
            self._memory.outcomes.setdefault(key, []).append(known)

    def record(self) -> Imagined:
        """Return what was asked and answered, and how far it was from the truth."""
        end = None
        if self._twin is not None and self._seed is not None and not self._closed:
            end = self._twin.course(self._seed, self._made) == self._state.diff()
        calls, usage = tuple(self._memory.calls), self._memory.usage
        return Imagined(who=self.who, calls=calls, end_equal=end, usage=usage)

    @property
    def who(self) -> str:
        """Who plays the tools: the model, with prompt and sampler."""
        return "nobody" if self._asker is None else self._asker.who

    # --- one call ----------------------------------------------------------------------------

    async def _ask(
        self, asker: Asker, spec: ToolSpec, call: Call, state: str
    ) -> tuple[WorldCall, ToolResult | CallError]:
        """Ask until a reply can be taken; return the record of it, and what it gives."""
        result = self._readers[spec.name].result
        request = asker.page(spec, result, call, self._state, self._log)
        asked = _Asking(state, request.state, wrote=bool(self._state.diff()))
        for _ in range(REPAIRS + 1):
            reply = await asker.ask(request)
            used = self._memory.usage
            self._memory.usage = reply.usage if used is None else used + reply.usage
            try:
                changes, observation = read_reply(text_of(reply))
                patch = [change.json() for change in changes]
                taken = canonical({"patch": patch, "observation": observation})
                given = self._take(call, taken)
            except Refused as error:
                asked.refused.append(error.code)
                request = again(request, reply.message.content or "", error)
                continue
            return self._recorded(spec, call, asked, taken, given), given
        return self._recorded(spec, call, asked), FAULT

    def _take(self, call: Call, said: str) -> ToolResult:
        """Make a reply happen: all of it, or nothing.

        Raises:
            Refused: it cannot happen; the state is as it was.
        """
        changes, observation = read_reply(said)
        before = self._state.snapshot()
        try:
            result = self._happen(call.name, changes, observation)
        except Refused:
            self._state.restore(before)
            raise
        if changes:
            patch = [change.json() for change in changes]
            entry = {"tool": call.name, "arguments": call.arguments, "patch": patch}
            self._log = [*self._log, entry][-LOGGED:]
        return result

    def _recalled(self, call: Call, said: str) -> ToolResult | CallError:
        """Make a recorded reply happen; of one that never was taken there is no record."""
        try:
            return self._take(call, said)
        except Refused:
            return UNRECORDED

    def _happen(self, name: str, changes: tuple[Change, ...], observation: Any) -> ToolResult:
        reader = self._readers[name]
        spec = self._stage.specs.get(name) or self._stage.user_specs[name]
        error = reader.is_error(observation)
        if changes and (error or spec.effect is Effect.READ):
            what = "a call that fails" if error else "a tool that reads"
            raise Refused("read_writes", f"{what} changes nothing: the patch must be empty")
        if error:
            return _failed(CallError(code=observation["error"], message=observation["message"]))
        allowed = reader.result.tables
        for change in changes:
            if allowed is not None and change.table not in allowed:
                may = ", ".join(sorted(allowed))
                raise Refused("table", f"{name} changes {may} only, not {change.table!r}")
        observation = reader.check(observation)
        if reader.result.must_change and not changes:
            raise Refused("no_change", "a tool that writes and succeeds changes something")
        deleted = [c for c in changes if c.op == "delete" and c.table in self._state.shapes]
        before = {(c.table, c.id): self._state.row(c.table, c.id) for c in deleted}
        self._state.apply(changes)
        gone = {place: row for place, row in before.items() if row is not None}
        reader.ground(observation, self._state, gone)
        return ToolResult(ok=True, content=orjson.dumps(observation).decode())

    def _recorded(
        self,
        spec: ToolSpec,
        call: Call,
        asked: _Asking,
        taken: str | None = None,
        result: ToolResult | None = None,
    ) -> WorldCall:
        """Return the record of a call beside what the twin makes of it."""
        result_equal: bool | None = None
        change_equal: bool | None = None
        if self._twin is not None and result is not None:
            result_equal = same(result, self._twin.call(asked.before, call))
            change_equal = self._twin.diff() == self._state.diff()
        invented: tuple[str, ...] = ()
        if result is not None and result.ok:
            known = set(leaves([call.arguments, orjson.loads(taken or "{}").get("patch")]))
            said, reader = orjson.loads(result.content), self._readers[spec.name]
            invented = tuple(reader.invented(said, self._state, known))
        return WorldCall(
            state=asked.state,
            tool=spec.name,
            arguments=canonical(call.arguments),
            user=call.user,
            by_user=call.by_user,
            reply=taken,
            refused=tuple(asked.refused),
            reads=spec.effect is Effect.READ,
            after_write=asked.wrote,
            result_equal=result_equal,
            change_equal=change_equal,
            invented=invented,
        )


def _plain(arguments: Any) -> Any:
    return dict(arguments) if isinstance(arguments, Mapping) else arguments


def _not_json(arguments: Any) -> CallError | None:
    """Say that arguments are no JSON object which everybody reads alike, if they are none."""
    try:
        text = canonical(arguments)
    except (ValueError, RecursionError):
        text = ""
    if ToolCall(id="", name="", arguments=text).value is not None:
        return None
    return CallError(code="invalid_arguments", message="The arguments are not a JSON object.")


def _failed(error: CallError) -> ToolResult:
    content = orjson.dumps({"error": error.code, "message": error.message}).decode()
    outcome: Literal["success", "transient"] = "transient" if error is FAULT else "success"
    return ToolResult(ok=False, content=content, error=error, outcome=outcome)
