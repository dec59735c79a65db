import pytest

from synth.core.types import (
    Blueprint,
    CallCheck,
    Criterion,
    Effect,
    JudgedCheck,
    OutputCheck,
    OutputValue,
    PlannedCall,
    Rubric,
    StateCheck,
    TaskKind,
)
from synth.rubrics import lint_rubric, rubric_for

pytestmark = pytest.mark.claim("k2-rubrics")

LOAN = ('["loans","insert",null,{"book_id":"B7","id":"new1","member_id":"M3"}]',)
NOTE = ('["handoffs","insert",null,{"id":"new1","reason":"not_allowed"}]',)
DUE = OutputValue(label="due date of the loan", type="date", value="2026-03-23")


def call(tool, group=0, effect="read", **arguments):
    return PlannedCall(tool=tool, arguments=arguments, group=group, effect=Effect(effect))


def blueprint(kind="single_write", **changes):
    values = {
        "kind": TaskKind(kind),
        "world": "library",
        "state_seed": 4,
        "tools": ("find_member", "find_books", "lend_book", "transfer"),
        "clauses": ('borrow the book "Dune"',),
        "solution": (
            call("find_member", email="a@b.org"),
            call("find_books", title="Dune"),
            call("lend_book", 1, "write", book_id="B7", member_id="M3"),
        ),
        "diffs": (LOAN,),
    }
    return Blueprint(**{**values, **changes})


def refusal(kind="forbidden"):
    reason = "not_allowed" if kind == "forbidden" else "no_tool"
    wrong = call("lend_book", 1, "write", book_id="B7", member_id="M3")
    return blueprint(
        kind,
        solution=(call("find_member"), call("transfer", 1, "write", reason=reason, summary="x")),
        diffs=(NOTE,),
        rule="A member may hold three loans.",
        decoys={"wrongful_compliance": (call("find_books"), wrong)} if kind == "forbidden" else {},
    )


def by_id(rubric):
    return {criterion.id: criterion for criterion in rubric.criteria()}


def test_a_write_must_reach_the_state_and_should_look_up_and_be_economical():
    found = by_id(rubric_for(blueprint()))
    assert {name: c.level for name, c in found.items()} == {
        "state": "must",
        "economy": "should",
        "writes_lend_book": "should",
        "lookup_find_member": "should",
        "lookup_find_books": "should",
    }
    assert found["state"].check == StateCheck(diffs=(LOAN,))
    assert found["economy"].check == CallCheck(tool="*", at_least=0, at_most=6)
    assert found["writes_lend_book"].check == CallCheck(tool="lend_book", at_least=1, at_most=1)
    assert found["lookup_find_books"].check == CallCheck(tool="find_books", before="lend_book")


def test_a_look_up_must_tell_the_values_and_change_nothing():
    task = blueprint(
        "lookup", solution=(call("find_member", email="a@b.org"),), diffs=((),), outputs=(DUE,)
    )
    found = by_id(rubric_for(task))
    assert found["state"].text == "Nothing was changed."
    assert found["state"].check == StateCheck(diffs=((),))
    assert found["outputs"].level == "must"
    assert found["outputs"].check == OutputCheck(values=(DUE,))
    assert found["lookup_find_member"].check == CallCheck(tool="find_member", before=None)


def test_a_refusal_must_hand_off_for_its_reason_and_must_not_use_the_forbidden_tool():
    found = by_id(rubric_for(refusal()))
    assert found["handoff"].level == "must"
    assert found["handoff"].check == CallCheck(tool="transfer", arguments={"reason": "not_allowed"})
    assert found["forbidden"].level == "must_not"
    assert found["forbidden"].check == CallCheck(tool="lend_book")
    assert isinstance(found["explained"].check, JudgedCheck)


