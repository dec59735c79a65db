"""What a tool is for: which differences make another tool, and which do not."""

import pytest

from synth.core.application import Parameter, Tool
from tool_registry.edits import remade, step
from tool_registry.purpose import purpose

KEY = Parameter(type="string", entity="parcels.id", description="Identifier of the parcel")
DAY = Parameter(type="string", sets="parcels.day", format="date")
MOVE = Tool(
    description="Move a parcel to another day.",
    effect="write",
    parameters={"parcel_id": KEY, "day": DAY},
    steps=(
        step(
            require="SELECT status = 'sent' FROM parcels WHERE id = :parcel_id",
            error="not_sent",
            message="It is not sent.",
        ),
        step(write="UPDATE parcels SET day = :day, moved_on = today() WHERE id = :parcel_id"),
        step(returns="SELECT id, day FROM parcels WHERE id = :parcel_id", shape="object"),
    ),
)
SHOW = Tool(
    description="Show a parcel.",
    effect="read",
    parameters={"parcel_id": KEY},
    steps=(
        step(returns="SELECT r.id, r.day, r.status FROM parcels r WHERE r.id = :parcel_id",
             shape="object"),
    ),
)  # fmt: skip
TAKEN = {"parcel_id": KEY, "day": DAY, "note": Parameter(type="string", sets="parcels.note")}


def with_write(sql: str, **changes: object) -> Tool:
    return remade(MOVE, steps=(step(write=sql),), **changes)


def with_result(sql: str, **changes: object) -> Tool:
    return remade(SHOW, steps=(step(returns=sql, shape="object"),), **changes)


@pytest.mark.parametrize(
    "other",
    [
        remade(MOVE, description="Have it come on another day, at 5 euro cents a day."),
        remade(MOVE, parameters={"parcel": KEY, "new_day": DAY}),
        remade(MOVE, parameters={"parcel_id": remade(KEY, optional=True), "day": DAY}),
        with_write("UPDATE parcels SET day = :day WHERE id = :parcel_id"),
        remade(MOVE, steps=(*MOVE.steps[1:],)),
        remade(
            MOVE,
            steps=(
                step(write="INSERT INTO parcel_log (id, act) VALUES (next_id('L'), 'move')"),
                *MOVE.steps,
            ),
        ),
        remade(
            MOVE,
            parameters={
                "parcel_id": KEY,
                "details": Parameter(type="object", properties={"day": DAY}),
            },
        ),
    ],
    ids=["words", "names", "optional", "stamp", "condition", "log", "nested"],
)
def test_wording_style_and_what_goes_along_make_no_other_tool(other: Tool) -> None:
    assert purpose(other) == purpose(MOVE)


@pytest.mark.parametrize(
    "other",
    [
        remade(MOVE, effect="destructive"),
        remade(MOVE, by="user"),
        remade(MOVE, parameters=TAKEN),
        remade(MOVE, parameters={"parcel_id": remade(KEY, entity="letters.id"), "day": DAY}),
        with_write("UPDATE parcels SET due = :day WHERE id = :parcel_id"),
        with_write("UPDATE letters SET day = :day WHERE id = :parcel_id"),
        with_write("UPDATE parcels SET day = :day, status = 'moved' WHERE id = :parcel_id"),
        with_write("DELETE FROM parcels WHERE id = :parcel_id AND day = :day"),
    ],
    ids=["effect", "holder", "parameter", "entity", "column", "table", "state", "delete"],
)
def test_another_effect_entity_or_parameter_makes_another_tool(other: Tool) -> None:
    assert purpose(other) != purpose(MOVE)


def test_the_column_that_a_formula_reads_is_not_changed() -> None:
    price = "(SELECT price FROM services WHERE id = service_id)"
    one = with_write(f"UPDATE parcels SET day = :day, cost = {price} WHERE id = :parcel_id")
    other = with_write(f"UPDATE parcels SET day = :day, cost = 2 * {price} WHERE id = :parcel_id")
    assert purpose(one) == purpose(other)
    assert purpose(one) != purpose(MOVE)


def test_a_row_with_a_column_more_or_less_is_the_same_row() -> None:
    more = (
        "SELECT r.id, r.day, r.status, r.entered_on, r.note FROM parcels r WHERE r.id = :parcel_id"
    )
    assert purpose(with_result(more)) == purpose(SHOW)
    state = "SELECT r.id, r.day, r.state FROM parcels r WHERE r.id = :parcel_id"
    assert purpose(with_result(state)) == purpose(SHOW)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, priority FROM parcels WHERE id = :parcel_id",
        "SELECT count(*) AS number, max(day) AS last FROM parcels WHERE id = :parcel_id",
        "SELECT id, day, status FROM letters WHERE id = :parcel_id",
    ],
    ids=["one column", "sum", "table"],
)
def test_one_column_a_sum_or_another_table_are_something_else(sql: str) -> None:
    assert purpose(with_result(sql)) != purpose(SHOW)


def test_two_single_columns_are_two_tools() -> None:
    one = with_result("SELECT id, priority FROM parcels WHERE id = :parcel_id")
    other = with_result("SELECT id, colour FROM parcels WHERE id = :parcel_id")
    assert purpose(one) != purpose(other)


def test_what_is_counted_beside_a_row_is_the_same_overview() -> None:
    notes = "(SELECT count(*) FROM notes WHERE parcel_id = t.id) AS notes"
    tags = "(SELECT count(*) FROM tags WHERE parcel_id = t.id) AS tags"
    one = with_result(f"SELECT t.id, {notes}, {tags} FROM parcels t WHERE t.id = :parcel_id")
    other = with_result(f"SELECT t.id, {tags}, {tags} AS b FROM parcels t WHERE t.id = :parcel_id")
    assert purpose(one) == purpose(other)
