import random

import pytest

from synth.core import voices
from synth.core.types import (
    Agent,
    Behaviour,
    Blueprint,
    Effect,
    Fact,
    Persona,
    PlannedCall,
    Task,
    TaskKind,
)
from synth.personas import sample_persona
from synth.tasks import difficulty, leaks, write_task

LOAN = ('["loans","insert",null,{"book_id":"B7","id":"new1","member_id":"M3"}]',)
NAME = Fact(name="user.name", label="name", value="Ada King", spoken="Ada King")
EMAIL = Fact(name="user.email", label="e-mail", value="ada@king.org", spoken="ada@king.org")
DAYS = Fact(name="days", label="number of days", value=12, spoken="12")
DUE = Fact(name="loan.due", label="due date", value="2026-03-23", spoken="23 March 2026")
PERSONA = Persona(name="Somebody Else", voice="plain")


def call(tool, effect="read", **arguments):
    return PlannedCall(tool=tool, arguments=arguments, group=0, effect=Effect(effect))


def blueprint(**changes):
    values = {
        "kind": TaskKind.SINGLE_WRITE,
        "world": "library",
        "state_seed": 4,
        "tools": ("find_member", "find_books", "lend_book", "transfer"),
        "clauses": ('borrow the book "Dune"',),
        "opening": (NAME,),
        "background": (EMAIL,),
        "solution": (
            call("find_member", email="ada@king.org"),
            call("find_books", title="Dune"),
            call("lend_book", "write", book_id="B0007", member_id="M0003"),
        ),
        "diffs": (LOAN,),
    }
    return Blueprint(**{**values, **changes})


def agent(system="You lend books."):
    return Agent(application="library", system=system, tools=(), behaviour=Behaviour(name="b"))


@pytest.mark.parametrize("voice", voices.names())
def test_a_request_says_every_clause_and_opening_fact_and_nothing_else_that_is_known(voice):
    goal = blueprint(
        clauses=('borrow the book "Dune"', "extend my loan"), opening=(NAME, EMAIL), background=()
    )
    task = write_task(goal, Persona(name="x", voice=voice), random.Random(3))
    for text in ('"Dune"', "Ada King", "ada@king.org"):
        assert text in task.request
    assert "B0007" not in task.request
    assert task.blueprint is goal


def test_the_persona_takes_the_name_of_the_row_that_speaks():
    assert write_task(blueprint(), PERSONA, random.Random(1)).persona.name == "Ada King"
    known_late = blueprint(opening=(EMAIL,), background=(NAME,))
    assert write_task(known_late, PERSONA, random.Random(1)).persona.name == "Ada King"
    nameless = blueprint(opening=(EMAIL,), background=())
    assert write_task(nameless, PERSONA, random.Random(1)).persona == PERSONA


def test_same_seed_same_task_and_the_unvalidated_task_equals_its_validated_copy():
    one = write_task(blueprint(), PERSONA, random.Random(7))
    two = write_task(blueprint(), PERSONA, random.Random(7))
    assert one == two
    copy = Task.model_validate_json(one.model_dump_json())
    assert copy == one
    assert copy.key == one.key


def test_difficulty_counts_calls_writes_missing_facts_and_distractors():
    read = call("find_member")
    assert difficulty(blueprint(solution=(read,), tools=("find_member",))) == 1
    assert difficulty(blueprint(solution=(), tools=("find_member",))) == 1
    assert difficulty(blueprint()) == 3 + 1
    assert difficulty(blueprint(withheld=(DAYS, DUE))) == 3 + 1 + 2
    many = (*blueprint().tools, *(f"tool_{i}" for i in range(8)))
    assert difficulty(blueprint(tools=many)) == 3 + 1 + 2


def test_an_honest_task_leaks_nothing():
    assert leaks(write_task(blueprint(), PERSONA, random.Random(1)), agent()) == []


@pytest.mark.parametrize("spoken", ["for 23 March 2026", "for 2026-03-23"])
def test_a_withheld_fact_in_the_request_is_a_leak_in_either_form(spoken):
    goal = blueprint(clauses=(f"borrow the book {spoken}",), withheld=(DUE,))
    assert leaks(write_task(goal, PERSONA, random.Random(1)), agent()) == ["withheld: loan.due"]


def test_a_longer_number_or_word_around_a_withheld_fact_is_no_leak():
    goal = blueprint(clauses=("borrow the book for 1120 days",), withheld=(DAYS,))
    assert leaks(write_task(goal, PERSONA, random.Random(1)), agent()) == []


def test_an_identifier_that_the_user_does_not_know_is_a_leak_wherever_it_stands():
    told = write_task(blueprint(clauses=("borrow copy B0007",)), PERSONA, random.Random(1))
    assert leaks(told, agent()) == []  # the clause says it: the user knows it
    honest = write_task(blueprint(), PERSONA, random.Random(1))
    assert leaks(honest, agent("Lend B0007 to everyone.")) == ["argument: B0007"]
    assert leaks(honest, agent("Lend B00071 to everyone.")) == []
    blurted = honest.model_copy(update={"request": honest.request + " It is M0003."})
    assert leaks(blurted, agent()) == ["argument: M0003"]


def test_the_text_of_the_rubric_in_the_prompt_is_a_leak():
    task = write_task(blueprint(), PERSONA, random.Random(1))
    text = task.rubric.success[0].text
    assert leaks(task, agent(f"You lend books. {text}")) == ["rubric: state"]


def test_personas_are_many_and_every_voice_speaks():
    drawn = [sample_persona(random.Random(i)) for i in range(600)]
    assert {persona.voice for persona in drawn} == set(voices.names())
    assert len({persona.name for persona in drawn}) > 500
    assert drawn[5] == sample_persona(random.Random(5))
    assert drawn[5] == Persona.model_validate_json(drawn[5].model_dump_json())
