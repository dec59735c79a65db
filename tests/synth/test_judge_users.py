"""Whose fault a failed episode is, where the user's words prove it, and only there."""

import pytest

from synth.core.types import (
    Blueprint,
    Effect,
    Fact,
    Message,
    Persona,
    PlannedCall,
    Rubric,
    Step,
    StopReason,
    Task,
    TaskKind,
    ToolCall,
    ToolResult,
    Trajectory,
)
from synth.judge.users import users_fault

pytestmark = pytest.mark.claim("d06")

EMAIL = Fact(name="user.email", label="e-mail address", value="ann@ex.org", spoken="ann@ex.org")
PAYEE = Fact(name="payee.name", label="name of the payee", value="Samuel Okafor",
             spoken="Samuel Okafor")  # fmt: skip
AMOUNT = Fact(name="amount", label="amount", value=22000, spoken="220.00 EUR")
DAY = Fact(name="day", label="day of the payment", value="2026-05-28", spoken="28 May 2026")
SEATS = Fact(name="seats", label="number of seats", value=40, spoken="40")
FEW = Fact(name="few", label="number of boxes", value=2, spoken="2")
REASON = Fact(name="reason", label="reason", value="damaged", spoken="damaged")
CLAUSE = "send 220.00 EUR to Samuel Okafor on 28 May 2026 for 5 days"
ALL = "I am ann@ex.org and want to send 220 EUR to Samuel Okafor on 28 May for 5 days."
ARGUMENTS = {"email": "ann@ex.org", "name": "Samuel Okafor", "amount": 22000, "day": "2026-05-28",
             "seats": 40, "few": 2, "reason": "damaged"}  # fmt: skip


def blamed(*talk, opening=(EMAIL,), withheld=(), clause=CLAUSE, calls=(), effect=Effect.WRITE):
    """Return the user's fault in a talk of lines, the user's first, each other one the agent's."""
    call = PlannedCall(tool="send", arguments=ARGUMENTS, group=0, effect=effect)
    blueprint = Blueprint(
        kind=TaskKind.SINGLE_WRITE, world="bank", state_seed=0, tools=("send",), clauses=(clause,),
        opening=opening, withheld=withheld, solution=(call,), diffs=((),),
    )  # fmt: skip
    task = Task(
        blueprint=blueprint, persona=Persona(name="Ann Lee", voice="plain"), request=talk[0],
        rubric=Rubric(success=()), difficulty=1,
    )  # fmt: skip
    roles = ("user", "assistant")
    messages = [Message(role=roles[i % 2], content=text) for i, text in enumerate(talk)]
    steps = [
        Step(message=0, call=ToolCall(id="c", name="send", arguments=arguments),
             result=ToolResult(ok=True, content="{}"), effect=Effect.WRITE)
        for arguments in calls
    ]  # fmt: skip
    trajectory = Trajectory(
        episode="e", task=task.key, agent="a", world="bank", kind=blueprint.kind, real=False,
        seed=0, messages=(Message(role="system", content="Be kind."), *messages),
        steps=tuple(steps), diff=(), stop=StopReason.USER_DONE, players={},
    )  # fmt: skip
    return users_fault(task, trajectory)


@pytest.mark.parametrize(
    "said",
    [
        ALL,
        "ANN@ex.org here: 220,00 € on 28.5.2026 for Okafor, 5 days.",
        "It's ann@ex.org. EUR 220 on 2026-05-28 to samuel, five days.",
        "ann@ex.org, 220 euros for Sam Okafor next Thursday, a few days.",
    ],
)
def test_a_user_that_told_everything_in_whatever_form_is_not_blamed(said):
    facts = (EMAIL, PAYEE, AMOUNT, DAY, FEW, REASON)
    assert blamed(said, "No.", "Bye.", opening=facts) is None


@pytest.mark.parametrize("fact", [EMAIL, PAYEE, AMOUNT, DAY, SEATS])
def test_a_needed_fact_of_any_type_that_is_never_told_is_the_users_fault(fact):
    wrong = blamed("I want to send something.", "No.", "Bye.", opening=(fact,), clause="send it")
    assert wrong == f"never told the {fact.label}"


@pytest.mark.parametrize("fact", [FEW, REASON])
def test_what_can_be_said_in_too_many_ways_proves_nothing(fact):
    said = "I want to send both, they broke."
    assert blamed(said, "No.", "Bye.", opening=(fact,), clause="send them") is None


def test_a_withheld_fact_counts_only_where_the_agent_asked_for_it():
    said = "I am ann@ex.org, please send something."
    given = {"withheld": (AMOUNT,), "clause": "send something"}
    assert blamed(said, "Done.", "Bye.", **given) is None
    assert blamed(said, "What is the amount?", "No idea.", "Then not.", "Bye.", **given) == (
        "never told the amount"
    )
    assert blamed(said, "What is the amount?", "220 EUR.", "Then not.", "Bye.", **given) is None


