"""Was the user told? Accepted variants, near misses, hostile answers."""

import json

import pytest

from synth.core.types import Message, OutputValue, StopReason, TaskKind, Trajectory
from synth.judge.evidence import Evidence
from synth.judge.outputs import Telling

LOANS = {
    "result": [
        {"id": "L1", "title": "Dune", "due": "2026-03-05", "fee": 1250, "status": "overdue"},
        {"id": "L2", "title": "Emma", "due": "2026-04-09", "fee": 300, "status": "on_loan"},
    ],
    "count": 2,
    "insured": True,
    "points": 140,
    "opens": "09:30",
    "room": "2.10",
    "phone": "+43 664 123456",
    "doctor": "Dr. Amelie Brandner",
    "languages": "German, English",
    "rating": 4.3333,
}
DUE = OutputValue(label="due date", type="date", value="2026-03-05")
FEE = OutputValue(label="fee", type="money", value=1250, currency="EUR")
COUNT = OutputValue(label="count of loans", type="integer", value=2)
POINTS = OutputValue(label="points", type="integer", value=140)
STATUS = OutputValue(label="status", type="text", value="overdue")
INSURED = OutputValue(label="insured", type="boolean", value=True)
ASKED = "I want to know whether my loan is overdue, on loan or returned."


def problem(answer, *outputs, user=ASKED, result=LOANS):
    answers = [answer] if isinstance(answer, str) else answer
    texts = [("system", "Rule 7: fees are due in 30 days."), ("user", user)]
    if result is not None:
        texts.append(("tool", result if isinstance(result, str) else json.dumps(result)))
    for text in answers:
        texts += [("assistant", text), ("user", "Hm.")]
    trajectory = Trajectory(
        episode="e", task="t", agent="a", world="w", kind=TaskKind.LOOKUP, real=False, seed=1,
        messages=tuple(Message(role=role, content=text) for role, text in texts),
        steps=(), diff=(), stop=StopReason.USER_DONE, players={},
    )  # fmt: skip
    return Telling(outputs, Evidence(trajectory)).problem()


