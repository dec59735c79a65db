"""Applications bent so that one rule of the derivation shows."""

import random
from collections import Counter

import pytest

from simulators.sql.asking import Asking
from simulators.sql.blueprint import sample
from simulators.sql.choice import Choice
from simulators.sql.engine import Engine
from simulators.sql.facts import Known, Mind
from simulators.sql.stage import Stage
from simulators.sql.words import Words
from synth.core.application import Application
from synth.core.errors import NotSuitable
from synth.core.types import Fact, TaskKind


def bent(file):
    return Stage(Engine(Application.model_validate(file)))


def sampled(stage, kind, tools=None, draws=60):
    """Return the tasks and the counted reasons of so many samples."""
    tasks, reasons = [], Counter()
    for seed in range(draws):
        try:
            chosen = tools or tuple(stage.application.specs)
            tasks.append(sample(stage, kind, chosen, 0, random.Random(seed)))
        except NotSuitable as reason:
            reasons[reason.what] += 1
    return tasks, reasons


def write(sql, parameters, intent=None):
    tool = {"description": "x", "effect": "write", "parameters": parameters, "steps": []}
    tool["steps"] = [{"write": text} for text in ([sql] if isinstance(sql, str) else sql)]
    return tool | ({"intent": intent} if intent else {})


# --- telling rows apart ----------------------------------------------------------------------


def known(name, origin, value):
    return Known(Fact(name=name, label="x", value=value, spoken=str(value)), origin)


def test_two_facts_of_one_column_tell_nothing_apart(stage):
    rows = [{"id": "B1", "model": "Tourer", "colour": "red"}, {"id": "B3", "model": "Racer"}]
    choice = Choice(stage.graph, "list_bikes", "id", rows, rows[0])
    model = known("bike_id.model", "bikes.model", "Tourer")
    assert choice.usable([model]) == {"model": model.fact}
    assert choice.usable([model, known("other_id.model", "bikes.model", "Tourer")]) == {}


def test_a_fact_that_the_result_contradicts_tells_nothing_apart(stage):
    rows = [{"id": "B1", "model": "Tourer", "colour": "red"}]
    choice = Choice(stage.graph, "list_bikes", "id", rows, rows[0])
    assert choice.usable([known("bike_id.model", "bikes.model", "Racer")]) == {}


# --- rows made on the way --------------------------------------------------------------------

NEW = {
    "id": "J9", "bike_id": "B3", "mechanic_id": None, "kind": "gears", "due": "2026-03-12",
    "price": 6000, "urgent": False, "status": "open", "note": None,
}  # fmt: skip


def second_wish(stage, template):
    """Ask for a change of a job that the first wish has made."""
    mind = Mind(stage.scene(0), "P1")
    asking = Asking(mind)
    tools = stage.application.tools
    opened = {"bike_id": "B3", "kind": "gears"}
    asking.note(asking.ask("open_job", tools["open_job"].parameters, opened, Words("x", where="x")))
    mind.born["jobs", "J9"] = NEW
    moved = {"job_id": "J9", "due": "2026-04-01"}
    words = Words(template, where="x")
    return asking.ask("move_job", tools["move_job"].parameters, moved, words)


def test_a_new_row_is_called_by_what_the_user_said_of_it(stage):
    asked = second_wish(stage, "move the {{ job_id.kind }} job on my {{ job_id.bike.model }}")
    assert asked.clause == "move the gears job on my Racer"
    assert asked.targets == []


def test_what_was_computed_for_a_new_row_is_not_known_to_the_user(stage):
    with pytest.raises(NotSuitable, match="no_words"):
        second_wish(stage, "move the job that is due on {{ job_id.due }}")


# --- writes that make others pointless -------------------------------------------------------


def test_a_write_that_includes_another_is_not_its_parallel(workshop_file):
    tools = workshop_file["tools"]
    bike = {"bike_id": {"type": "string", "entity": "bikes.id"}}
    job = {"job_id": {"type": "string", "entity": "jobs.id"}}
    tools["hurry_all"] = write(
        "UPDATE jobs SET urgent = 1 WHERE bike_id = :bike_id",
        bike,
        "have all jobs on my {{ bike_id.model }} done at once",
    )
    tools["hurry"] = write(
        "UPDATE jobs SET urgent = 1 WHERE id = :job_id",
        job,
        "have the {{ job_id.kind }} job on my {{ job_id.bike.model }} done at once",
    )
    chosen = ("find_person", "list_jobs", "hurry_all", "hurry")
    tools["list_bikes"].pop("questions")
    tasks, reasons = sampled(bent(workshop_file), TaskKind.PARALLEL, (*chosen, "list_bikes"))
    assert reasons["superseded"] > 0
    for task in tasks:
        assert {call.tool for call in task.solution[-2:]} <= {"hurry", "hurry_all"}


