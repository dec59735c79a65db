"""The errands people have in an `Office`: one function draws one errand.

Clauses follow "I would like to"; a fact is told in a sentence of its own. The policy of the world
says how files are laid out, so that a list or register is read at once and anything else is
looked for first.
"""

from __future__ import annotations

import datetime
from typing import Any

from simulators.live.desk import Desk
from simulators.live.office import PROJECTS, TOPICS, Invoice, Office, TodoList, phone
from simulators.live.world import Errand, Recipes, Stages, question
from synth.core.types import Fact, OutputValue, Scalar


def _fact(name: str, label: str, value: Scalar, spoken: str | None = None) -> Fact:
    return Fact(name=name, label=label, value=value, spoken=spoken or str(value))


def _spoken(day: datetime.date) -> str:
    return f"{day.day} {day:%B %Y}"


# --- errands that change one thing -----------------------------------------------------------

_MESSAGES = (
    "Ms Aydin asks for a call back before noon.",
    "The lift is serviced on Thursday from 8 to 10.",
    "Parcel for the second floor is at the front desk.",
    "Please use the side entrance next week.",
    "The spare projector is in the cupboard of room 4.",
    "Lunch for the guests is ordered for twelve people.",
)


def save_text(desk: Desk) -> Errand:
    """Save a new text file in a folder that exists."""
    folder = desk.rng.choice(("notes", "reports", "contacts", "archive"))
    stem = desk.rng.choice(("reminder", "call-back", "notice", "front-desk", "hint"))
    name, other = f"{stem}.txt", f"{stem}-2.txt"
    text = desk.rng.choice(_MESSAGES)
    path = f"{folder}/{name}"
    return Errand(
        about=path,
        clauses=(f'save a file called "{name}" in the folder "{folder}"',),
        facts=(_fact(f"{path}.content", f'text of "{name}"', text, f'"{text}"'),),
        stages=((desk.write(path, text),),),
        wrong=((desk.write(f"{folder}/{other}", text),),),
        variants=(((desk.write(path, text + "\n"),),),),
    )


def new_folder(desk: Desk) -> Errand:
    """Create an empty folder."""
    parent = desk.rng.choice(("archive", "reports", "contacts", "invoices"))
    year = desk.rng.choice(("2024", "2026", "2027"))
    return Errand(
        about=f"{parent}/{year}",
        clauses=(f'create a folder called "{year}" in the folder "{parent}"',),
        stages=((desk.folder(f"{parent}/{year}"),),),
        wrong=((desk.folder(f"{parent}/{year}-old"),),),
    )


def _open_chore(desk: Desk, todo: TodoList) -> Any:
    chores = tuple(chore for chore in todo.chores if not chore.done)
    return desk.two(chores)


def tick_off(desk: Desk) -> Errand:
    """Mark a chore as done."""
    todo = desk.rng.choice(desk.office.todos)
    chore, other = _open_chore(desk, todo)

    def done(which: Any) -> Stages:
        text = todo.text()
        edit = desk.edit(todo.path, text, which.line(), which.line(done=True))
        return (desk.read(todo.path),), (edit,)

    return Errand(
        about=todo.path,
        clauses=(f'tick off "{chore.text}" on the to-do list of {todo.owner}',),
        stages=done(chore),
        wrong=done(other),
        evidence=(chore.line(),),
    )


def reschedule(desk: Desk) -> Errand:
    """Give a chore another due date."""
    todo = desk.rng.choice(desk.office.todos)
    chore, other = _open_chore(desk, todo)
    day = chore.due + datetime.timedelta(days=desk.rng.randint(3, 21))
    due = day.isoformat()

    def moved(which: Any) -> Stages:
        edit = desk.edit(todo.path, todo.text(), which.line(), which.line(due=day))
        return (desk.read(todo.path),), (edit,)

    return Errand(
        about=todo.path,
        clauses=(f'change the due date of "{chore.text}" on the to-do list of {todo.owner}',),
        facts=(
            _fact(f"{todo.path}.due", f"new date on the list of {todo.owner}", due, _spoken(day)),
        ),
        stages=moved(chore),
        wrong=moved(other),
        evidence=(chore.line(),),
    )


SUPPLIERS = "contacts/suppliers.csv"


def _suppliers_text(office: Office) -> str:
    content = office.tree().entries[SUPPLIERS]
    return content.decode() if isinstance(content, bytes) else ""


