"""What elimination drops, by which rule; what it lets pass."""

import pytest

from simulators.sql.load import load_application
from synth.core.application import Application
from synth.pipeline.proving import prove
from tool_registry.edits import remade, renamed_parameter, with_tools
from tool_registry.elimination import RULES, Example, Pool, Proof, behaviour, examine


@pytest.fixture(scope="module")
def bank() -> Application:
    return remade(load_application("bank"), languages={})


def sound(application: Application) -> Proof:
    """Say that every tool answers, without running any."""
    return Proof((), {name: Example({}, {"x": 1}, "invalid") for name in application.specs})


def described(application: Application, text: str) -> Application:
    name = next(iter(application.specs))
    return with_tools(application, {name: remade(application.tools[name], description=text)})


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("A tool.", "empty_words"),
        ("", "empty_words"),
        ("Does what the rewritten tool did before.", "copied_words"),
        ("Shows {{ account }} of a customer.", "copied_words"),
        ("TODO say what it shows of accounts.", "copied_words"),
    ],
)
def test_a_description_that_says_nothing_or_was_left_over_is_dropped(
    bank: Application, text: str, rule: str
) -> None:
    found, _ = examine(described(bank, text), None, sound)
    assert found is not None
    assert found.rule == rule


def test_things_to_do_are_no_left_over_words(bank: Application) -> None:
    found, _ = examine(described(bank, "Move a task from todo to doing."), None, sound)
    assert found is None


def test_other_names_and_words_alone_are_no_gain(bank: Application) -> None:
    found, _ = examine(described(bank, "Find customers of the bank by name."), bank, sound)
    assert found is not None
    assert found.rule == "no_gain"


def test_a_new_condition_is_a_gain(bank: Application) -> None:
    rules = bank.policy_rules
    child = remade(bank, policy_rules=(*rules, remade(rules[0], name="another", when="SELECT 0")))
    assert examine(child, bank, sound)[0] is None


def test_what_the_lint_finds_drops_an_application(bank: Application) -> None:
    found, _ = examine(bank, None, lambda a: Proof(("error: bank: tools.x: broken",)))
    assert found is not None
    assert (found.rule, "broken" in found.detail) == ("unsound", True)


@pytest.mark.parametrize(
    ("example", "rule"),
    [(Example(None, {"x": 1}, "bad"), "no_example"), (Example({}, None), "no_refusal")],
)
def test_each_tool_has_a_call_that_succeeds_and_one_that_fails(
    bank: Application, example: Example, rule: str
) -> None:
    name = next(iter(bank.specs))

    def lacking(application: Application) -> Proof:
        return Proof((), {**sound(application).examples, name: example})

    found, _ = examine(bank, None, lacking)
    assert found is not None
    assert (found.rule, found.detail) == (rule, name)


def test_too_many_parameters_are_a_bad_schema(bank: Application) -> None:
    name, tool = next((n, t) for n, t in bank.tools.items() if t.parameters)
    one = next(iter(tool.parameters.values()))
    many = {f"p{n}": remade(one, entity=None, match=None) for n in range(30)}
    found, _ = examine(with_tools(bank, {name: remade(tool, parameters=many)}), None, sound)
    assert found is not None
    assert found.rule == "schema"


def test_a_tool_does_the_same_under_another_name_of_its_parameters(bank: Application) -> None:
    _name, tool = next((n, t) for n, t in bank.tools.items() if len(t.parameters) > 1)
    old = next(iter(tool.parameters))
    assert behaviour(renamed_parameter(tool, old, "another_name")) == behaviour(tool)
    assert behaviour(remade(tool, description="Other words.")) == behaviour(tool)
    assert behaviour(remade(tool, effect="destructive")) != behaviour(tool)


def test_a_pool_refuses_what_it_has_and_counts_what_is_new(bank: Application) -> None:
    pool = Pool()
    assert pool.refuses(bank) is None
    assert pool.add(bank) == list(bank.specs)
    found = pool.refuses(described(bank, "Find customers of the bank by name."))
    assert found is not None
    assert found.rule == "duplicate"
    assert pool.add(described(bank, "Find customers of the bank by name.")) == []


def test_calls_that_prove_an_application_are_made_on_its_own_data() -> None:
    application = remade(load_application("mail"), languages={})
    proof = prove(application, only=())
    assert proof.findings == ()
    assert set(proof.examples) == set(application.specs)
    assert all(example.succeeds is not None for example in proof.examples.values())
    assert all(example.fails is not None for example in proof.examples.values())


def test_every_rule_is_told_in_words() -> None:
    assert all(words for words in RULES.values())
