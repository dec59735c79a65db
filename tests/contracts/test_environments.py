"""Every environment we ship keeps the contract that `simulators.check` spells out."""

import asyncio
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from simulators.check import check_environment
from simulators.sandbox.environment import SandboxEnvironment
from simulators.sandbox.run import why_not as sandbox_why_not
from simulators.sql.engine import Engine
from simulators.sql.environment import SqlEnvironment
from simulators.sql.load import applications, load_application
from synth.core.types import CallError, ToolResult

LIBRARY = Path(__file__).parent.parent / "simulators" / "data" / "library.yaml"
FILES = {"library": LIBRARY, **applications()}
SEED = 7  # the seed that check_environment uses


def value_for(parameter, rows, rng):
    """Draw a value that may well be accepted: an existing key, a listed one, a number in range."""
    meaning = parameter.entity or parameter.match
    if parameter.type == "array":
        count = rng.randint(parameter.minItems or 1, parameter.maxItems or 2)
        values = [value_for(parameter.items, rows, rng) for _ in range(count)]
        return [value for place, value in enumerate(values) if value not in values[:place]]
    if parameter.type == "object":
        return {k: value_for(p, rows, rng) for k, p in (parameter.properties or {}).items()}
    if parameter.enum:
        return rng.choice(parameter.enum)
    if meaning:
        table, column = meaning.split(".")
        return rng.choice(rows[table])[column]
    if parameter.type in ("integer", "number"):
        low = int(parameter.minimum or 1)
        return rng.randint(low, min(int(parameter.maximum or low + 50), low + 50))
    if parameter.type == "boolean":
        return rng.random() < 0.5
    return {"date": "2026-09-01", "date-time": "2026-09-01T10:00:00"}.get(
        parameter.format, "some text"
    )


def sampled_calls(engine, count=30, tries=600):
    """Draw calls and keep those that work, half of them writes, with some failing ones between."""
    environment, rng, kept = engine.environment(), random.Random(3), []
    environment.reset_now(SEED)
    names = list(engine.application.specs)
    for _ in range(tries):
        rows = {t: environment.query(f"SELECT * FROM {t} ORDER BY id") for t in engine.tables}
        rows = {t: found or [dict.fromkeys(engine.tables[t].columns)] for t, found in rows.items()}
        name = rng.choice(names)
        arguments = {
            key: value_for(parameter, rows, rng)
            for key, parameter in engine.application.tools[name].parameters.items()
            if not parameter.optional or rng.random() < 0.3
        }
        if environment.call_now(name, arguments).ok or rng.random() < 0.05:
            kept.append((name, arguments))
        if len(kept) == count:
            break
    return kept


@pytest.mark.parametrize("name", sorted(FILES))
def test_an_application_keeps_the_contract_of_environments(name):
    engine = Engine(load_application(FILES[name]))
    calls = sampled_calls(engine)
    assert len({call[0] for call in calls}) >= 5
    assert asyncio.run(check_environment(engine.environment, calls)) == []


SANDBOX = [
    ("list_files", {}),
    (
        "run_bash",
        {"command": "sed -i s/60/40/ slugs.py; mkfifo f; ln -s / out; touch t; chmod 0 t"},
    ),
    ("read_file", {"path": "slugs.py"}),
    ("edit_file", {"path": "README.md", "old_text": "60", "new_text": "40"}),
    ("edit_file", {"path": "README.md", "old_text": "60", "new_text": "40"}),
]


def test_the_sandbox_keeps_the_contract_of_environments():
    why_not = asyncio.run(sandbox_why_not())
    if why_not:
        pytest.skip(f"this machine makes no rooms: {why_not}")
    assert asyncio.run(check_environment(SandboxEnvironment, SANDBOX)) == []


# --- the check itself notices --------------------------------------------------------------------

ENGINE = Engine(load_application(LIBRARY))
CALLS = [
    ("list_loans", {"member_id": "M001"}),
    ("lend_book", {"book_id": "B1", "member_id": "M001"}),
    ("lend_book", {"book_id": "B2", "member_id": "M001"}),
    ("place_hold", {"book_id": "B1", "member_id": "M001"}),
]


class Forgetful(SqlEnvironment):
    async def reset(self, seed):
        if self.seed != seed:
            self.reset_now(seed)


class Counting(SqlEnvironment):
    count = 0

    async def call(self, name, arguments):
        result = await super().call(name, arguments)
        Counting.count += 1
        return result.model_copy(update={"content": f"{result.content} {Counting.count}"})


