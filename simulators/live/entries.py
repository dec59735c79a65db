"""The errands a team has with its memory: entries to look up, add, correct and connect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from simulators.live.team import Team
from simulators.live.world import Errand, Recipes, Stages, Toolset, question
from synth.core.types import Fact, OutputValue, PlannedCall


@dataclass(frozen=True, slots=True)
class Memory(Toolset):
    """A team's memory, and the tools at hand to work on it."""

    team: Team

    def look(self, name: str) -> PlannedCall:
        """Look an entity up."""
        if "open_nodes" in self.effects:
            return self.call("open_nodes", names=[name])
        if "search_nodes" in self.effects:
            return self.call("search_nodes", query=name)
        return self.call("read_graph")

    def note(self, name: str, text: str) -> PlannedCall:
        """Add an observation."""
        return self.call(
            "add_observations", observations=[{"entityName": name, "contents": [text]}]
        )

    def drop(self, name: str, text: str) -> PlannedCall:
        """Delete an observation."""
        deletions = [{"entityName": name, "observations": [text]}]
        return self.call("delete_observations", deletions=deletions)

    def add(self, name: str, kind: str, notes: Sequence[str] = ()) -> PlannedCall:
        """Create an entity."""
        entity = {"name": name, "entityType": kind, "observations": list(notes)}
        return self.call("create_entities", entities=[entity])

    def tie(self, start: str, kind: str, end: str) -> PlannedCall:
        """Create a relation."""
        return self.call("create_relations", relations=[_relation(start, kind, end)])

    def untie(self, start: str, kind: str, end: str) -> PlannedCall:
        """Delete a relation."""
        return self.call("delete_relations", relations=[_relation(start, kind, end)])


def _relation(start: str, kind: str, end: str) -> dict[str, str]:
    return {"from": start, "to": end, "relationType": kind}


def _noted(memory: Memory, name: str, other: str, text: str) -> tuple[Stages, Stages]:
    """Return the stages that note `text` about the one and, wrongly, about the other."""
    return (
        ((memory.look(name),), (memory.note(name, text),)),
        ((memory.look(other),), (memory.note(other, text),)),
    )


# --- errands ---------------------------------------------------------------------------------


def remember(memory: Memory) -> Errand:
    """Add an observation about somebody."""
    person, other = memory.two(memory.team.people)
    text = memory.rng.choice(memory.team.remarks)
    right, wrong = _noted(memory, person.name, other.name, text)
    label = f"text of the note on {person.name}"
    return Errand(
        about=person.name,
        clauses=(f"add a note on {person.name} to the memory",),
        facts=(Fact(name=f"{person.name}.note", label=label, value=text, spoken=f'"{text}"'),),
        stages=right,
        wrong=wrong,
        evidence=(person.name,),
    )


def forget(memory: Memory) -> Errand:
    """Delete an observation."""
    person, other = memory.two(memory.team.people)

    def dropped(which: Any) -> Stages:
        return (memory.look(which.name),), (memory.drop(which.name, which.habit),)

    return Errand(
        about=person.name,
        clauses=(f'delete the note "{person.habit}" from the entry of {person.name}',),
        stages=dropped(person),
        wrong=dropped(other),
        evidence=(person.habit,),
    )


def join_project(memory: Memory) -> Errand:
    """Record that somebody works on another project too."""
    person, other = memory.two(memory.team.people)
    free = [p.name for p in memory.team.projects if p.name not in (person.project, other.project)]
    project = memory.rng.choice(free)

    def tied(which: Any) -> Stages:
        return (memory.look(which.name),), (memory.tie(which.name, "works_on", project),)

    return Errand(
        about=person.name,
        clauses=(f"record that {person.name} works on the project {project}",),
        stages=tied(person),
        wrong=tied(other),
        evidence=(person.name,),
    )


