"""The lint: a sound application passes, and each planted fault is named with its place."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from simulators.sql.engine import Engine
from simulators.sql.lint import check, lint, state_key
from simulators.sql.played import Figures
from simulators.sql.yaml12 import read_yaml
from synth.core.application import Application
from synth.core.errors import BadApplication

BOOKS = Path(__file__).parent / "data" / "library.yaml"


@pytest.fixture(name="report", scope="module")
def _report(workshop):
    return lint(workshop, draws=30)


def test_a_sound_application_has_no_errors(report):
    assert report.errors == (), "\n".join(map(str, report.errors))
    assert report.application == "workshop"


def test_figures_are_given_for_every_tool(report, workshop):
    assert set(report.figures) == set(workshop.application.tools)
    cancel = report.figures["cancel_jobs"]
    assert cancel.calls["ok"] > 0
    assert cancel.calls["not_open"] > 0
    assert cancel.goals["ok"] > 0
    assert cancel.goals["forbidden"] == 0  # what a rule forbids is not drawn in the first place
    assert cancel.solvable == 1.0
    assert "solvable 100%" in next(x for x in report.lines() if x.startswith("cancel_jobs: "))


def test_shares_of_nothing_are_unknown_and_not_zero():
    assert Figures().solvable is None
    assert Figures().accepted is None


def findings(file, draws=14):
    return lint(Engine(Application.model_validate(file)), seeds=(0, 1), draws=draws).findings


def assert_found(found, level, path, what):
    places = {(f.level, f.where, f.what) for f in found}
    hits = [p for p in places if p[0] == level and p[1] == f"workshop: {path}" and what in p[2]]
    assert hits, "\n".join(map(str, found))


def test_a_list_without_order_is_an_error(workshop_file):
    step = workshop_file["tools"]["list_mechanics"]["steps"][0]
    step["return"] = step["return"].replace("ORDER BY m.id", "WHERE 'order by' = 'order by'")
    assert_found(
        findings(workshop_file), "error", "tools.list_mechanics.steps[0].return", "ORDER BY"
    )


def test_an_order_inside_a_subquery_does_not_order_the_list(workshop_file):
    step = workshop_file["tools"]["list_mechanics"]["steps"][0]
    step["return"] = "SELECT id, name FROM (SELECT id, name FROM mechanics ORDER BY (id))"
    assert_found(
        findings(workshop_file), "error", "tools.list_mechanics.steps[0].return", "ORDER BY"
    )


def test_a_write_that_never_succeeds_is_an_error(workshop_file):
    workshop_file["tools"]["move_job"]["steps"][0]["require"] = (
        "SELECT status = 'never' FROM jobs WHERE id = :job_id"
    )
    found = findings(workshop_file)
    assert_found(found, "error", "tools.move_job", "no call succeeds (not_open")
    assert_found(found, "error", "tools.move_job.steps[1].require", "in_the_past")


def test_a_condition_that_nothing_breaks_is_an_error(workshop_file):
    workshop_file["tools"]["rename_me"]["steps"].insert(
        0,
        {
            "require": "SELECT count(*) FROM people WHERE id = :person_id",
            "error": "no_such_person",
            "message": "Nobody is {person_id!r}.",
        },
    )
    assert_found(
        findings(workshop_file), "error", "tools.rename_me.steps[0].require", "no_such_person"
    )


def test_conditions_with_one_code_are_told_apart_by_their_messages(workshop_file):
    steps = workshop_file["tools"]["move_job"]["steps"]
    steps[1].update(error="not_open", require="SELECT :due > '1000-01-01'", message="Too early.")
    assert_found(findings(workshop_file), "error", "tools.move_job.steps[1].require", "not_open")


def test_a_goal_nobody_can_solve_is_an_error(workshop_file):
    workshop_file["known"]["bikes"] = ["model"]
    workshop_file["tools"]["swap_tyres"]["intent"] = (
        "swap the tyres of my {{ first_id.model }} and my {{ second_id.model }}"
    )
    del workshop_file["tools"]["get_bike"]["questions"]
    assert_found(findings(workshop_file), "error", "tools.swap_tyres", "of valid goals can be")


def test_a_template_that_tells_what_nobody_knows_is_an_error(workshop_file):
    workshop_file["tools"]["move_job"]["intent"] = (
        "move the job for {{ job_id.price }} to {{ due }}"
    )
    found = findings(workshop_file)
    assert_found(found, "error", "tools.move_job.intent", "says jobs.price")
    assert_found(found, "error", "tools.move_job", "of 14 sampled goals 0 can be used")


def test_a_template_with_an_unknown_name_is_an_error(workshop_file):
    workshop_file["tools"]["rename_me"]["intent"] = "be called {{ nmae }}"
    found = findings(workshop_file)
    assert_found(found, "error", "tools.rename_me.intent.en", "unknown name 'nmae'")


def test_a_template_with_an_unknown_path_is_an_error(workshop_file):
    workshop_file["tools"]["move_job"]["intent"] = "move the {{ job_id.bicycle.model }} job"
    assert_found(
        findings(workshop_file),
        "error",
        "tools.move_job.intent",
        "no column or reference 'bicycle'",
    )


def test_every_language_of_a_template_is_read(workshop_file):
    workshop_file["tools"]["rename_me"]["intent"] = {
        "en": "be called {{ name }}",
        "de": "{{ x() }}",
    }
    assert_found(
        findings(workshop_file), "error", "tools.rename_me.intent.de", "'call' is not available"
    )


def test_a_question_about_no_column_is_an_error(workshop_file):
    workshop_file["tools"]["get_job"]["questions"]["cost"] = "what it costs"
    assert_found(findings(workshop_file), "error", "tools.get_job.questions", "no column 'cost'")


def test_a_rule_that_nothing_breaks_is_an_error(workshop_file):
    workshop_file["policy_rules"][0]["when"] = "SELECT :kind = 'paint' AND :bike_id = 'none'"
    found = findings(workshop_file)
    assert_found(found, "error", "policy_rules.paint_for_members", "of 14 sampled goals 0 break")


def test_a_promise_that_a_seeded_state_breaks_is_an_error(workshop_file):
    workshop_file["never"] = {"a job is open": "SELECT 1 FROM jobs WHERE status = 'open'"}
    assert_found(findings(workshop_file), "error", "never.a job is open", "state 0 is seeded so")


def test_a_promise_that_calls_break_is_an_error_that_tells_the_call(workshop_file):
    most = "SELECT 1 FROM jobs WHERE status = 'open' GROUP BY bike_id HAVING count(*) > 2"
    workshop_file["never"] = {"a bike has three open jobs": most}
    limit = workshop_file["tools"]["open_job"]["steps"][0]
    broken = findings(workshop_file)
    assert_found(broken, "error", "never.a bike has three open jobs", "after open_job({")
    limit["require"] = limit["require"].replace("< 3", "< 2")
    assert not [f for f in findings(workshop_file) if f.where.startswith("workshop: never")]


def test_a_promise_that_cannot_be_asked_does_not_compile(workshop_file):
    workshop_file["never"] = {"a job is free": "SELECT 1 FROM jobs WHERE cost = 0"}
    with pytest.raises(BadApplication, match=r"never.a job is free.*no such column"):
        Engine(Application.model_validate(workshop_file))
    workshop_file["never"] = {"a job is free": "DELETE FROM jobs"}
    with pytest.raises(BadApplication, match=r"never.a job is free"):
        Engine(Application.model_validate(workshop_file))


def test_a_hand_off_needs_its_reasons_and_text_that_does_not_count(workshop_file):
    workshop_file["tools"]["refer"]["parameters"]["reason"]["enum"] = ["not_allowed", "other"]
    del workshop_file["compare"]["referrals.summary"]
    found = findings(workshop_file)
    assert_found(found, "error", "tools.refer.parameters.reason", "not_allowed and no_tool")
    assert_found(found, "error", "tools.refer.parameters.summary", "free text")


def test_rules_without_a_hand_off_are_an_error(workshop_file):
    del workshop_file["handoff"]
    assert_found(findings(workshop_file), "error", "handoff", "refusals end in")


def test_free_text_without_a_meaning_is_an_error_where_it_is_needed(workshop_file):
    parameters = workshop_file["tools"]["rename_me"]["parameters"]
    parameters["name"] = {"type": "string"}
    parameters["title"] = {"type": "string", "optional": True}
    found = findings(workshop_file)
    assert_found(found, "error", "tools.rename_me.parameters.name", "free text")
    assert_found(found, "warning", "tools.rename_me.parameters.title", "free text")


def test_a_user_who_cannot_say_who_they_are_is_an_error(workshop_file):
    workshop_file["identify"] = []
    assert_found(findings(workshop_file), "error", "identify", "nothing the user can say")


def test_an_entity_that_several_rows_share_is_an_error(workshop_file):
    parameter = workshop_file["tools"]["list_jobs"]["parameters"]["kind"]
    parameter["entity"] = parameter.pop("match")
    found = findings(workshop_file)
    assert_found(found, "error", "tools.list_jobs.parameters.kind.entity", "share one jobs.kind")


def test_nobody_to_speak_is_an_error(workshop_file):
    workshop_file["user"]["where"] = "member > 1"
    assert_found(findings(workshop_file), "error", "user", "nobody may speak in state 0")


def test_a_statement_that_fails_when_run_is_an_error(workshop_file):
    workshop_file["tools"]["get_bike"]["steps"][0]["return"] = (
        "SELECT id, model, json(model) AS j FROM bikes WHERE id = :bike_id"
    )
    assert_found(findings(workshop_file), "error", "tools.get_bike", "tool_fault")


def test_a_rule_that_fails_when_run_is_an_error(workshop_file):
    workshop_file["policy_rules"][0]["when"] = "SELECT json(:kind)"
    found = findings(workshop_file)
    assert [f for f in found if f.level == "error" and "JSON" in f.what], found


def test_what_is_never_used_is_a_warning(workshop_file):
    workshop_file["schema"] += "CREATE TABLE spares (id TEXT PRIMARY KEY) STRICT;"
    del workshop_file["tools"]["rename_me"]["intent"]
    workshop_file["tools"]["find_person"]["intent"] = "be found"
    found = findings(workshop_file)
    assert_found(found, "warning", "schema", "no tool uses table 'spares'")
    assert_found(found, "warning", "tools.rename_me", "nobody asks for this write")
    assert_found(found, "warning", "tools.find_person.intent", "only writes use")
    assert not [f for f in found if f.level == "error"]


def test_a_write_with_questions_is_an_error(workshop_file):
    workshop_file["tools"]["move_job"]["questions"] = {"due": "when it is due"}
    assert_found(findings(workshop_file), "error", "tools.move_job.questions", "only reads use")


def test_a_policy_with_an_unknown_name_is_an_error(workshop_file):
    workshop_file["policy"] = "Dear {{ reader }},"
    assert_found(findings(workshop_file), "error", "policy", "'reader' is undefined")


# --- check -----------------------------------------------------------------------------------


def test_check_reports_what_does_not_even_compile(workshop_file):
    workshop_file["tools"]["get_bike"]["steps"][0]["return"] = "SELECT id FROM bicycles"
    (finding,) = check(Application.model_validate(workshop_file))
    assert finding.level == "error"
    assert finding.where == "workshop: tools.get_bike.steps[0].return"
    assert "no such table" in finding.what
    assert str(finding).startswith("error: workshop: tools.get_bike")


def test_check_of_a_sound_application_is_empty(workshop):
    assert check(workshop.application) == []


# --- determinism -----------------------------------------------------------------------------


def test_the_lint_finds_the_same_twice(workshop_file):
    workshop_file["known"]["bikes"] = ["model"]
    assert findings(workshop_file) == findings(workshop_file)
    assert len(findings(workshop_file)) > 1


def test_a_seeded_state_has_one_key_in_every_process(workshop):
    program = (
        "import sys\n"
        "from simulators.sql.engine import Engine\n"
        "from simulators.sql.lint import state_key\n"
        "from simulators.sql.load import load_application\n"
        "print(state_key(Engine(load_application('bank')), 4))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    from simulators.sql.load import load_application

    bank = Engine(load_application("bank"))
    assert run.stdout.strip() == state_key(bank, 4)
    assert state_key(bank, 4) != state_key(bank, 5)


ENDLESS = """SELECT 1 WHERE 0 < (
  WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c)"""


def endless(step):
    """Return the library with an endless query in a tool that most goals look something up with."""
    document = read_yaml(BOOKS.read_text(encoding="utf-8"))
    document["tools"]["search_books"]["steps"].insert(0, step)
    return Application.model_validate(document)


@pytest.mark.parametrize(
    ("step", "path"),
    [
        ({"require": ENDLESS, "error": "never", "message": "never"}, "steps[0].require"),
        ({"let": {"slow": ENDLESS}}, "steps[0].let.slow"),
    ],
)
def test_a_query_without_an_end_stops_the_lint_within_seconds_and_is_named(step, path):
    begun = time.process_time()
    report = lint(Engine(endless(step)))
    assert time.process_time() - begun < 20
    (found,) = [f for f in report.errors if "takes too long" in f.what]
    assert found.where == f"library: tools.search_books.{path}"
    assert "SELECT 1 WHERE 0 < ( WITH RECURSIVE c(n) AS" in found.what
    assert "\n" not in str(found)
    assert "end every recursion" in found.remedy