def change_phone(desk: Desk) -> Errand:
    """Correct a supplier's telephone number."""
    supplier, other = desk.two(desk.office.suppliers)
    number, text = phone(desk.rng), _suppliers_text(desk.office)

    def changed(which: Any) -> Stages:
        edit = desk.edit(SUPPLIERS, text, which.row(), which.row(phone=number))
        return (desk.read(SUPPLIERS),), (edit,)

    return Errand(
        about=SUPPLIERS,
        clauses=(f"correct the phone number of {supplier.company} in the supplier list",),
        facts=(_fact(f"{SUPPLIERS}.phone", "number to enter", number),),
        stages=changed(supplier),
        wrong=changed(other),
        evidence=(supplier.row(),),
    )


def rename_draft(desk: Desk) -> Errand:
    """Rename a draft, wherever it lies."""
    draft, other = desk.two(desk.office.drafts)
    new = draft.name.replace("draft-", "final-")

    def renamed(which: Any) -> Stages:
        move = desk.move(which.path, f"{which.folder}/{new}")
        return (desk.find(which.name),), (move,)

    return Errand(
        about=draft.path,
        clauses=(f'rename the file "{draft.name}" to "{new}" (it stays in its folder)',),
        stages=renamed(draft),
        wrong=renamed(other),
        evidence=(draft.name,),
    )


def archive_draft(desk: Desk) -> Errand:
    """Move a draft to the archive."""
    draft, other = desk.two(desk.office.drafts)

    def moved(which: Any) -> Stages:
        move = desk.move(which.path, f"archive/2025/{which.name}")
        return (desk.find(which.name),), (move,)

    return Errand(
        about=draft.path,
        clauses=(f'move the file "{draft.name}" to the folder "archive/2025"',),
        stages=moved(draft),
        wrong=moved(other),
        evidence=(draft.name,),
    )


# --- errands whose writes depend on one another ----------------------------------------------


def new_project(desk: Desk) -> Errand:
    """Create a project's folder and its brief inside."""
    free = tuple(name for name in PROJECTS if name not in desk.office.projects)
    project, other = desk.two(free)
    topic = desk.rng.choice(TOPICS)
    text = f"Project {project.title()} deals with the {topic}."

    def made(which: str, content: str) -> Stages:
        brief = desk.write(f"projects/{which}/brief.md", content)
        return (desk.folder(f"projects/{which}"),), (brief,)

    return Errand(
        about=f"projects/{project}",
        clauses=(
            f'create the folder "projects/{project}"',
            'write a file "brief.md" in it',
        ),
        facts=(_fact(f"projects/{project}.brief", "text of the brief", text, f'"{text}"'),),
        stages=made(project, text),
        wrong=made(other, text),
        variants=(made(project, text + "\n"),),
    )


def folder_for_draft(desk: Desk) -> Errand:
    """Create a folder and move a draft into it."""
    draft, other = desk.two(desk.office.drafts)
    name = desk.rng.choice(("to-sign", "for-review", "spring", "waiting"))

    def moved(which: Any) -> Stages:
        move = desk.move(which.path, f"{name}/{which.name}")
        return (desk.find(which.name),), (desk.folder(name),), (move,)

    return Errand(
        about=draft.path,
        clauses=(
            f'create a folder called "{name}" at the top level',
            f'move the file "{draft.name}" into it',
        ),
        stages=moved(draft),
        wrong=moved(other),
        evidence=(draft.name,),
    )


def hand_over(desk: Desk) -> Errand:
    """Take a chore from one list and put it at the end of another."""
    giver, taker = desk.two(desk.office.todos)
    chore, other = _open_chore(desk, giver)
    last = taker.chores[-1].line()

    def handed(which: Any) -> Stages:
        take = desk.edit(giver.path, giver.text(), which.line() + "\n", "")
        give = desk.edit(taker.path, taker.text(), last, f"{last}\n{which.line()}")
        return (desk.read(giver.path), desk.read(taker.path)), (take,), (give,)

    return Errand(
        about=giver.path,
        clauses=(
            f'take "{chore.text}" off the to-do list of {giver.owner}',
            f"add that line, unchanged, at the end of the list of {taker.owner}",
        ),
        stages=handed(chore),
        wrong=handed(other),
        evidence=(chore.line(), last),
    )


REGISTER = "invoices/register.csv"


