"""Near duplicates by words: the measure agrees with a hundred pairs labelled by reading them."""

from pathlib import Path

import orjson

from tool_registry.likeness import Likeness, Shown, near_duplicates

PAIRS = [
    orjson.loads(line)
    for line in (Path(__file__).parent / "data" / "alike_evolved.jsonl").read_bytes().splitlines()
]


def shown(**changes: object) -> Shown:
    base = {
        "name": "cancel_parcel",
        "description": "Cancel a parcel before it is collected.",
        "parameters": {"properties": {"parcel_id": {"description": "Identifier, such as P0007"}}},
        "effect": "destructive",
    }
    return Shown(**(base | changes))  # type: ignore[arg-type]


def test_of_a_hundred_labelled_pairs_most_near_duplicates_are_found_and_hardly_another() -> None:
    """Words weigh as in these pairs alone; in a whole evolution more are found (measurements)."""
    pairs = [(Shown(**row["one"]), Shown(**row["other"]), row["near"]) for row in PAIRS]
    assert len(pairs) == 100
    assert 40 <= sum(near for *_, near in pairs) <= 60
    likeness = Likeness(tool for one, other, _ in pairs for tool in (one, other))
    found = [(likeness.near(one, other), near) for one, other, near in pairs]
    right = sum(said and near for said, near in found)
    assert right >= 0.9 * sum(said for said, _ in found), "precision"
    assert right >= 0.8 * sum(near for _, near in found), "recall"


def test_the_measure_does_not_depend_on_which_of_two_comes_first() -> None:
    likeness = Likeness(Shown(**row[side]) for row in PAIRS for side in ("one", "other"))
    for row in PAIRS:
        one, other = Shown(**row["one"]), Shown(**row["other"])
        assert likeness.cosine(one, other) == likeness.cosine(other, one)


def test_keys_endings_and_wording_make_no_difference_and_parameters_and_effect_do() -> None:
    tools = [
        shown(),
        shown(name="parcel_cancel", parameters={"properties": {"parcel": {"description": "Key"}}}),
        shown(description="Cancel a parcel before it is collected. Errors: `gone`. Needs parcel."),
        shown(parameters={"properties": {"parcel_id": {}, "reason": {}}}),
        shown(effect="write"),
        shown(name="cancel_letter", description="Cancel a letter.",
              parameters={"properties": {"letter_id": {}}}),
    ]  # fmt: skip
    assert near_duplicates(tools) == [(1, 0), (2, 0)]


def test_an_object_around_parameters_makes_no_difference() -> None:
    inner = {"properties": {"day": {}, "hour": {}}}
    one = shown(parameters=inner)
    other = shown(parameters={"properties": {"details": inner}})
    assert one.takes == other.takes == {"day", "hour"}


def test_a_near_duplicate_of_a_near_duplicate_counts_once() -> None:
    assert near_duplicates([shown()] * 3) == [(1, 0), (2, 0)]
    assert near_duplicates([]) == []
