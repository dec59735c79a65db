"""Two tools of one application are one if they do the same on one state, whatever their SQL."""

import pytest

from simulators.sql.engine import Engine
from simulators.sql.load import load_application
from synth.core.application import Application, Tool
from synth.pipeline.alike import alike
from synth.pipeline.proving import prove
from tool_registry.composer import compose
from tool_registry.edits import in_sql, remade, renamed_parameter, with_tools
from tool_registry.elimination import behaviour, examine


@pytest.fixture(scope="module")
def depot() -> Application:
    return compose("logistics", 0)


def pairs(application: Application) -> list[tuple[str, str]]:
    return list(prove(application, only=()).alike)


def with_twin(application: Application, name: str, twin: Tool) -> Application:
    return with_tools(application, {"twin": remade(twin, intent={}, questions={})})


def write_of(application: Application) -> str:
    """A write that changes a row and takes its key alone."""
    return next(
        name
        for name, tool in application.tools.items()
        if tool.effect == "destructive" and len(tool.parameters) == 1 and tool.steps[-1].returns
    )


def read_of(application: Application) -> str:
    """A read of one row by its key."""
    return next(
        name
        for name, tool in application.tools.items()
        if tool.steps[-1].shape == "object"
        and tool.effect == "read"
        and [bool(p.entity) for p in tool.parameters.values()] == [True]
    )


def test_tools_of_composed_and_written_applications_are_not_alike(depot: Application) -> None:
    assert pairs(depot) == []
    assert pairs(load_application("bank")) == []


def test_a_read_in_other_sql_with_another_name_of_its_key_is_found(depot: Application) -> None:
    name = read_of(depot)
    old = depot.tools[name]
    key = next(iter(old.parameters))
    twin = renamed_parameter(old, key, "which_one")
    twin = in_sql(twin, lambda sql: f"SELECT * FROM ({sql})")
    assert behaviour(twin) != behaviour(old)
    child = with_twin(depot, name, twin)
    assert pairs(child) == [(name, "twin")]
    found, _ = examine(child, None, lambda application: prove(application, only=()))
    assert found is not None
    assert (found.rule, found.detail) == ("same_behaviour", f"twin does what {name} does")


def test_a_write_in_other_sql_is_found_by_its_effect(depot: Application) -> None:
    name = write_of(depot)
    key = next(iter(depot.tools[name].parameters))
    twin = in_sql(
        depot.tools[name],
        lambda sql: sql.replace(f"WHERE id = :{key}", f"WHERE id IN (SELECT :{key})"),
    )
    assert behaviour(twin) != behaviour(depot.tools[name])
    assert pairs(with_twin(depot, name, twin)) == [(name, "twin")]


def test_a_write_that_also_changes_something_else_is_another_tool(depot: Application) -> None:
    name = write_of(depot)
    tool = depot.tools[name]
    write = next(one for one in tool.steps if one.write)
    assert write.write is not None
    table = write.write.split()[1]
    column = next(c for c in depot.seed[table].columns if c == "day")
    more = remade(write, write=write.write.replace(" WHERE", f", {column} = '2031-01-01' WHERE", 1))
    twin = remade(tool, steps=tuple(more if one is write else one for one in tool.steps))
    assert pairs(with_twin(depot, name, twin)) == []


def test_two_empty_lists_are_no_evidence(depot: Application) -> None:
    engine = Engine(depot)
    lists = [
        n for n, t in depot.tools.items() if t.steps[-1].shape == "list" and t.effect == "read"
    ]
    assert lists
    assert list(alike(engine.environment(), depot, dict.fromkeys(lists, ()), 0)) == []
