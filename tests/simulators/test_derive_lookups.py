"""What a user knows, and the look-ups that find the rest of it."""

import pytest

from simulators.sql.asking import Asking, Unknowable
from simulators.sql.engine import Engine
from simulators.sql.facts import Mind, called
from simulators.sql.solve import Solver
from simulators.sql.stage import Stage
from simulators.sql.words import Words
from synth.core.application import Application
from synth.core.errors import BadApplication, NotSuitable

READS = ("find_person", "list_bikes", "get_bike", "list_jobs", "get_job", "list_mechanics")


def mind_of(stage, user):
    return Mind(stage.scene(0), user)


def node_of(mind, parameter, column, value):
    return mind.node(column, value, parameter, called(parameter))


def solve(mind, *targets, tools=READS, said=(), given=None, withheld=frozenset()):
    """Find the key of each target; return the solver."""
    facts = {known.fact.name: known.fact for node in targets for known in node.facts()}
    solver = Solver(
        mind,
        tools,
        said={name: facts[name] for name in said},
        given=given or {},
        withheld=withheld,
    )
    for node in targets:
        solver.find(node, "id")
    return solver


def calls(solver):
    return [(call.group, call.tool, call.arguments) for call in solver.plan.calls]


# --- facts -----------------------------------------------------------------------------------


def test_facts_are_named_by_parameter_and_path(stage):
    mind = mind_of(stage, "P1")
    node = node_of(mind, "job_id", "jobs.id", "J1")
    facts = {known.fact.name: known.fact for known in node.facts()}
    assert {name: fact.spoken for name, fact in facts.items()} == {
        "job_id.kind": "brakes",
        "job_id.due": "9 March 2026",
        "job_id.bike.model": "Tourer",
        "job_id.bike.colour": "red",
    }
    assert facts["job_id.due"].label == "day it is due of the job"
    assert facts["job_id.bike.model"].label == "model of the bike"


def test_two_rows_of_one_table_keep_their_facts_apart(stage):
    mind = mind_of(stage, "P1")
    first = node_of(mind, "first_id", "bikes.id", "B1")
    second = node_of(mind, "second_id", "bikes.id", "B3")
    names = {known.fact.name for node in (first, second) for known in node.facts()}
    assert names == {"first_id.model", "first_id.colour", "second_id.model", "second_id.colour"}


def test_the_users_own_row_is_called_user_wherever_it_is_met(stage):
    mind = mind_of(stage, "P1")
    assert node_of(mind, "person_id", "people.id", "P1") is mind.me
    bike = node_of(mind, "bike_id", "bikes.id", "B1")
    assert bike.child("owner_id") is mind.me
    assert [known.fact.name for known in mind.me.facts()] == ["user.name", "user.email"]


def test_a_reference_that_is_not_known_hides_what_lies_behind_it(stage):
    mind = mind_of(stage, "P1")
    job = node_of(mind, "job_id", "jobs.id", "J1")
    mechanic = job.child("mechanic_id")
    assert mechanic.row["name"] == "Dora"
    assert mechanic.facts() == ()
    assert node_of(mind, "mechanic_id", "mechanics.id", "M1").facts() != ()


def test_elements_of_an_array_are_counted_in_words():
    assert called("loan_ids.1") == "second loan"
    assert called("loan_ids.0", alone=True) == "loan"
    assert called("lines.2.part_id") == "part of the third line"
    assert called("home_branch_id") == "home branch"


# --- wishes ----------------------------------------------------------------------------------


def ask(stage, user, tool, template, **arguments):
    words = Words(template, where="here")
    parameters = stage.application.tools[tool].parameters
    return Asking(mind_of(stage, user)).ask(tool, parameters, arguments, words)


def test_a_template_follows_references_and_notes_what_it_says(stage):
    template = "see the {{ job_id.kind }} of {{ job_id.bike.model }}"
    asked = ask(stage, "P1", "get_job", template, job_id="J1")
    assert asked.clause == "see the brakes of Tourer"
    assert set(asked.said) == asked.implied == {"job_id.kind", "job_id.bike.model"}


def test_a_template_cannot_name_a_column_that_does_not_exist(stage):
    with pytest.raises(BadApplication, match="'jobs' has no column or reference 'bikes'"):
        ask(stage, "P1", "get_job", "{{ job_id.bikes.model }}", job_id="J1")


