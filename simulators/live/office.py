"""The shared folder of a small office, made from a seed: what the file tasks are about.

Every date lies around one fixed day, names are fictitious, amounts are integers of cents. The
generated facts are kept beside the text they are rendered to, so that a goal can say what a file
holds and be checked against what the server reads from it.
"""

from __future__ import annotations

import datetime
import functools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from simulators.live.folder import Tree
from synth.core.seeds import rng as seeded

TODAY = datetime.date(2026, 3, 2)

PEOPLE = ("Anna", "Bela", "Carla", "Deniz", "Emil", "Farah", "Goran", "Hedda", "Ivo", "Jule")
CHORES = (
    "order toner for the printer", "book the meeting room", "renew the parking permit",
    "send the offer to Lundt", "collect the badges", "update the phone list",
    "water the plants", "scan the delivery notes", "check the fire extinguishers",
    "prepare the inventory", "call the window cleaner", "reserve a table for six",
    "file the travel receipts", "plan the summer party", "replace the kettle",
    "back up the laptop", "print the name tags", "return the rented projector",
    "describe the new workstation", "invite the auditors", "sort the spare keys",
    "write the newsletter", "measure the storage room", "cancel the old tariff",
)  # fmt: skip
TOPICS = (
    "kitchen rota", "website relaunch", "office move", "customer survey", "spring trade fair",
    "budget review", "bicycle parking", "data protection", "apprentice training", "stock taking",
    "energy saving", "new coffee machine", "visitor badges", "opening hours",
)  # fmt: skip
DECISIONS = (
    "The current supplier stays until June.", "We meet again in three weeks.",
    "Two quotes are needed before we order.", "The draft goes to everyone by Friday.",
    "Costs are capped at 800 EUR.", "The old forms are no longer used.",
    "A short questionnaire comes first.", "Nothing changes before the holidays.",
)  # fmt: skip
COMPANIES = (
    "Brandt Paper", "Lundt Logistics", "Keller Cleaning", "Nordlicht Energy", "Pavlik Catering",
    "Sommer Print", "Tanaka Tools", "Ulmer Furniture", "Vega Software", "Winter Glass",
    "Zander Security", "Ostrow Metals",
)  # fmt: skip
GOODS = (
    ("copy paper, box", 2490), ("ring binder", 315), ("desk lamp", 4290), ("office chair", 18900),
    ("cleaning, hour", 3250), ("coffee, kilogram", 1780), ("printed flyer, hundred", 4400),
    ("pallet transport", 9600), ("window pane", 21050), ("licence, year", 12900),
    ("catering, person", 1850), ("lock cylinder", 5675), ("steel shelf", 13940),
)  # fmt: skip
PROJECTS = ("harbour", "linden", "mosaic", "northgate", "orchard", "pavilion")
DRAFTS = ("offer", "letter of thanks", "job advert", "press release", "price list", "agenda")


@dataclass(frozen=True, slots=True)
class Chore:
    """One line of a to-do list."""

    text: str
    due: datetime.date
    done: bool = False

    def line(self, *, done: bool | None = None, due: datetime.date | None = None) -> str:
        """Return the line as it stands in the file, or as it shall stand."""
        mark = "x" if (self.done if done is None else done) else " "
        return f"- [{mark}] {self.text} (due {due or self.due})"