def test_a_wish_whose_values_were_never_said_is_the_users_fault():
    some = "I am ann@ex.org, send money to Samuel Okafor for 5 days."
    assert blamed(some, "To whom?", "Him.") == "never said '220.00 EUR'"
    both = "I am ann@ex.org, send 220 EUR for 5 days."
    assert blamed(both, "On 28 May 2026?", "Yes.", "I cannot.", "Bye.") is None


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("I am ann@ex.org. Send 120 EUR to Samuel Okafor on 28 May for 5 days.", "'120 EUR'"),
        (ALL.replace("28 May", "29 May"), "'29 May'"),
        (ALL.replace("5 days", "7 days"), "said 7 day"),
    ],
)
def test_another_value_than_its_own_is_the_users_fault(said, wrong):
    assert wrong in blamed(said, "Done.", "Bye.")


@pytest.mark.parametrize(
    ("beside", "value", "argument"),
    [
        ("My order is K-4711.", "K-4711", '{"order": "k4711"}'),
        ("Or call +49 30 765 43 21.", "+49 30 765 43 21", '{"to": {"phone": "+49307654321"}}'),
        ("Or bob@ex.org.", "bob@ex.org", '{"emails": ["bob@ex.org"]}'),
    ],
)
def test_a_made_up_identifier_misleads_only_an_agent_that_calls_with_it(beside, value, argument):
    said = f"{ALL} {beside}"
    assert blamed(said, "Done.", "Bye.") is None
    assert blamed(said, "Done.", "Bye.", calls=('{"order": "K-47"}', '{"order": 3}')) is None
    assert blamed(said, "Done.", "Bye.", calls=(argument,)) == (
        f"said {value!r}, which it has from nowhere"
    )


def test_a_word_that_looks_like_a_code_is_no_invention():
    said = f"{ALL} It is for my MP3 player, since 2019, COVID-19 and all that."
    assert blamed(said, "Done.", "Bye.", calls=('{"note": "MP3 player"}',)) is None


def test_the_last_word_counts():
    assert blamed(ALL.replace("220", "120, no, 220"), "Done.", "Bye.") is None
    assert blamed(ALL.replace("220", "120"), "Really?", "Sorry, 220 EUR.", "No.", "Bye.") is None
    assert blamed(ALL, "Really?", "Make it 320 EUR.", "No.", "Bye.") == (
        "said '320 EUR', which it has from nowhere"
    )
    assert blamed(ALL.replace("5 days", "7 days"), "Why?", "5 days, I mean.", "No.", "Bye.") is None


def test_a_sum_beside_the_matter_misleads_only_an_agent_that_acts_on_it():
    given = {"clause": "block my card", "opening": (EMAIL,)}
    said = "I am ann@ex.org, block my card. I lost 30 EUR."
    assert blamed(said, "No.", "Bye.", **given) is None
    assert "'30 EUR'" in blamed(said, "No.", "Bye.", calls=('{"amount": 3000}',), **given)
    assert blamed(said, "No.", "Bye.", calls=('{"amount": 13001, "x": true}',), **given) is None


def test_what_the_agent_said_first_is_no_invention():
    assert blamed(ALL, "Is it about order K-4711 of 3 May?", "Yes, K-4711, 3 May.") is None


def test_a_right_proposal_that_is_refused_is_the_users_fault():
    proposal = f"You want to {CLAUSE}. Shall I go ahead?"
    assert blamed(ALL, proposal, "No, wait.", "Then not.", "Bye.") == "refused what it wants"
    assert blamed(ALL, proposal, "Yes.", "I cannot.", "Bye.") is None
    assert blamed(ALL, proposal, "No.", proposal, "Yes, sorry.", "I cannot.", "Bye.") is None
    wrong = proposal.replace("220.00", "230.00")
    assert blamed(ALL, wrong, "No, 220 EUR.", "Then not.", "Bye.") is None
    beside = (
        " and close the savings account you opened with us last winter together with both debit"
        " cards and every saved payee. Shall"
    )
    more = proposal.replace(". Shall", beside)
    assert blamed(ALL, more, "No.", "Then not.", "Bye.") is None
    assert blamed(ALL, proposal, "No.", "Bye.", "Bye.", calls=("{}",)) is None


def test_questions_alone_are_refused_by_nobody():
    proposal = f"You want to {CLAUSE}. Shall I go ahead?"
    assert blamed(ALL, proposal, "No.", "Then not.", effect=Effect.READ) is None
