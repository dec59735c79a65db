"""A small library as a real environment in memory, and tasks made by executing their solutions."""

import asyncio
import copy
import json
import random
from types import SimpleNamespace

import pytest

from synth.core.canonical import canonical
from synth.core.protocols import Turn
from synth.core.types import (
    Agent,
    Behaviour,
    Blueprint,
    CallError,
    Effect,
    Fact,
    Message,
    OutputValue,
    Persona,
    PlannedCall,
    Provenance,
    Task,
    TaskKind,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from synth.rubrics import rubric_for

SYSTEM = "You work at the desk of a library. A member may hold three loans."


def spec(name, effect, **parameters):
    return ToolSpec(
        name=name,
        description=name.replace("_", " "),
        parameters={
            "type": "object",
            "properties": parameters,
            "required": list(parameters),
            "additionalProperties": False,
        },
        effect=effect,
        provenance=Provenance(source="application:shelf"),
    )


TEXT = {"type": "string"}
SPECS = (
    spec("find_member", Effect.READ, email=TEXT),
    spec("find_books", Effect.READ, title=TEXT),
    spec("list_loans", Effect.READ, member_id=TEXT),
    spec("lend_book", Effect.WRITE, book_id=TEXT, member_id=TEXT, days={"type": "integer"}),
    spec("return_book", Effect.WRITE, loan_id=TEXT),
    spec("pay_fee", Effect.WRITE, member_id=TEXT, amount={"type": "integer"}),
)


class Failed(Exception):
    def __init__(self, code, message):
        self.error = CallError(code=code, message=message)


class Shelf:
    """State is a dict of tables; a failed call leaves it as it was."""

    real = False

    def __init__(self, *, broken=None, flaky=()):
        self.broken = broken or {}
        """Number of a call -> the exception it raises."""
        self.flaky = set(flaky)
        """Numbers of calls that fail for a moment."""
        self.made = 0

    async def reset(self, seed):
        rng = random.Random(seed)
        fee = rng.choice((250, 1275, 400))
        self.start = {
            "members": {
                "M1": {"name": "Ann Lee", "email": "ann@example.org", "fees": fee},
                "M2": {"name": "Bo Diaz", "email": "bo@example.org", "fees": 100},
            },
            "books": {
                "B11": {"title": "Dune", "copies": 2},
                "B12": {"title": "Emma", "copies": 1},
                "B13": {"title": "Emma", "copies": 0},
            },
            "loans": {"L1": {"book": "B13", "member": "M1", "due": "2026-03-03"}},
        }
        self.state = copy.deepcopy(self.start)
        self.made = 0

    def tools(self):
        return SPECS

    async def call(self, name, arguments):
        self.made += 1
        if self.made in self.broken:
            raise self.broken[self.made]
        if self.made in self.flaky:
            return self.failure(CallError(code="tool_fault", message="Try again."))
        before = copy.deepcopy(self.state)
        try:
            return ToolResult(ok=True, content=json.dumps(getattr(self, name)(**arguments)))
        except Failed as failed:
            self.state = before
            return self.failure(failed.error)
        except TypeError:
            self.state = before
            return self.failure(CallError(code="invalid_arguments", message="Wrong arguments."))

    def failure(self, error):
        content = json.dumps({"error": error.code, "message": error.message})
        return ToolResult(ok=False, content=content, error=error)

    def row(self, table, key):
        if key not in self.state[table]:
            raise Failed("not_found", f"No such row in {table}: {key!r}.")
        return self.state[table][key]

    def find_member(self, email):
        for key, row in self.state["members"].items():
            if row["email"] == email:
                return {"id": key, **row}
        raise Failed("not_found", f"No member with e-mail {email!r}.")

    def find_books(self, title):
        rows = self.state["books"].items()
        return {"result": [{"id": k, **row} for k, row in rows if row["title"] == title]}

    def list_loans(self, member_id):
        self.row("members", member_id)
        rows = self.state["loans"].items()
        return {"result": [{"id": k, **row} for k, row in rows if row["member"] == member_id]}

    def lend_book(self, book_id, member_id, days):
        self.row("members", member_id)
        book = self.row("books", book_id)
        if not book["copies"]:
            raise Failed("unavailable", f"No copy of {book_id!r} is available.")
        book["copies"] -= 1
        key, due = f"L{len(self.state['loans']) + 1}", f"2026-03-{2 + days:02}"
        self.state["loans"][key] = {"book": book_id, "member": member_id, "due": due}
        return {"id": key, "due": due}

    def return_book(self, loan_id):
        loan = self.row("loans", loan_id)
        del self.state["loans"][loan_id]
        self.state["books"][loan["book"]]["copies"] += 1
        return {"done": True}

    def pay_fee(self, member_id, amount):
        member = self.row("members", member_id)
        if amount > member["fees"]:
            raise Failed("too_much", "Nobody pays more than they owe.")
        member["fees"] -= amount
        return {"fees": member["fees"]}

    async def diff(self):
        lines = []
        for table, rows in self.state.items():
            old = self.start[table]
            for key in rows.keys() | old.keys():
                before, after = old.get(key), rows.get(key)
                if before != after:
                    verb = "insert" if before is None else "delete" if after is None else "update"
                    lines.append(canonical([table, verb, before, after]))
        return tuple(sorted(lines))

    async def close(self):
        pass


def planned(tool, group, **arguments):
    effect = next(s.effect for s in SPECS if s.name == tool)
    return PlannedCall(tool=tool, arguments=arguments, group=group, effect=effect)


async def outcome(calls, seed):
    shelf = Shelf()
    await shelf.reset(seed)
    for call in calls:
        result = await shelf.call(call.tool, call.arguments)
        assert result.ok, result.content
    return await shelf.diff()


EMAIL = Fact(
    name="user.email", label="e-mail address", value="ann@example.org", spoken="ann@example.org"
)
DAYS = Fact(name="days", label="number of days", value=14, spoken="14")
FIND = planned("find_member", 0, email="ann@example.org")
BOOKS = planned("find_books", 0, title="Dune")
LEND = planned("lend_book", 1, book_id="B11", member_id="M1", days=14)


def make_task(kind=TaskKind.SINGLE_WRITE, **changes):
    """Return the task of lending "Dune", or a variation of it; diffs come from execution."""
    given = {
        "kind": kind,
        "world": "shelf",
        "state_seed": 5,
        "tools": tuple(s.name for s in SPECS),
        "clauses": ('borrow "Dune" for 14 days',),
        "opening": (EMAIL,),
        "solution": (FIND, BOOKS, LEND),
        "decoys": {
            "wrong_entity": (FIND, BOOKS, planned("lend_book", 1, book_id="B11",
                                                  member_id="M2", days=14)),
            "over_write": (FIND, BOOKS, LEND, planned("pay_fee", 2, member_id="M1", amount=50)),
        },
    } | changes  # fmt: skip
    if "diffs" not in given:
        given["diffs"] = (asyncio.run(outcome(given["solution"], given["state_seed"])),)
    blueprint = Blueprint(**given)
    facts = " ".join(f"My {f.label} is {f.spoken}." for f in blueprint.opening)
    request = f"I would like to {' and '.join(blueprint.clauses)}. {facts}"
    return Task(
        blueprint=blueprint,
        persona=Persona(name="Ann Lee", voice="plain"),
        request=request,
        rubric=rubric_for(blueprint),
        difficulty=3,
    )


def make_lookup():
    """Return the task of telling a due date and a fee."""
    return make_task(
        TaskKind.LOOKUP,
        clauses=("know when my loan is due", "know how much I owe"),
        solution=(FIND, planned("list_loans", 1, member_id="M1")),
        outputs=(
            OutputValue(label="due date", type="date", value="2026-03-03"),
            OutputValue(label="fees", type="money", value=250, currency="EUR"),
        ),
        state_seed=next(s for s in range(99) if random.Random(s).choice((250, 1275, 400)) == 250),
        decoys={},
    )


def make_refusal():
    """Return a task that the policy forbids."""
    return make_task(
        TaskKind.FORBIDDEN,
        clauses=('borrow "Dune" without a time limit',),
        solution=(),
        diffs=((),),
        rule="A loan ends after 28 days",
        decoys={"wrongful_compliance": (FIND, BOOKS, LEND)},
    )


def make_agent(*, confirms=False, style="plain", tools=None):
    return Agent(
        application="shelf",
        system=SYSTEM,
        tools=tools or tuple(s.name for s in SPECS),
        behaviour=Behaviour(name="test", confirms_writes=confirms, style=style),
    )


class Says:
    """A player that says what it is told to, in order; texts, calls or whole turns."""

    who = "script/1"

    def __init__(self, role, *lines):
        self.role, self.lines, self.views = role, list(lines), []

    async def turn(self, view):
        self.views.append([m.content for m in view.messages])
        line = self.lines.pop(0)
        if isinstance(line, Exception):
            raise line
        if isinstance(line, Turn):
            return line
        if isinstance(line, str):
            return Turn(Message(role=self.role, content=line), done=line.endswith("bye."))
        calls = tuple(
            ToolCall(id=f"c{len(self.views)}.{i}", name=name,
                     arguments=a if isinstance(a, str) else json.dumps(a))
            for i, (name, a) in enumerate(line)
        )  # fmt: skip
        return Turn(Message(role=self.role, tool_calls=calls))


@pytest.fixture
def library():
    """Everything tests of playing and judging need."""
    return SimpleNamespace(
        Shelf=Shelf,
        Says=Says,
        task=make_task,
        lookup=make_lookup,
        refusal=make_refusal,
        agent=make_agent,
        planned=planned,
        tools={s.name: s for s in SPECS},
        days=DAYS,
        email=EMAIL,
    )