# --- facts to ask for ------------------------------------------------------------------------


def withheld(tasks):
    return {task.withheld[0].name for task in tasks}


def test_nobody_asks_for_a_fact_that_another_can_replace(workshop_file, stage):
    tasks, _ = sampled(stage, TaskKind.MISSING_FACT)
    assert "user.email" in withheld(tasks)
    tool = workshop_file["tools"]["find_person"]
    workshop_file["tools"]["find_by_name"] = {
        **tool,
        "parameters": {"name": {"type": "string", "match": "people.name"}},
        "questions": {},
        "steps": [{"return": "SELECT id, name FROM people WHERE name = :name", "shape": "object"}],
    }
    tasks, _ = sampled(bent(workshop_file), TaskKind.MISSING_FACT)
    assert tasks
    assert not [name for name in withheld(tasks) if name.startswith("user.")]


def test_nobody_asks_for_what_need_not_be_given(stage):
    tools = ("find_person", "list_bikes", "list_mechanics", "open_job")
    tasks, _ = sampled(stage, TaskKind.MISSING_FACT, tools)
    assert withheld(tasks) <= {"user.email", "kind", "bike_id.colour"}
    assert len(withheld(tasks)) > 1


def test_a_fact_that_stands_elsewhere_in_the_request_is_not_missing(workshop_file):
    workshop_file["tools"]["swap_tyres"]["intent"] = (
        "swap the tyres of my {{ first_id.colour }} "
        "{% if first_id.model %}{{ first_id.model }}{% else %}one{% endif %} "
        "and my {{ second_id.colour }} {{ second_id.model }}"
    )
    tools = ("find_person", "list_bikes", "swap_tyres")
    tasks, _ = sampled(bent(workshop_file), TaskKind.MISSING_FACT, tools, draws=120)
    models = [task for task in tasks if task.withheld[0].name == "first_id.model"]
    assert models
    assert not [t for t in models if t.withheld[0].spoken in t.clauses[0]]


# --- questions -------------------------------------------------------------------------------


def test_a_question_answered_on_the_way_to_another_is_not_its_parallel(stage):
    tasks, reasons = sampled(stage, TaskKind.PARALLEL, ("find_person", "list_bikes"))
    assert not tasks
    assert set(reasons) == {"no_goal"}


def test_an_answer_for_somebody_else_is_another_answer(workshop_file):
    for row in workshop_file["seed"]["bikes"]["rows"]:
        row["tyre"] = "wide"
    workshop_file["tools"]["get_bike"]["questions"] = {
        "tyre": "what tyres my {{ bike_id.colour }} {{ bike_id.model }} has"
    }
    tools = ("find_person", "list_bikes", "get_bike", "open_job")
    workshop_file["tools"]["find_person"].pop("questions")
    workshop_file["tools"]["list_bikes"].pop("questions")
    tasks, _ = sampled(bent(workshop_file), TaskKind.LOOKUP, tools)
    assert tasks
    assert not [task for task in tasks if "wrong_entity" in task.decoys]


# --- refusals --------------------------------------------------------------------------------


def test_what_a_rule_looks_at_is_looked_up_before_refusing(workshop_file):
    workshop_file["policy_rules"] = [
        {
            "name": "expensive",
            "tool": "move_job",
            "when": "SELECT price > 4600 FROM jobs WHERE id = :job_id",
            "text": "Jobs above 46.00 EUR are not moved.",
        }
    ]
    tasks, _ = sampled(bent(workshop_file), TaskKind.FORBIDDEN)
    assert tasks
    for task in tasks:
        wrong = task.decoys["wrongful_compliance"][-1]
        shown = [call.arguments for call in task.solution if call.tool == "get_job"]
        assert shown == [{"job_id": wrong.arguments["job_id"]}]


# --- decoys ----------------------------------------------------------------------------------


def test_another_text_that_does_not_count_is_no_wrong_solution(workshop_file):
    workshop_file["tools"]["log"] = write(
        "INSERT INTO referrals VALUES (next_id('R'), 'P1', 'x', :text)",
        {
            "text": {
                "type": "string",
                "sets": "referrals.summary",
                "generate": {"words": ["one", "two", "three"]},
            }
        },
        "have this noted: {{ text }}",
    )
    tasks, _ = sampled(bent(workshop_file), TaskKind.SINGLE_WRITE, ("log",), draws=10)
    assert len(tasks) == 10
    assert {name for task in tasks for name in task.decoys} == {"over_write"}