def new_company(memory: Memory) -> Errand:
    """Create a company."""
    company, other = memory.two(memory.team.unknown_companies)
    contact = memory.rng.choice(memory.team.contacts)
    note = f"contact: {contact}"
    return Errand(
        about=company,
        clauses=(f"add the company {company} to the memory",),
        facts=(
            Fact(
                name=f"{company}.note",
                label=f"note to keep on {company}",
                value=note,
                spoken=f'"{note}"',
            ),
        ),
        stages=((memory.add(company, "company", [note]),),),
        wrong=((memory.add(other, "company", [note]),),),
    )


def new_extension(memory: Memory) -> Errand:
    """Correct an observation: delete the old one, add the new one."""
    person, other = memory.two(memory.team.people)
    number = memory.rng.randint(5000, 5999)

    def corrected(which: Any) -> Stages:
        old, new = f"extension: {which.extension}", f"extension: {number}"
        calls = memory.drop(which.name, old), memory.note(which.name, new)
        return (memory.look(which.name),), (calls[0],), (calls[1],)

    return Errand(
        about=person.name,
        clauses=(f"change the extension of {person.name} to {number}",),
        stages=corrected(person),
        wrong=corrected(other),
        evidence=(f"extension: {person.extension}",),
    )


def change_project(memory: Memory) -> Errand:
    """Move somebody from one project to another."""
    person, other = memory.two(memory.team.people)
    free = [p.name for p in memory.team.projects if p.name not in (person.project, other.project)]
    project = memory.rng.choice(free)

    def moved(which: Any) -> Stages:
        off = memory.untie(which.name, "works_on", which.project)
        return (memory.look(which.name),), (off,), (memory.tie(which.name, "works_on", project),)

    return Errand(
        about=person.name,
        clauses=(
            f"take {person.name} off the project {person.project}",
            f"record that {person.name} works on the project {project} instead",
        ),
        stages=moved(person),
        wrong=moved(other),
        evidence=(person.project,),
    )


def new_supplier(memory: Memory) -> Errand:
    """Create a company and say which project it supplies."""
    company, other = memory.two(memory.team.unknown_companies)
    project = memory.rng.choice(memory.team.projects).name

    def made(which: str) -> Stages:
        tie = memory.tie(which, "supplies", project)
        return (memory.add(which, "company"), memory.look(project)), (tie,)

    return Errand(
        about=company,
        clauses=(
            f"add the company {company} to the memory, without any note",
            f"record that it supplies the project {project}",
        ),
        stages=made(company),
        wrong=made(other),
        evidence=(project,),
    )


def _asked(memory: Memory, clause: str, name: str, other: str, output: OutputValue) -> Errand:
    return question(clause, ((memory.look(name),),), ((memory.look(other),),), output)


def extension(memory: Memory) -> Errand:
    """Ask for a person's extension."""
    person, other = memory.two(memory.team.people)
    clause = f"know which number to dial for {person.name} inside the house"
    output = OutputValue(
        label=f"extension of {person.name}", type="integer", value=person.extension
    )
    return _asked(memory, clause, person.name, other.name, output)


def deadline(memory: Memory) -> Errand:
    """Ask for a project's deadline."""
    project, other = memory.two(memory.team.projects)
    clause = f"know by when the project {project.name} has to be finished"
    day = project.deadline.isoformat()
    output = OutputValue(label=f"deadline of {project.name}", type="date", value=day)
    return _asked(memory, clause, project.name, other.name, output)


def leader(memory: Memory) -> Errand:
    """Ask who leads a project."""
    project, other = memory.two(memory.team.projects)
    clause = f"know who is in charge of the project {project.name}"
    output = OutputValue(label=f"leader of {project.name}", type="text", value=project.leader)
    return _asked(memory, clause, project.name, other.name, output)


RECIPES = Recipes(
    writes=(remember, forget, join_project, new_company),
    chains=(new_extension, change_project, new_supplier),
    questions=(extension, deadline, leader),
    open_facts=(remember, new_company),
)
