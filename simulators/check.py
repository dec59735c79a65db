"""What every environment must do: the contract of `synth.core.protocols.Environment` as code.

`tests/contracts/test_environments.py` runs it over every environment we ship; a plug-in's author
runs it over theirs:

    problems = await check_environment(make, [("lend_book", {"book_id": "B1", "member_id": "M1"})])
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from synth.core.protocols import Environment
from synth.core.types import Diff, Effect, ToolResult

Call = tuple[str, Mapping[str, Any]]
_SEED = 7
_NO_TOOL = "no such tool"
_BAD_ARGUMENTS: tuple[Any, ...] = ({"no such parameter": 1}, {"": None}, None, [], "text", 5)


@dataclass(frozen=True, slots=True)
class _Subject:
    """The environments under test."""

    make: Callable[[], Environment]
    calls: Sequence[Call]

    async def fresh(self, count: int = 0) -> Environment:
        """Return an environment after `reset` and the first `count` calls."""
        environment = self.make()
        await environment.reset(_SEED)
        for name, arguments in self.calls[:count]:
            await environment.call(name, arguments)
        return environment


async def check_environment(factory: Callable[[], Environment], calls: Sequence[Call]) -> list[str]:
    """Try an environment out.

    Args:
        factory: makes a new environment, before `reset`.
        calls: a few calls that work on the state of seed 7, reads and at least one write that
            changes something; failing ones may be among them.

    Returns:
        What it does wrong, one sentence each; empty if nothing.
    """
    subject = _Subject(factory, calls)
    problems: list[str] = []
    for check in (_describes, _resets, _reads, _fails, _snapshots, _forks, _closes):
        try:
            async for problem in check(subject):
                problems.append(problem)
        except Exception as error:
            name = check.__name__.removeprefix("_")
            problems.append(f"the check {name!r} ends with {type(error).__name__}: {error}")
    return problems


async def _play(environment: Environment, calls: Sequence[Call]) -> tuple[list[ToolResult], Diff]:
    results = [await environment.call(name, arguments) for name, arguments in calls]
    return results, await environment.diff()


async def _describes(subject: _Subject) -> AsyncIterator[str]:
    environment = await subject.fresh()
    tools = environment.tools()
    names = [tool.name for tool in tools]
    if not isinstance(environment, Environment):
        yield "it lacks a method of the protocol"
    if not names:
        yield "it offers no tools"
    if len(set(names)) < len(names):
        yield "two of its tools share a name"
    for tool in tools:
        if tool.parameters.get("type") != "object":
            yield f"the parameters of {tool.name} are no object"
    await environment.close()


async def _resets(subject: _Subject) -> AsyncIterator[str]:
    environment, other = await subject.fresh(), await subject.fresh()
    if await environment.diff():
        yield "the diff is not empty after reset"
    first = await _play(environment, subject.calls)
    if not first[1]:
        yield "the calls given to the check change nothing, so they prove nothing"
    if await _play(other, subject.calls) != first:
        yield "two environments of one seed answer the same calls differently"
    await environment.reset(_SEED)
    if await environment.diff():
        yield "reset leaves a diff behind"
    if await _play(environment, subject.calls) != first:
        yield "after a second reset the same calls are answered differently"
    await environment.reset(_SEED + 1)
    await environment.reset(_SEED)
    if await _play(environment, subject.calls) != first:
        yield "a reset to another seed in between changes the answers"
    await environment.close()
    await other.close()


async def _reads(subject: _Subject) -> AsyncIterator[str]:
    effects = {tool.name: tool.effect for tool in subject.make().tools()}
    environment = await subject.fresh()
    for name, arguments in subject.calls:
        before = await environment.diff()
        result = await environment.call(name, arguments)
        if effects.get(name) is Effect.READ and await environment.diff() != before:
            yield f"the read {name} changes the diff"
        if result.ok == (result.error is not None):
            yield f"the result of {name} is both a success and a failure, or neither"
    await environment.close()


async def _fails(subject: _Subject) -> AsyncIterator[str]:
    environment = await subject.fresh(len(subject.calls))
    before, state = await environment.diff(), await environment.snapshot()
    names = [tool.name for tool in environment.tools()]
    attempts: list[tuple[str, Any]] = [(_NO_TOOL, {})]
    attempts += [(name, bad) for name in names for bad in _BAD_ARGUMENTS]
    for name, arguments in attempts:
        try:
            result = await environment.call(name, arguments)
        except Exception as error:
            yield f"{name} with {arguments!r} raises {type(error).__name__}"
            continue
        if result.ok or result.error is None:
            yield f"{name} with {arguments!r} succeeds"
        expected = "unknown_tool" if name == _NO_TOOL else "invalid_arguments"
        if result.error is not None and result.error.code != expected:
            yield f"{name} with {arguments!r} fails as {result.error.code}, not {expected}"
    if await environment.diff() != before:
        yield "failed calls change the diff"
    if await environment.snapshot() != state:
        yield "failed calls change the state"
    await environment.close()


async def _snapshots(subject: _Subject) -> AsyncIterator[str]:
    half = len(subject.calls) // 2
    environment = await subject.fresh(half)
    state, before = await environment.snapshot(), await environment.diff()
    rest = await _play(environment, subject.calls[half:])
    await environment.restore(state)
    if await environment.diff() != before:
        yield "after restore the diff is not that of the snapshot"
    if await _play(environment, subject.calls[half:]) != rest:
        yield "after restore the same calls are answered differently"
    other = await subject.fresh(len(subject.calls))
    await other.restore(state)
    if await other.diff() != before:
        yield "a snapshot restored elsewhere has another diff"
    if await _play(other, subject.calls[half:]) != rest:
        yield "a snapshot restored elsewhere answers differently"
    await environment.close()
    await other.close()


async def _forks(subject: _Subject) -> AsyncIterator[str]:
    half = len(subject.calls) // 2
    environment = await subject.fresh(half)
    before = await environment.diff()
    twin = await environment.fork()
    if await twin.diff() != before:
        yield "a fork has another diff than its origin"
    rest = await _play(twin, subject.calls[half:])
    if await environment.diff() != before:
        yield "calls on a fork change its origin"
    if await _play(environment, subject.calls[half:]) != rest:
        yield "a fork answers differently from its origin"
    await environment.close()
    if await twin.diff() != rest[1]:
        yield "closing the origin changes the fork"
    await twin.close()


async def _closes(subject: _Subject) -> AsyncIterator[str]:
    environment = await subject.fresh(len(subject.calls))
    try:
        await environment.close()
        await environment.close()
    except Exception as error:
        yield f"closing twice raises {type(error).__name__}"
