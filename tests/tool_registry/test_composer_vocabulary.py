"""The notation of vocabularies: what is read, and what is refused with a place and a remedy."""

import re
from pathlib import Path

import pytest

from synth.core.errors import BadApplication
from tool_registry.composer.vocabulary import names, plural, read, vocabulary

DOCS = Path(__file__).parents[2] / "docs" / "extending.md"


def documented():
    section = DOCS.read_text(encoding="utf-8").split("## A vocabulary of the composer")[1]
    return re.search(r"```yaml\n(.*?)```", section, re.DOTALL)[1]


def test_the_documented_vocabulary_is_read():
    category = read("reading", documented())
    loan = category.entities["loan"]
    assert category.owner.attributes["fine"].ask == "how much I owe"
    assert category.entities["book"].names[1] == "Winter Bees"
    assert (loan.live, loan.ended) == (("ordered", "on_loan"), ("returned", "cancelled"))
    assert (loan.ahead, loan.behind) == ({"ordered"}, {"returned"})
    assert loan.acts["extend"].sets == ("day",)
    assert [act.name for act in loan.acts.values() if act.final] == ["return"]
    weeks = loan.attributes["weeks"]
    assert (weeks.low, weeks.high, weeks.unit, weeks.change) == (1, 6, "weeks", True)
    assert loan.attributes["fee"].formula == "{weeks} * 50"
    assert loan.rules[0].numbers == ("10", "12")


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("int 1..6 weeks", "integer 1..6", "attribute weeks"),
        ("int 1..6 weeks", "int one..six", "expected a range"),
        ("on_loan => returned", "on_loan => eaten", "no such state"),
        ("with day", "with price", "no such attribute"),
        ("on_loan -> on_loan with day", "returned -> on_loan", "what has ended cannot go on"),
        ("    once: book", "    onec: book", "unknown keys"),
        ("| Nobody who owes more than {n}.00 borrows. | 10, 12", "", "expected `act"),
        ("handoff:", "hand_off:", "handoff"),
        ("desks:", "desks: [", "not a vocabulary"),
    ],
)
def test_what_is_not_in_the_notation_is_refused(old, new, what):
    text = documented()
    assert old in text
    with pytest.raises(BadApplication, match=re.escape(what)) as error:
        read("reading", text.replace(old, new, 1))
    assert error.value.where == "reading.yaml"
    assert "docs/extending.md" in error.value.remedy


@pytest.mark.parametrize(
    ("one", "several"),
    [("copy", "copies"), ("box", "boxes"), ("day", "days"), ("parcel", "parcels")],
)
def test_plurals(one, several):
    assert plural(one) == several


@pytest.mark.parametrize("category", names())
def test_references_lead_to_things_of_the_same_file(category):
    entities = vocabulary(category).entities
    for entity in entities.values():
        assert all(entities[to].thing for to in entity.references)
        assert not entity.of or not entities[entity.of].thing
        for path in filter(None, (entity.fills, entity.needs)):
            thing, _, attribute = path.partition(".")
            assert attribute in entities[thing].attributes
            assert thing in entity.references
        for rule in entity.rules:
            assert rule.act == "create" or rule.act in entity.acts
        for attribute in entity.attributes.values():
            assert attribute.kind != "flag" or attribute.about.startswith("Whether ")
