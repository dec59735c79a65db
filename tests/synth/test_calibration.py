"""Figures about judges are those of the textbooks, and find what was planted."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synth.calibration import (
    Answer,
    Share,
    auc,
    calibration,
    difference,
    drift,
    kappa,
    length_effect,
    position_effect,
)


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [  # statsmodels' proportion_confint(method="wilson")
        (0, 10, 0.0, 0.2775),
        (1, 10, 0.0179, 0.4042),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I
        (15, 148, 0.0624, 0.1605),
    ],
)
def test_shares_have_wilsons_interval(count, of, low, high):
    found = Share(count, of).interval
    assert found == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


def test_a_share_of_nothing_is_unknown_and_not_nought():
    assert Share(0, 0).row() == {"count": 0, "of": 0, "share": None, "interval": None}
    empty = calibration([])
    assert empty["kappa"] is None
    assert empty["false_pass"]["share"] is None
    assert calibration([Answer(True, None)])["agreement"]["share"] is None


def test_differences_have_newcombes_interval():
    # Newcombe 1998 (Statist. Med. 17, 873-890), method 10, example a: 56/70 - 48/80.
    found = difference(Share(56, 70), Share(48, 80))
    assert found == {"difference": 0.2, "interval": [0.0524, 0.3339]}


def test_kappa_is_cohens():
    # 20 and 15 agreements, 5 and 10 disagreements: agreement 0.7, by chance 0.5.
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert kappa(pairs) == 0.4
    assert kappa([(True, True)] * 5) is None
    assert kappa([(True, False), (False, True)]) == -1.0


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=30))
def test_the_area_under_the_curve_counts_pairs(scores):
    yes = [score for score, label in scores if label]
    no = [score for score, label in scores if not label]
    won = sum((a > b) + (a == b) / 2 for a in yes for b in no)
    wanted = won / (len(yes) * len(no)) if yes and no else None
    found = auc(scores)
    assert found == (wanted if wanted is None else pytest.approx(wanted))


def noisy(count, false_pass, false_reject, silent=0.0, seed=1):
    rng = random.Random(seed)
    for number in range(count):
        truth = number % 2 == 0
        wrong = rng.random() < (false_reject if truth else false_pass)
        said = truth != wrong
        yield Answer(truth, None if rng.random() < silent else said, rng.randrange(1000))


def test_error_rates_that_were_planted_are_found():
    found = calibration(noisy(4_000, false_pass=0.2, false_reject=0.05, silent=0.1))
    for name, planted in (("false_pass", 0.2), ("false_reject", 0.05), ("unanswered", 0.1)):
        low, high = found[name]["interval"]
        assert low < planted < high
        assert high - low < 0.04
    assert found["agreement"]["share"] == pytest.approx(0.875, abs=0.02)
    assert found["kappa"] == pytest.approx(0.75, abs=0.03)
    assert found["longer"]["interval"][0] < 0 < found["longer"]["interval"][1]


def test_intervals_hold_the_truth_nineteen_times_in_twenty():
    held = 0
    for seed in range(400):
        low, high = calibration(noisy(120, 0.15, 0.1, seed=seed))["false_pass"]["interval"]
        held += low <= 0.15 <= high
    assert 0.92 <= held / 400 <= 0.985


def test_a_judge_that_likes_length_is_found_out_though_right_ones_are_longer():
    rng = random.Random(3)
    fair, fond = [], []
    for number in range(1_000):
        truth = number % 2 == 0
        length = rng.randrange(100) + (1_000 if truth else 0)
        fair.append(Answer(truth, truth, length))
        fond.append(Answer(truth, length % 1_000 > 50, length))
    assert length_effect(fair)["difference"] == 0
    assert length_effect(fond)["interval"][0] > 0.8
    assert length_effect(fair[:1]) is None


def test_two_judges_are_compared_on_what_both_answered():
    pairs = [(True, True)] * 6 + [(True, False)] * 3 + [(False, False)] * 1 + [(None, True)] * 5
    found = drift(pairs)
    assert found["agreement"]["share"] == 0.7
    assert (found["only_first"], found["only_second"]) == (3, 0)
    assert found["passed"] == [9, 6]


def test_a_judge_that_takes_the_first_is_unsteady():
    always_first = [("first", "first")] * 20
    steady = [("first", "second"), ("second", "first")] * 10
    assert position_effect(always_first)["unsteady"]["share"] == 1.0
    assert position_effect(always_first)["first"]["share"] == 1.0
    assert position_effect(steady)["unsteady"]["share"] == 0.0
    assert position_effect(steady)["first"]["share"] == 0.5
    assert position_effect([(None, "first")])["unsteady"]["share"] is None


def test_figures_are_finite():
    found = calibration(noisy(3, 0.5, 0.5))
    assert all(math.isfinite(x) for x in found["agreement"]["interval"])