@pytest.mark.parametrize(
    ("answer", "outputs"),
    [
        ("It is due on 5 March 2026.", [DUE]),
        ("Due date: 2026-03-05", [DUE]),
        ("**Due date**: March 5th, 2026", [DUE]),
        ("Your loan of Dune is due on 5 March.", [DUE]),
        ("It is not overdue: it is due on 5 March 2026.", [DUE]),
        ("You can return it no later than 5 March 2026.", [DUE]),
        ("It is not due before 5 March 2026.", [DUE]),
        ("Dune is due on 5 March 2026, Emma on 9 April 2026.", [DUE]),
        ("The fee is 12.50 EUR.", [FEE]),
        ("You owe €12,50 in all.", [FEE]),
        ("You cannot be charged more than 12.50 EUR.", [FEE]),
        ("The fee for 1 book is 12.50 EUR, due on 5 March 2026.", [FEE, DUE]),
        ("You have two loans.", [COUNT]),
        ("There are 2 loans on your card.", [COUNT]),
        ("You have 140 points.", [POINTS]),
        ("Your loan is overdue.", [STATUS]),
        ("Status: Overdue", [STATUS]),
        ("You asked whether it is overdue, on loan or returned: It is overdue.", [STATUS]),
        ("Yes, you are insured.", [INSURED]),
        ("Insured: yes.", [INSURED]),
        ("You are insured.", [INSURED]),
        ("We open at 9:30 am.", [OutputValue(label="opens", type="text", value="09:30")]),
        ("It is room 2.10.", [OutputValue(label="room", type="text", value="2.10")]),
        ("Call +43 664 12 34 56.",
         [OutputValue(label="phone", type="text", value="+43 664 123456")]),
        ("You see Dr. Amelie Brandner.",
         [OutputValue(label="doctor", type="text", value="Dr. Amelie Brandner")]),
        ("She speaks English and German.",
         [OutputValue(label="languages", type="text", value="German, English")]),
        ("It is rated 4.33.", [OutputValue(label="rating", type="number", value=4.3333)]),
        ("Emma is on loan.", [OutputValue(label="status", type="text", value="on_loan")]),
    ],
)  # fmt: skip
def test_usual_ways_to_tell_a_value_are_accepted(answer, outputs):
    assert problem(answer, *outputs) is None


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        ("It is due soon.", DUE),
        ("It is due on 6 March 2026.", DUE),
        ("It is due on 5 March 2025.", DUE),
        ("It is not due on 5 March 2026.", DUE),
        ("It is not due on Thursday, 5 March 2026.", DUE),
        ("Is it due on 5 March 2026?", DUE),
        ("If it is due on 5 March 2026, tell me.", DUE),
        ("Maybe 5 March 2026.", DUE),
        ("The fee is 12.05 EUR.", FEE),
        ("The fee is 1250 EUR.", FEE),
        ("The fee is 12.50 USD.", FEE),
        ("The fee is about 12.50 EUR.", FEE),
        ("The fee is 112.50 EUR.", FEE),
        ("There is no fee of 12.50 EUR.", FEE),
        ("12.50 EUR is not the fee.", FEE),
        ("The code is R-12.50.", FEE),
        ("You have 20 loans.", COUNT),
        ("Loan L-2 it is.", COUNT),
        ("You have 1400 points.", POINTS),
        ("Your loan is not overdue.", STATUS),
        ("I checked whether it is overdue.", STATUS),
        ("Overduex.", STATUS),
        ("No, you are not insured.", INSURED),
        ("You aren't insured.", INSURED),
        ("I will find out whether you are insured.", INSURED),
        ("All done!", INSURED),
    ],
)
def test_near_misses_are_not_answers(answer, output):
    assert problem(answer, output) is not None


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (ASKED, STATUS),  # the echo of the question
        ("Whether your loan is overdue, on loan or returned: done.", STATUS),
        ("It is overdue or on loan.", STATUS),
        ("It is on loan, returned or overdue.", STATUS),
        ("It is overdue and on loan.", STATUS),
        ("It is due on 4 March 2026, 5 March 2026, 6 March 2026 and 7 March 2026.", DUE),
        ("It is due on 5 March 2026 or 6 March 2026.", DUE),
        ("\n".join(f"- {day} March 2026" for day in range(1, 29)), DUE),
        ("The fee is 12.50 EUR, 13.00 EUR, 14.00 EUR or so.", FEE),
        ("\n".join(f"{n} EUR\n{n}.50 EUR" for n in range(5, 20)), FEE),
        ("You have 1, 2, 3, 4, 5, 6, 7, 8, 9 loans.", COUNT),
        (" ".join(f"It is {n}." for n in range(100, 200)), POINTS),
        ("Yes and no.", INSURED),
        ("Insured: yes. Insured: no.", INSURED),
        (["The fee is 12.50 EUR.", "Sorry, the fee is 13.00 EUR."], FEE),
        (["You are insured.", "You are not insured."], INSURED),
    ],
)
def test_answers_that_pass_by_breadth_fail(answer, output):
    assert problem(answer, output) is not None


def test_the_last_correct_statement_counts_after_a_question_about_it():
    assert problem(["Do you mean 5 March 2026?", "It is due on 5 March 2026."], DUE) is None


def test_a_value_nobody_looked_up_is_a_guess_however_right():
    assert "had read" in problem("It is due on 5 March 2026.", DUE, result=None)
    assert "had read" in problem("The fee is 12.50 EUR.", FEE, result={"fee": 300})
    assert "had read" in problem("It is overdue.", STATUS, result={"x": 1}, user="Well?")


