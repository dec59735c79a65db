"""What follows from declarations: origins, keys, edges."""

import networkx as nx
import pytest

from simulators.sql.graph import Graph, leaves
from synth.core.application import Tool
from synth.core.protocols import Edge


@pytest.fixture(name="graph")
def _graph(workshop):
    return Graph(workshop)


def edges_from(graph, source):
    return {(e.column, e.target, e.parameter) for e in graph.edges() if e.source == source}


def test_a_result_column_feeds_every_parameter_that_means_the_same_key(graph):
    assert edges_from(graph, "list_bikes") == {
        ("id", "get_bike", "bike_id"),
        ("id", "list_jobs", "bike_id"),
        ("id", "open_job", "bike_id"),
        ("id", "swap_tyres", "first_id"),
        ("id", "swap_tyres", "second_id"),
    }


def test_foreign_keys_count_as_the_key_they_reference(graph):
    found = edges_from(graph, "get_job")
    assert ("bike_id", "get_bike", "bike_id") in found
    assert ("mechanic_id", "open_job", "mechanic_id") in found
    assert edges_from(graph, "get_bike") >= {("owner_id", "list_bikes", "person_id")}


def test_elements_of_arrays_are_fed_like_plain_parameters(graph):
    assert ("id", "cancel_jobs", "job_ids") in edges_from(graph, "list_jobs")
    assert ("id", "list_mechanics", "wanted") not in edges_from(graph, "list_bikes")


def test_values_of_json_each_and_computed_columns_feed_nothing(graph):
    assert graph.outputs["list_mechanics"]["asked"] is None
    assert {e.column for e in graph.edges() if e.source == "list_mechanics"} == {"id"}
    assert all(e.column != "jobs" for e in graph.edges())


def test_a_column_feeds_a_search_for_its_own_values_only(graph):
    # list_jobs.kind is a search value; find_person.email is fed by no tool.
    assert ("kind", "list_jobs", "kind") in edges_from(graph, "get_job")
    assert not [e for e in graph.edges() if e.target == "find_person"]


def test_results_of_writes_feed_later_writes(graph):
    assert ("id", "move_job", "job_id") in edges_from(graph, "open_job")


def test_no_tool_feeds_itself(graph):
    assert all(e.source != e.target for e in graph.edges())


def test_edges_are_sorted_and_without_duplicates(graph):
    found = graph.edges()
    assert len(set(found)) == len(found)
    assert [(e.source, e.column) for e in found] == sorted((e.source, e.column) for e in found)


def test_the_networkx_graph_has_the_same_edges(graph):
    made = graph.networkx()
    assert isinstance(made, nx.MultiDiGraph)
    assert set(made.nodes) == set(graph.application.tools)
    assert made.nodes["cancel_jobs"]["effect"] == "destructive"
    assert {
        Edge(s, data["column"], t, data["parameter"]) for s, t, data in made.edges(data=True)
    } == set(graph.edges())
    assert nx.has_path(made, "list_bikes", "cancel_jobs")


def test_references_lead_from_a_row_to_the_user_it_belongs_to(graph):
    assert graph.owners["people"] == ((),)
    assert graph.owners["bikes"] == (("bikes.owner_id",),)
    assert graph.owners["jobs"] == (("jobs.bike_id", "bikes.owner_id"),)
    assert graph.owners["mechanics"] == ()


def test_leaves_of_nested_arguments_have_paths():
    tool = Tool.model_validate(
        {
            "description": "x",
            "effect": "write",
            "steps": [],
            "parameters": {
                "lines": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "part_id": {"type": "string", "entity": "parts.id"},
                            "count": {"type": "integer", "optional": True},
                        },
                    },
                },
                "note": {"type": "string", "optional": True},
            },
        }
    )
    assert [(leaf.path, leaf.name, leaf.required) for leaf in leaves(tool)] == [
        (("lines", "*", "part_id"), "lines.part_id", True),
        (("lines", "*", "count"), "lines.count", False),
        (("note",), "note", False),
    ]