def test_a_template_cannot_say_what_the_user_cannot_know(stage):
    with pytest.raises(NotSuitable, match="no_words") as caught:
        ask(stage, "P1", "get_job", "pay {{ job_id.price }}", job_id="J1")
    assert isinstance(caught.value.__cause__, Unknowable)
    assert str(caught.value.__cause__) == "jobs.price"
    with pytest.raises(NotSuitable, match="no_words"):
        ask(stage, "P1", "get_job", "{{ job_id }}", job_id="J1")


def test_nobody_says_a_page_of_text(stage):
    text = "x" * 301
    template = "{% for a in note %}{% for b in note %}{% endfor %}{% endfor %}take a note"
    with pytest.raises(NotSuitable, match="no_words"):
        ask(stage, "P1", "open_job", template, bike_id="B1", kind="gears", note=text)
    asked = ask(stage, "P1", "open_job", template, bike_id="B1", kind="gears", note=text[1:])
    assert asked.clause == "take a note"


def test_what_a_condition_conveys_is_not_said_twice(stage):
    template = "have it mended{% if urgent %} at once{% endif %}{% if note %}, noted{% endif %}"
    arguments = {"bike_id": "B1", "kind": "gears", "urgent": True, "note": "it squeaks"}
    asked = ask(stage, "P1", "open_job", template, **arguments)
    assert "urgent" in asked.implied
    assert {"kind", "note"} <= set(asked.said) - asked.implied


def test_a_second_wish_keeps_its_facts_apart_from_the_first(stage):
    asking = Asking(mind_of(stage, "P1"))
    parameters = stage.application.tools["open_job"].parameters
    words = Words("open a job", where="here")
    first = asking.ask("open_job", parameters, {"bike_id": "B1", "kind": "gears"}, words)
    asking.note(first)
    second = asking.ask("open_job", parameters, {"bike_id": "B3", "kind": "lights"}, words)
    assert first.said["kind"].value == "gears"
    assert second.said["open_job.kind"].value == "lights"
    assert second.said["open_job.kind"].label != first.said["kind"].label


# --- look-ups --------------------------------------------------------------------------------


def test_look_ups_lead_from_what_the_user_says_to_the_key(stage):
    mind = mind_of(stage, "P1")
    solver = solve(mind, node_of(mind, "bike_id", "bikes.id", "B3"), said=["bike_id.model"])
    assert calls(solver) == [
        (0, "find_person", {"email": "ann@example.org"}),
        (1, "list_bikes", {"person_id": "P1"}),
    ]
    assert set(solver.plan.said) == {"user.email", "bike_id.model"}


def test_the_fewest_further_facts_tell_two_rows_apart(stage):
    mind = mind_of(stage, "P1")
    tourer = solve(mind, node_of(mind, "bike_id", "bikes.id", "B2"), said=["bike_id.model"])
    assert set(tourer.plan.said) == {"user.email", "bike_id.model", "bike_id.colour"}
    blue = solve(mind, node_of(mind, "bike_id", "bikes.id", "B2"))
    assert set(blue.plan.said) == {"user.email", "bike_id.colour"}


def test_twins_are_ambiguous(stage, workshop_file):
    workshop_file["seed"]["bikes"]["rows"].append(
        {"id": "B8", "owner_id": "P2", "model": "Tourer", "colour": "red", "tyre": "thin"}
    )
    mind = mind_of(Stage(Engine(Application.model_validate(workshop_file))), "P2")
    with pytest.raises(NotSuitable, match="ambiguous"):
        solve(mind, node_of(mind, "bike_id", "bikes.id", "B4"))
    grey = solve(mind, node_of(mind, "bike_id", "bikes.id", "B5"))
    assert "bike_id.colour" in grey.plan.said


def test_without_the_tool_nothing_is_found(stage):
    mind = mind_of(stage, "P1")
    node = node_of(mind, "bike_id", "bikes.id", "B3")
    with pytest.raises(NotSuitable, match="unsolvable"):
        solve(mind, node, tools=("find_person", "get_bike"))


def test_a_withheld_fact_is_not_used(stage):
    mind = mind_of(stage, "P1")
    node = node_of(mind, "bike_id", "bikes.id", "B3")
    with pytest.raises(NotSuitable, match="unsolvable"):
        solve(mind, node, withheld=frozenset({"user.email"}))


def test_look_ups_are_shared_between_the_rows_of_one_goal(stage):
    mind = mind_of(stage, "P1")
    first = node_of(mind, "first_id", "bikes.id", "B1")
    second = node_of(mind, "second_id", "bikes.id", "B3")
    said = ["first_id.model", "first_id.colour", "second_id.model"]
    solver = solve(mind, first, second, said=said)
    assert [tool for _, tool, _ in calls(solver)] == ["find_person", "list_bikes"]