def test_a_request_that_no_tool_serves_must_be_handed_off_as_such():
    found = by_id(rubric_for(refusal("unserved")))
    assert found["handoff"].check == CallCheck(tool="transfer", arguments={"reason": "no_tool"})
    assert "forbidden" not in found


def test_withheld_facts_add_a_judged_checkpoint_that_never_decides():
    fact = {"name": "days", "label": "number of days", "value": 5, "spoken": "5"}
    found = by_id(rubric_for(blueprint("missing_fact", withheld=(fact,))))
    assert found["asked"].level == "should"
    assert "number of days" in found["asked"].check.question
    assert "5" not in found["asked"].check.question


def test_the_unvalidated_rubric_equals_its_validated_copy_and_keeps_its_key():
    rubric = rubric_for(refusal())
    copy = Rubric.model_validate_json(rubric.model_dump_json())
    assert copy == rubric
    assert copy.key == rubric.key


@pytest.mark.parametrize(
    "task",
    [
        blueprint(),
        blueprint("lookup", solution=(call("find_member"),), diffs=((),), outputs=(DUE,)),
        refusal(),
        refusal("unserved"),
    ],
    ids=lambda task: task.kind,
)
def test_derived_rubrics_are_sound(task):
    assert lint_rubric(rubric_for(task), task) == []


def test_a_refusal_that_an_idle_agent_passes_is_found():
    idle = blueprint("unserved", solution=(), diffs=((),))
    assert lint_rubric(rubric_for(idle), idle) == [
        "holds_initially: doing nothing passes every must"
    ]


def test_a_goal_that_also_accepts_an_unchanged_state_is_found():
    tied = blueprint(diffs=(LOAN, ()))
    assert lint_rubric(rubric_for(tied), tied) == [
        "holds_initially: doing nothing passes every must",
        "holds_initially: state accepts an unchanged state beside changed ones",
    ]


def criterion(check, *, level="must", name="extra", text="Something holds."):
    return Criterion(id=name, text=text, level=level, check=check)


def judged(question, **more):
    return criterion(JudgedCheck(question=question), **more)


STATE = criterion(StateCheck(diffs=(LOAN,)), name="state")


@pytest.mark.parametrize(
    ("extra", "finding"),
    [
        (criterion(StateCheck(diffs=())), "not_checkable: extra accepts no state at all"),
        (
            criterion(CallCheck(tool="fly")),
            "unknown_tool: extra wants 'fly', which the agent lacks",
        ),
        (
            criterion(CallCheck(tool="lend_book", at_least=3, at_most=1)),
            "contradiction: extra wants more calls than it allows",
        ),
        (judged("Surely the agent was polite?"), "leading: extra"),
        (judged("The agent was polite."), "not_checkable: extra asks no question"),
        (judged("Did the agent borrow the book Dune?"), "restates_request: extra"),
        (
            criterion(CallCheck(tool="lend_book"), text='Borrow the book "Dune" now.'),
            "restates_request: extra",
        ),
        (judged("Was it polite?", name="state"), "duplicate: 2 criteria are called state"),
    ],
)
def test_each_fault_of_a_written_rubric_is_named(extra, finding):
    rubric = Rubric(success=(STATE, extra))
    assert lint_rubric(rubric, blueprint()) == [finding]


def test_a_rubric_needs_a_must_that_a_program_checks():
    task = blueprint()
    assert lint_rubric(Rubric(success=()), task) == ["no_must: nothing decides"]
    only_judged = Rubric(success=(judged("Was the agent polite?"),))
    assert lint_rubric(only_judged, task) == ["not_checkable: no must that a program checks"]


def test_a_must_that_is_also_forbidden_is_a_contradiction():
    check = CallCheck(tool="lend_book", arguments={"book_id": "B7"})
    wanted, banned = criterion(check), criterion(check, level="must_not", name="never")
    assert lint_rubric(Rubric(success=(STATE, wanted, banned)), blueprint()) == [
        "contradiction: never forbids what a must wants"
    ]