@dataclass(frozen=True, slots=True)
class TodoList:
    """The to-do list of one person."""

    owner: str
    chores: tuple[Chore, ...]

    @property
    def path(self) -> str:
        """Path below the root."""
        return f"todo/{self.owner.lower()}.txt"

    def text(self) -> str:
        """Return the file's content."""
        lines = [f"To do: {self.owner}", "", *(chore.line() for chore in self.chores)]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Invoice:
    """An incoming invoice; amounts in cents."""

    number: str
    company: str
    issued: datetime.date
    due: datetime.date
    lines: tuple[tuple[str, int, int], ...]
    """Goods, quantity, unit price."""
    paid: bool

    @property
    def name(self) -> str:
        """File name."""
        return f"{self.number}.txt"

    @property
    def path(self) -> str:
        """Path below the root: paid invoices lie in another folder than open ones."""
        return f"invoices/{'paid' if self.paid else 'open'}/{self.name}"

    @property
    def digits(self) -> str:
        """The number without its letters: how a file is looked for."""
        return self.number.partition("-")[2]

    @property
    def total(self) -> int:
        """Sum in cents."""
        return sum(quantity * price for _, quantity, price in self.lines)

    def text(self) -> str:
        """Return the file's content."""
        rows = [
            f"{quantity:>4} x {goods:<26}{money(quantity * price):>14} EUR"
            for goods, quantity, price in self.lines
        ]
        head = [f"INVOICE {self.number}", f"From: {self.company}"]
        dates = [f"Issued: {self.issued}", f"Payable by: {self.due}", ""]
        return "\n".join([*head, *dates, *rows, "", f"Total: {money(self.total)} EUR"]) + "\n"

    def register(self, *, paid: bool | None = None) -> str:
        """Return the invoice's row in the register, or the row it shall have."""
        status = "paid" if (self.paid if paid is None else paid) else "open"
        return f"{self.number},{self.company},{self.due},{money(self.total, group='')},{status}"


@dataclass(frozen=True, slots=True)
class Note:
    """Minutes of a meeting."""

    topic: str
    date: datetime.date
    author: str
    present: tuple[str, ...]
    decisions: tuple[str, ...]

    @property
    def slug(self) -> str:
        """The topic as it stands in the file name."""
        return self.topic.replace(" ", "-")

    @property
    def name(self) -> str:
        """File name."""
        return f"{self.date}-{self.slug}.md"

    @property
    def path(self) -> str:
        """Path below the root."""
        return f"notes/{self.date.year}/{self.name}"

    def text(self) -> str:
        """Return the file's content."""
        decided = [f"- {decision}" for decision in self.decisions]
        head = [f"# Meeting: {self.topic}", "", f"Date: {self.date}", f"Minutes: {self.author}"]
        return "\n".join([*head, f"Present: {', '.join(self.present)}", "", *decided]) + "\n"


@dataclass(frozen=True, slots=True)
class Supplier:
    """A row of the supplier list."""

    company: str
    contact: str
    phone: str

    @property
    def email(self) -> str:
        """Address made from the names."""
        return f"{self.contact.lower()}@{self.company.lower().replace(' ', '-')}.example"

    def row(self, *, phone: str | None = None) -> str:
        """Return the supplier's row, or the row it shall have."""
        return f"{self.company},{self.contact},{phone or self.phone},{self.email}"


@dataclass(frozen=True, slots=True)
class Draft:
    """A text nobody has finished; it lies anywhere."""

    name: str
    folder: str
    words: str

    @property
    def path(self) -> str:
        """Path below the root."""
        return f"{self.folder}/{self.name}"


@dataclass(frozen=True, slots=True)
class Office:
    """Everything in the folder."""

    todos: tuple[TodoList, ...]
    invoices: tuple[Invoice, ...]
    notes: tuple[Note, ...]
    suppliers: tuple[Supplier, ...]
    drafts: tuple[Draft, ...]
    projects: tuple[str, ...]
    visitors: tuple[tuple[str, tuple[int, ...]], ...]
    """Month and visitors of each week."""

    def tree(self) -> Tree:
        """Return the folder."""
        files: dict[str, str | None] = {"README.txt": _README, "archive/2025": None}
        written: tuple[TodoList | Invoice | Note, ...] = (
            *self.todos,
            *self.invoices,
            *self.notes,
        )
        files |= {item.path: item.text() for item in written}
        rows = "\n".join(supplier.row() for supplier in self.suppliers)
        files["contacts/suppliers.csv"] = f"company,contact,phone,email\n{rows}\n"
        rows = "\n".join(invoice.register() for invoice in self.invoices)
        files["invoices/register.csv"] = f"number,company,payable_by,total,status\n{rows}\n"
        for draft in self.drafts:
            files[draft.path] = draft.words
        for project in self.projects:
            files[f"projects/{project}/brief.md"] = f"# Project {project.title()}\n\nIn progress.\n"
        for month, weeks in self.visitors:
            rows = "\n".join(f"{week},{count}" for week, count in enumerate(weeks, 1))
            files[f"reports/visitors-{month}.csv"] = f"week,visitors\n{rows}\n"
        return Tree.of(files)