def test_rows_behind_rows_are_found_through_them(stage):
    mind = mind_of(stage, "P1")
    solver = solve(mind, node_of(mind, "job_id", "jobs.id", "J2"), said=["job_id.kind"])
    assert calls(solver) == [
        (0, "find_person", {"email": "ann@example.org"}),
        (1, "list_bikes", {"person_id": "P1"}),
        (2, "list_jobs", {"bike_id": "B1", "kind": "gears"}),
    ]
    # Which of the two Tourers it is has to be said, although the job itself is told by its kind.
    assert {"job_id.bike.model", "job_id.bike.colour"} <= set(solver.plan.said)


def test_independent_look_ups_share_a_group(stage):
    mind = mind_of(stage, "P1")
    bike = node_of(mind, "bike_id", "bikes.id", "B3")
    mechanic = node_of(mind, "mechanic_id", "mechanics.id", "M2")
    solver = solve(mind, bike, mechanic, said=["bike_id.model", "mechanic_id.name"])
    assert [(group, tool) for group, tool, _ in calls(solver)] == [
        (0, "find_person"),
        (1, "list_bikes"),
        (0, "list_mechanics"),
    ]


def test_a_key_in_a_row_that_was_found_needs_no_look_up_of_its_own(stage):
    mind = mind_of(stage, "P1")
    job = node_of(mind, "job_id", "jobs.id", "J2")
    bike = node_of(mind, "bike_id", "bikes.id", "B1")
    solver = solve(mind, job, bike, said=["job_id.kind"])
    assert len(solver.plan.calls) == 3


def test_a_look_up_that_does_not_show_the_row_is_no_look_up(workshop_file):
    steps = workshop_file["tools"]["list_bikes"]["steps"]
    steps[0]["return"] = steps[0]["return"].replace("ORDER BY id", "ORDER BY id LIMIT 2")
    stage = Stage(Engine(Application.model_validate(workshop_file)))
    mind = mind_of(stage, "P1")
    assert solve(mind, node_of(mind, "bike_id", "bikes.id", "B1")).plan.calls
    with pytest.raises(NotSuitable, match="unsolvable"):
        solve(mind, node_of(mind, "bike_id", "bikes.id", "B3"))


def test_a_key_the_user_knows_needs_no_look_up(workshop_file):
    workshop_file["known"]["bikes"].append("id")
    stage = Stage(Engine(Application.model_validate(workshop_file)))
    mind = mind_of(stage, "P1")
    solver = solve(mind, node_of(mind, "bike_id", "bikes.id", "B1"))
    assert solver.plan.calls == []
    assert set(solver.plan.said) == {"bike_id.id"}


def test_a_rule_is_seen_before_it_is_applied(stage):
    mind = mind_of(stage, "P3")
    solver = solve(mind, node_of(mind, "bike_id", "bikes.id", "B6"), said=["bike_id.model"])
    solver.see({"bikes.tyre", "people.member"})
    assert [tool for _, tool, _ in calls(solver)] == ["find_person", "list_bikes", "get_bike"]
    assert solver.plan.calls[-1].arguments == {"bike_id": "B6"}


def test_a_parent_is_looked_up_to_compare_its_key(workshop_file):
    # Bikes are told apart by a mechanic whose name only list_mechanics shows.
    workshop_file["known"]["jobs"] = ["mechanic_id"]
    workshop_file["tools"]["list_jobs"]["steps"][0]["return"] = (
        "SELECT id, mechanic_id FROM jobs WHERE bike_id = :bike_id "
        "AND (:kind IS NULL OR kind = :kind) ORDER BY due, id"
    )
    del workshop_file["tools"]["get_job"]
    stage = Stage(Engine(Application.model_validate(workshop_file)))
    mind = mind_of(stage, "P1")
    job = node_of(mind, "job_id", "jobs.id", "J2")
    bike = node_of(mind, "bike_id", "bikes.id", "B1")
    tools = ("find_person", "list_bikes", "list_jobs", "list_mechanics")
    solver = solve(mind, bike, job, tools=tools, said=["bike_id.model", "bike_id.colour"])
    assert {tool for _, tool, _ in calls(solver)} == set(tools)
    assert solver.plan.said["job_id.mechanic.name"].value == "Emil"
