"""What a small team knows about itself, made from a seed: people, projects, companies."""

from __future__ import annotations

import datetime
import functools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from simulators.live.office import TODAY
from synth.core.seeds import rng as seeded

NAMES = (
    "Anna Berg", "Bela Kiss", "Carla Conti", "Deniz Kaya", "Emil Holm", "Farah Nasser",
    "Goran Ilic", "Hedda Lund", "Ivo Marin", "Jule Winter", "Kato Mori", "Lena Vogt",
)  # fmt: skip
PROJECTS = ("Harbour", "Linden", "Mosaic", "Northgate", "Orchard", "Pavilion", "Quarry")
COMPANIES = (
    "Brandt Paper", "Keller Cleaning", "Nordlicht Energy", "Pavlik Catering", "Sommer Print",
    "Tanaka Tools", "Ulmer Furniture", "Vega Software", "Winter Glass", "Ostrow Metals",
)  # fmt: skip
CONTACTS = ("Aydin", "Costa", "Dreyer", "Egger", "Fabri", "Grau")
ROLES = ("designer", "engineer", "accountant", "planner", "assistant", "buyer")
HABITS = (
    "prefers tea", "speaks Danish", "cycles to work", "works from home on Fridays",
    "is allergic to nuts", "plays the cello", "knows first aid", "sits in room 12",
    "is a vegetarian", "speaks Portuguese", "collects the post", "holds a forklift licence",
)  # fmt: skip
REMARKS = (
    "is on leave in August", "reads the newsletter aloud", "has the key to the archive",
    "trains the apprentices", "organises the summer party", "prefers calls before noon",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Person:
    """A member of the team."""

    name: str
    role: str
    extension: int
    habit: str
    project: str


@dataclass(frozen=True, slots=True)
class Project:
    """Something people work on."""

    name: str
    deadline: datetime.date
    leader: str


@dataclass(frozen=True, slots=True)
class Team:
    """Everything remembered, and what could be."""

    people: tuple[Person, ...]
    projects: tuple[Project, ...]
    suppliers: tuple[tuple[str, str, str], ...]
    """Company, contact, project."""
    unknown_companies: tuple[str, ...]
    remarks: tuple[str, ...] = REMARKS
    contacts: tuple[str, ...] = CONTACTS

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield the lines of the memory file."""
        for person in self.people:
            notes = [f"role: {person.role}", f"extension: {person.extension}", person.habit]
            yield _entity(person.name, "person", notes)
        for project in self.projects:
            yield _entity(project.name, "project", [f"deadline: {project.deadline}"])
        for company, contact, _ in self.suppliers:
            yield _entity(company, "company", [f"contact: {contact}"])
        for person in self.people:
            yield _relation(person.name, "works_on", person.project)
        for project in self.projects:
            yield _relation(project.leader, "leads", project.name)
        for company, _, target in self.suppliers:
            yield _relation(company, "supplies", target)


def _entity(name: str, kind: str, observations: list[str]) -> dict[str, Any]:
    return {"type": "entity", "name": name, "entityType": kind, "observations": observations}


def _relation(start: str, kind: str, end: str) -> dict[str, Any]:
    return {"type": "relation", "from": start, "to": end, "relationType": kind}


@functools.lru_cache(maxsize=64)
def team(seed: int) -> Team:
    """Return the team of a seed; the same in any process."""
    rng = seeded("live", "team", seed)
    names, projects = rng.sample(NAMES, 8), rng.sample(PROJECTS, 5)
    companies = rng.sample(COMPANIES, len(COMPANIES))
    habits = rng.sample(HABITS, len(names))
    extensions = rng.sample(range(4000, 4999), len(names))
    return Team(
        people=tuple(
            Person(name, rng.choice(ROLES), extension, habit, rng.choice(projects))
            for name, extension, habit in zip(names, extensions, habits, strict=True)
        ),
        projects=tuple(
            Project(project, _deadline(rng), leader)
            for project, leader in zip(projects, rng.sample(names, len(projects)), strict=True)
        ),
        suppliers=tuple(
            (company, rng.choice(CONTACTS), rng.choice(projects)) for company in companies[:5]
        ),
        unknown_companies=tuple(companies[5:]),
    )


def _deadline(rng: random.Random) -> datetime.date:
    return TODAY + datetime.timedelta(days=rng.randint(20, 200))
