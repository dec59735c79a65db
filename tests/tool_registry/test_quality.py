"""A score says how well a definition tells a model what a tool does, and the reasons say why."""

import pytest

from synth.core.types import Effect, Provenance, ToolSpec
from tool_registry.quality import quality_of


def spec(description, properties=None, *, required=None, name="list_rooms", **more):
    schema = {"type": "object", "properties": properties or {}}
    if required is not None:
        schema["required"] = required
    return ToolSpec(
        name=name,
        description=description,
        parameters=schema,
        provenance=Provenance(source="x"),
        **({"effect": Effect.READ} | more),
    )


GOOD = "List the free rooms of a day, with price and view; returns at most 50 of them."
DAY = {"day": {"type": "string", "description": "YYYY-MM-DD"}}


def test_a_definition_that_says_everything_loses_nothing():
    assert quality_of(spec(GOOD, DAY, required=["day"])) == (1.0, [])


@pytest.mark.parametrize(
    ("found", "score", "reason"),
    [
        (spec("", DAY, required=["day"]), 0.45, "no description"),
        (spec("List rooms", DAY, required=["day"]), 0.45, "a description of 2 words"),
        (spec("Lists the rooms.", DAY, required=["day"]), 0.45, "the description repeats the name"),
        (spec(GOOD, {"day": {"type": "string"}}, required=["day"]), 0.7,
         "1 of 1 parameters without a description"),
        (spec(GOOD, {"day": {"description": "a day"}}, required=["day"]), 0.85,
         "1 of 1 parameters without a type"),
        (spec(GOOD, {"f": {"type": "object", "description": "filter"}}, required=[]), 0.9,
         "1 of 1 parameters with an object or list of unknown content"),
        (spec(GOOD, {"f": {"type": "array", "description": "tags"}}, required=[]), 0.9,
         "1 of 1 parameters with an object or list of unknown content"),
        (spec(GOOD, DAY), 0.95, "no word on what must be given"),
        (spec(GOOD.split(";")[0], DAY, required=["day"]), 0.95, "no word on what comes back"),
        (spec(GOOD, DAY, required=["day"], effect=Effect.UNKNOWN), 0.95,
         "unknown whether it changes anything"),
        (spec(GOOD + " TODO: tell more", DAY, required=["day"]), 0.7,
         "left over from a template: TODO:"),
        (spec(GOOD + " For {{ user }}.", DAY, required=["day"]), 0.7,
         "left over from a template: {{ user }}"),
        (spec(GOOD + " x" * 1000, DAY, required=["day"]), 0.95,
         "a description of 2078 characters"),
    ],
)  # fmt: skip
def test_each_fault_costs_its_points_and_is_named(found, score, reason):
    got, reasons = quality_of(found)
    assert got == pytest.approx(score)
    assert reason in reasons


def test_parameters_that_the_description_tells_of_are_described():
    text = f"{GOOD}\n\nArgs:\n    day: which one\n    view (str): sea or court\n"
    undescribed = {"day": {"type": "string"}, "view": {"type": "string"}, "x": {"type": "string"}}
    _, reasons = quality_of(spec(text, undescribed, required=[]))
    assert reasons == ["1 of 3 parameters without a description"]


def test_a_todo_list_is_no_residue():
    text = "Add an item to the todo list of a user and return the whole list."
    assert quality_of(spec(text, DAY, required=["day"], name="add_item")) == (1.0, [])


def test_a_description_in_chinese_is_not_short_for_lack_of_spaces():
    found = spec("查询指定日期的空闲房间并返回价格和景观信息", DAY, required=["day"])
    assert not any("words" in reason for reason in quality_of(found)[1])


def test_what_a_person_should_read_first_costs_points_and_more_parameters_cost_a_share():
    assert quality_of(spec(GOOD, DAY, required=["day"]), ["suspicious"])[0] == pytest.approx(0.8)
    many = {f"p{n}": {"type": "string", "description": "x"} for n in range(21)}
    assert quality_of(spec(GOOD, many, required=[])) == (0.9, ["21 parameters"])


def test_the_score_is_never_below_zero_and_the_worst_reason_comes_first():
    bad = {f"p{n}": {} for n in range(30)}
    score, reasons = quality_of(spec("", bad, effect=Effect.UNKNOWN), ["invisible"])
    assert score == 0.0
    assert reasons[0] == "no description"


def test_the_score_agrees_with_a_reader_on_which_of_two_real_tools_is_better_documented(
    real, labelled
):
    """58 of 100 pairs drawn at random; of the others a reader could not say, or not see enough."""
    with real.read() as con:
        scores = dict(con.execute("SELECT tool, quality FROM catalogue").fetchall())
    pairs = labelled("better_documented")
    agreed = sum(scores[better] > scores[worse] for better, worse in pairs)
    assert len(pairs) == 58
    assert agreed >= 50
