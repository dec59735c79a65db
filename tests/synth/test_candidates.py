"""What is made next: thin cells of crawled and evolved tools, until a round brings little."""

from pathlib import Path

import orjson
import pytest

from synth.pipeline.candidates import (
    ROUND,
    Field,
    Kept,
    kept_in,
    plan,
    thin,
    thinnest,
    thinnest_effect,
)
from synth.pipeline.evolve import Goal, How, evolve

READ, WRITE, DESTRUCTIVE = "read", "write", "destructive"


def full(category: str, count: int) -> dict[tuple[str, str], int]:
    return {(category, effect): count for effect in (READ, WRITE, DESTRUCTIVE)}


def test_the_category_with_the_thinnest_cell_comes_first_however_many_tools_it_has_in_all() -> None:
    new = full("music", 9) | full("travel", 500) | {("travel", DESTRUCTIVE): 1}
    assert thinnest(new, {}, ["music", "travel"]) == ["travel", "music"]


def test_crawled_tools_fill_a_cell_as_evolved_ones_do() -> None:
    new = full("music", 4) | full("travel", 5)
    assert thinnest(new, {}, ["music", "travel"]) == ["music", "travel"]
    assert thinnest(new, full("music", 2), ["music", "travel"]) == ["travel", "music"]


def test_of_cells_with_equally_many_tools_the_one_with_fewer_evolved_ones_comes_first() -> None:
    new, real = {("music", READ): 3}, {("music", WRITE): 3, ("music", DESTRUCTIVE): 9}
    assert [c.effect for c in thin(new, real, ["music"])] == [WRITE, READ, DESTRUCTIVE]
    assert thinnest_effect(new, real, "music") == WRITE


def test_a_round_is_for_the_thinner_half_of_the_categories(tmp_path: Path) -> None:
    known = Field(tmp_path)
    kept = Kept()
    filled = known.composed[: len(known.composed) // 2]
    kept.cells.update({cell: 50 for name in filled for cell in full(name, 50)})
    made = {candidate.category for candidate in plan(kept, known, 0, 0)}
    assert made
    assert not made & set(filled)


@pytest.fixture
def nearly_done(tmp_path: Path) -> Path:
    """A workspace in which all candidates of the first round but one were dropped."""
    folder = tmp_path / "evolved"
    folder.mkdir()
    row = {"application": "none", "category": "music", "generation": 0, "rule": "unsound"}
    row |= {"parents": [], "steps": [], "dropped": [], "detail": "nothing works"}
    lines = [orjson.dumps(row | {"number": number}) for number in range(ROUND - 1)]
    (folder / "eliminated.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return tmp_path


def test_a_round_that_brings_too_little_ends_the_evolution(nearly_done: Path) -> None:
    kept, why = evolve(nearly_done, Goal(10**6, gain=1.0), how=How(processes=1))
    assert kept.done == ROUND
    assert 0 < kept.new < ROUND
    assert why == f"the last {ROUND} candidates brought {kept.new} tools"
    assert kept_in(nearly_done / "evolved").new == kept.new


def test_a_round_that_brings_enough_is_followed_by_another(nearly_done: Path) -> None:
    done: list[str] = []
    goal = Goal(10**6, gain=0.01)
    kept, why = evolve(
        nearly_done,
        goal,
        how=How(processes=1),
        tell=lambda tools, note: done.append(note),
        ended=lambda: len(done) > 1,
    )
    assert why == "interrupted"
    assert kept.done == ROUND + 1