_README = """Shared folder of the office

archive/    what is finished, by year
contacts/   suppliers
invoices/   incoming invoices: open/, paid/ and register.csv
notes/      minutes of meetings, by year
projects/   one folder a project
reports/    monthly figures
todo/       one list a person
"""


def money(cents: int, *, group: str = ",") -> str:
    """Write cents as `1,284.50`."""
    text = f"{cents // 100:,}.{cents % 100:02d}"
    return text if group == "," else text.replace(",", group)


@functools.lru_cache(maxsize=64)
def office(seed: int) -> Office:
    """Return the office of a seed; the same in any process."""
    rng = seeded("live", "office", seed)
    people = rng.sample(PEOPLE, 6)
    companies = rng.sample(COMPANIES, 9)
    return Office(
        todos=_todos(rng, people),
        invoices=_invoices(rng, companies),
        notes=_notes(rng, people),
        suppliers=tuple(_supplier(rng, company) for company in companies),
        drafts=_drafts(rng),
        projects=tuple(sorted(rng.sample(PROJECTS, 4))),
        visitors=tuple(
            (month, tuple(rng.randint(20, 180) for _ in range(4)))
            for month in ("december", "january", "february")
        ),
    )


def _day(rng: random.Random, first: int, last: int) -> datetime.date:
    """Return a day `first` to `last` days from today."""
    return TODAY + datetime.timedelta(days=rng.randint(first, last))


def _todos(rng: random.Random, people: Sequence[str]) -> tuple[TodoList, ...]:
    chores = rng.sample(CHORES, len(CHORES))  # no chore stands on two lists
    each = len(chores) // len(people)
    lists = []
    for place, person in enumerate(people):
        done = rng.sample(range(each), rng.randint(0, each - 2))  # two at least are open
        texts = chores[place * each : (place + 1) * each]
        lines = (Chore(text, _day(rng, 1, 60), done=n in done) for n, text in enumerate(texts))
        lists.append(TodoList(person, tuple(lines)))
    return tuple(lists)


def _invoices(rng: random.Random, companies: Sequence[str]) -> tuple[Invoice, ...]:
    numbers = sorted(rng.sample(range(2011, 2199), 14))
    paid = rng.sample(numbers, rng.randint(4, 7))
    invoices = []
    for number in numbers:
        issued = _day(rng, -60, -5)
        goods = rng.sample(GOODS, rng.randint(1, 4))
        invoices.append(
            Invoice(
                f"INV-{number}",
                rng.choice(companies),
                issued,
                issued + datetime.timedelta(days=rng.choice((14, 21, 30))),
                tuple((name, rng.randint(1, 24), price) for name, price in goods),
                paid=number in paid,
            )
        )
    return tuple(invoices)


def _notes(rng: random.Random, people: Sequence[str]) -> tuple[Note, ...]:
    notes = []
    for topic in rng.sample(TOPICS, 11):
        present = rng.sample(people, rng.randint(2, 4))
        decisions = tuple(rng.sample(DECISIONS, rng.randint(1, 3)))
        notes.append(Note(topic, _day(rng, -120, -1), present[0], tuple(present), decisions))
    return tuple(sorted(notes, key=lambda note: note.path))


def _supplier(rng: random.Random, company: str) -> Supplier:
    contact = rng.choice(("Aydin", "Berg", "Costa", "Dreyer", "Egger", "Fabri", "Grau", "Holm"))
    return Supplier(company, contact, phone(rng))


def phone(rng: random.Random) -> str:
    """Return a fictitious telephone number."""
    return f"+49 30 {rng.randint(2_000_000, 8_999_999)}"


def _drafts(rng: random.Random) -> tuple[Draft, ...]:
    folders = ("notes", "projects", "contacts", "reports", "todo", "invoices")
    return tuple(
        Draft(
            f"draft-{title.replace(' ', '-')}.md",
            folder,
            f"# Draft: {title}\n\nVersion {rng.randint(1, 5)}, not yet agreed.\n",
        )
        for title, folder in zip(rng.sample(DRAFTS, 5), rng.sample(folders, 5), strict=True)
    )