class Writing(SqlEnvironment):
    async def call(self, name, arguments):
        if name == "list_loans":
            self.call_now("place_hold", {"book_id": "B1", "member_id": "M001"})
        return await super().call(name, arguments)


class Raising(SqlEnvironment):
    async def call(self, name, arguments):
        if not isinstance(arguments, Mapping):
            raise TypeError("arguments")
        return await super().call(name, arguments)


class Leaking(SqlEnvironment):
    async def call(self, name, arguments):
        result = await super().call(name, arguments)
        if not result.ok:
            self.call_now("place_hold", {"book_id": "B2", "member_id": "M001"})
        return result


class Agreeable(SqlEnvironment):
    async def call(self, name, arguments):
        result = await super().call(name, arguments)
        return ToolResult(ok=True, content="fine") if not result.ok else result


class Vague(SqlEnvironment):
    async def call(self, name, arguments):
        result = await super().call(name, arguments)
        error = CallError(code="oops", message="?")
        return result if result.ok else ToolResult(ok=False, content="?", error=error)


class Stuck(SqlEnvironment):
    async def restore(self, state):
        pass


class Rebased(SqlEnvironment):
    async def restore(self, state):
        await super().restore(state)
        self._diff = ()


class Shared(SqlEnvironment):
    async def fork(self):
        return self


class Toolless(SqlEnvironment):
    def tools(self):
        return ()


class Twofold(SqlEnvironment):
    def tools(self):
        specs = super().tools()
        return (*specs, specs[0].model_copy(update={"parameters": {"type": "array"}}))


class Dirty(SqlEnvironment):
    async def reset(self, seed):
        self.reset_now(seed)
        self.call_now("place_hold", {"book_id": "B2", "member_id": "M001"})


class Torn(SqlEnvironment):
    async def call(self, name, arguments):
        result = await super().call(name, arguments)
        return result.model_copy(update={"error": CallError(code="oops", message="?")})


class Blank(SqlEnvironment):
    async def fork(self):
        twin = Blank(self.engine)
        twin.reset_now(self.seed)
        return twin


class Entangled(SqlEnvironment):
    async def fork(self):
        twin = self.fork_now()
        self.twin = twin
        return twin

    async def close(self):
        if hasattr(self, "twin"):
            self.twin.reset_now(self.seed)
        await super().close()


class Broken(SqlEnvironment):
    async def snapshot(self):
        raise OSError("disk on fire")


class Fragile(SqlEnvironment):
    async def close(self):
        if self.seed is None:
            raise RuntimeError("closed")
        await super().close()


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Forgetful, "reset leaves a diff behind"),
        (Counting, "two environments of one seed answer the same calls differently"),
        (Writing, "the read list_loans changes the diff"),
        (Raising, "find_member with None raises TypeError"),
        (Leaking, "failed calls change the diff"),
        (Agreeable, "no such tool with {} succeeds"),
        (Vague, "no such tool with {} fails as oops, not unknown_tool"),
        (Stuck, "after restore the diff is not that of the snapshot"),
        (Rebased, "a snapshot restored elsewhere has another diff"),
        (Shared, "calls on a fork change its origin"),
        (Toolless, "it offers no tools"),
        (Twofold, "two of its tools share a name"),
        (Twofold, "the parameters of find_member are no object"),
        (Dirty, "the diff is not empty after reset"),
        (Torn, "the result of list_loans is both a success and a failure, or neither"),
        (Blank, "a fork has another diff than its origin"),
        (Entangled, "closing the origin changes the fork"),
        (Broken, "the check 'snapshots' ends with OSError: disk on fire"),
        (Fragile, "closing twice raises RuntimeError"),
    ],
)
def test_the_check_tells_what_an_environment_does_wrong(kind, told):
    problems = asyncio.run(check_environment(lambda: kind(ENGINE), CALLS))
    assert told in problems


def test_something_else_is_no_environment():
    class Half:
        def __getattr__(self, name):
            if name == "diff":
                raise AttributeError(name)
            return getattr(inner, name)

    inner = ENGINE.environment()
    assert "it lacks a method of the protocol" in asyncio.run(check_environment(Half, CALLS))


def test_calls_that_prove_nothing_are_told():
    problems = asyncio.run(check_environment(ENGINE.environment, CALLS[:1]))
    assert problems == ["the calls given to the check change nothing, so they prove nothing"]