def test_small_values_have_to_be_read_under_their_own_name():
    free = OutputValue(label="overdraft limit", type="money", value=0, currency="EUR")
    assert problem("The limit is 0.00 EUR.", free, result={"overdraft_limit": 0}) is None
    assert problem("The limit is 0.00 EUR.", free, result={"fees_refunded": 0}) is not None
    assert problem("Insured: yes.", INSURED, result={"insured": False}) is not None
    assert problem("Insured: yes.", INSURED, result={"smoker": True}) is not None


def test_nothing_to_pay_is_told_whatever_results_call_it():
    free = OutputValue(label="amount I owe", type="money", value=0, currency="EUR")
    assert problem("You owe 0.00 EUR.", free, result={"balance": 0}) is None
    assert problem("You owe 0.00 EUR.", free, result={"points": 0}) is not None
    assert problem("You owe 0.00 EUR.", free, result={"balance": 100}) is not None


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ("Hello: I want to know whether my loan is insured.", False),
        ("I need the insured state of my loan.", False),
        ("My loan: is insured, I want to know.", True),
        ("Whether it is insured: yes.", True),
        ("Yes, it is insured.", True),
        ("Your loan is insured.", True),
        ("My loan is insured.", True),  # the user's words behind "whether"
    ],
)
def test_a_question_said_back_is_no_yes(answer, right):
    asked = "Hello: I want to know whether my loan is insured. I need the insured state of my loan."
    told = problem(answer, INSURED, user=asked, result={"insured": True})
    assert (told is None) is right


def test_a_value_is_not_put_together_from_figures_that_occur_by_chance():
    room = OutputValue(label="room", type="text", value="0.12")
    assert problem("The room is 0.12.", room, result={"id": "M12", "overdue": 0}) is not None
    assert problem("The room is 0.12.", room, result={"room": "0.12"}) is None
    report = OutputValue(label="file", type="text", value="report_2026.txt")
    assert problem("The file is report_2026.txt.", report, result="txt report, 2026") is None


def test_the_figures_of_the_system_prompt_are_no_answer():
    days = OutputValue(label="days", type="integer", value=30)
    assert problem("It is 30 days.", days) is not None


def test_results_that_are_prose_count_as_read():
    page = "Invoice 7\nTotal: 12.50 EUR\nPayable by 5 March 2026"
    assert problem("The total is 12.50 EUR, until 5 March 2026.", FEE, DUE, result=page) is None


def test_values_told_of_each_others_subject_are_not_told():
    dune = OutputValue(label="due date of Dune", type="date", value="2026-03-05")
    emma = OutputValue(label="due date of Emma", type="date", value="2026-04-09")
    right = (
        "Dune is due on 5 March 2026 and Emma on 9 April 2026.",
        "Dune and Emma are due on 5 March 2026 and 9 April 2026.",
        "On 9 April 2026 Emma is due, and on 5 March 2026 Dune.",
        "Due date of Dune: 5 March 2026.\nDue date of Emma: 9 April 2026.",
    )
    wrong = (
        "Dune is due on 9 April 2026 and Emma on 5 March 2026.",
        "Due date of Dune: 9 April 2026.\nDue date of Emma: 5 March 2026.",
    )
    assert [problem(text, dune, emma) for text in right] == [None] * 4
    assert all("is told of" in problem(text, dune, emma) for text in wrong)


def test_the_figures_of_a_label_are_no_answer():
    visitors = OutputValue(label="visitors in week 2", type="integer", value=2)
    result = {"visitors": 2, "week": 2}
    assert problem("The visitors in week 2 are many.", visitors, result=result) is not None
    assert problem("The visitors in week 2 were 2.", visitors, result=result) is None


def test_that_there_is_nothing_has_to_be_said():
    note = OutputValue(label="note", type="text", value=None)
    assert problem("There is no note.", note, result={"note": None}) is None
    assert problem("The note is not set.", note, result={"note": None}) is None
    assert problem("The note says hello.", note, result={"note": None}) is not None


def test_a_long_message_is_read_in_no_time():
    text = "It is 1, 2 or 3 and so on, (see 4). " * 400
    assert problem(text, POINTS) == "points: not told"