def pay_invoice(desk: Desk) -> Errand:
    """Book an invoice as paid in the register and move its file."""
    invoice, other = desk.two(tuple(item for item in desk.office.invoices if not item.paid))
    content = desk.office.tree().entries[REGISTER]
    text = content.decode() if isinstance(content, bytes) else ""

    def paid(which: Invoice) -> Stages:
        book = desk.edit(REGISTER, text, which.register(), which.register(paid=True))
        move = desk.move(which.path, f"invoices/paid/{which.name}")
        return (desk.list("invoices/open"), desk.read(REGISTER)), (book,), (move,)

    return Errand(
        about=REGISTER,
        clauses=(
            f"set invoice {invoice.number} to paid in the register",
            "move its file to the folder of the paid invoices",
        ),
        stages=paid(invoice),
        wrong=paid(other),
        evidence=(invoice.register(),),
    )


# --- errands that only ask -------------------------------------------------------------------


def _found(desk: Desk, hint: str, path: str) -> Stages:
    """Look for a file by what the user calls it, then read it."""
    return (desk.find(hint),), (desk.read(path),)


def _invoice(desk: Desk, invoice: Invoice) -> Stages:
    return _found(desk, invoice.digits, invoice.path)


def invoice_total(desk: Desk) -> Errand:
    """Ask for the sum of an invoice."""
    invoice, other = desk.two(desk.office.invoices)
    clause = f"know how much invoice {invoice.number} comes to"
    label = f"total of invoice {invoice.number}"
    output = OutputValue(label=label, type="money", value=invoice.total, currency="EUR")
    return question(clause, _invoice(desk, invoice), _invoice(desk, other), output)


def invoice_due(desk: Desk) -> Errand:
    """Ask until when an invoice is payable."""
    invoice, other = desk.two(desk.office.invoices)
    clause = f"know until when invoice {invoice.number} must be paid"
    label = f"last day to pay invoice {invoice.number}"
    output = OutputValue(label=label, type="date", value=invoice.due.isoformat())
    return question(clause, _invoice(desk, invoice), _invoice(desk, other), output)


def minutes_author(desk: Desk) -> Errand:
    """Ask who took the minutes of a meeting."""
    note, other = desk.two(desk.office.notes)
    clause = f"know who took the minutes when we met about the {note.topic}"
    output = OutputValue(
        label=f"author of the {note.topic} minutes", type="text", value=note.author
    )
    right, wrong = (_found(desk, which.slug, which.path) for which in (note, other))
    return question(clause, right, wrong, output)


def chore_due(desk: Desk) -> Errand:
    """Ask when a chore is due."""
    todo, other = desk.two(desk.office.todos)
    chore = desk.rng.choice(todo.chores)
    clause = f"know by when {todo.owner} has to {chore.text}"
    label = f'due date of "{chore.text}"'
    output = OutputValue(label=label, type="date", value=chore.due.isoformat())
    return question(clause, ((desk.read(todo.path),),), ((desk.read(other.path),),), output)


def supplier_phone(desk: Desk) -> Errand:
    """Ask for a supplier's telephone number."""
    supplier = desk.rng.choice(desk.office.suppliers)
    clause = f"know how I can reach {supplier.company} by phone"
    label = f"number of {supplier.company}"
    output = OutputValue(label=label, type="text", value=supplier.phone)
    return question(clause, ((desk.read(SUPPLIERS),),), ((desk.read(REGISTER),),), output)


def visitors(desk: Desk) -> Errand:
    """Ask for a figure in a monthly report."""
    (month, weeks), (other, _) = desk.two(desk.office.visitors)
    week = desk.rng.randrange(len(weeks))
    clause = f"know how many visitors we had in week {week + 1} of {month.title()}"
    label = f"number of visitors in that week of {month.title()}"
    output = OutputValue(label=label, type="integer", value=weeks[week])
    right, wrong = (
        _found(desk, f"visitors-{name}", f"reports/visitors-{name}.csv") for name in (month, other)
    )
    return question(clause, right, wrong, output)


RECIPES = Recipes(
    writes=(
        save_text, new_folder, tick_off, reschedule, change_phone, rename_draft, archive_draft,
    ),
    chains=(new_project, folder_for_draft, hand_over, pay_invoice),
    questions=(invoice_total, invoice_due, minutes_author, chore_due, supplier_phone, visitors),
    open_facts=(save_text, reschedule, change_phone),
)  # fmt: skip
