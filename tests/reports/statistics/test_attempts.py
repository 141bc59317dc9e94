"""Several attempts: pass@k, pass^k and the parts of the variance, against published values."""

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchyard.reports.statistics.attempts import (
    consistency,
    flaky_chance,
    pass_all,
    pass_at,
    pass_at_k,
    pass_curve,
    variance_parts,
)


@given(some.data())
def test_pass_at_k_is_the_share_of_all_choices_of_k_attempts_with_one_that_passed(
    data: some.DataObject,
) -> None:
    attempts = data.draw(some.integers(1, 8))
    passed, k = data.draw(some.integers(0, attempts)), data.draw(some.integers(1, attempts))
    choices = list(combinations(range(attempts), k))
    share = sum(min(choice) < passed for choice in choices) / len(choices)
    assert pass_at(k, attempts, passed) == pytest.approx(share)


def test_pass_at_k_is_given_for_powers_of_two_and_leaves_out_scenarios_with_fewer_attempts() -> None:
    assert pass_at_k([(5, 1), (5, 5)], 5) == {
        "1": pytest.approx(0.6),
        "2": pytest.approx(0.7),
        "4": pytest.approx(0.9),
        "5": 1.0,
    }
    assert pass_at_k([(1, 0), (2, 1)], 2) == {"1": 0.25, "2": 1.0}
    assert pass_at_k([(0, 0)], 3) == {}
    assert pass_at_k([(1, 1)], 1) == {}
    assert pass_at_k([(1000, 1)] * 1000, 1000)["512"] == pytest.approx(0.512)
    with pytest.raises(ValueError, match="no meaning"):
        pass_at(3, 2, 1)


def test_published_values_of_pass_at_k_and_pass_all() -> None:
    assert [pass_at(k, 10, 3) for k in (1, 2, 5, 10)] == pytest.approx([0.3, 0.533333, 0.916667, 1], abs=1e-6)
    assert [pass_all(k, 10, 3) for k in (1, 2, 3, 4)] == pytest.approx([0.3, 0.066667, 0.008333, 0], abs=1e-6)


AIRLINE = [(4, 4)] * 10 + [(4, 3)] * 4 + [(4, 2)] * 10 + [(4, 1)] * 12 + [(4, 0)] * 14
"""Attempts and passes of tau-bench's published run of gpt-4o on its 50 airline tasks."""


def test_published_curves_of_tau_bench() -> None:
    curve = pass_curve(AIRLINE)
    assert [point.all_pass.mean for point in curve] == pytest.approx([0.420, 0.273, 0.220, 0.200], abs=5e-4)
    assert [point.any_passes.mean for point in curve] == pytest.approx([0.420, 0.567, 0.660, 0.720], abs=5e-4)
    assert all(point.any_passes.low <= point.any_passes.mean <= point.any_passes.high for point in curve)


def test_the_curve_says_how_many_scenarios_each_point_rests_on() -> None:
    curve = pass_curve([*AIRLINE, (1, 1), (0, 0)])
    assert [(point.k, point.n_scenarios, point.n_left_out) for point in curve] == [
        (1, 51, 0),
        (2, 50, 1),
        (3, 50, 1),
        (4, 50, 1),
    ]
    assert pass_curve([(0, 0)]) == []
    assert [point.k for point in pass_curve(AIRLINE, [4])] == [4]


def test_the_curve_reaches_all_attempts_however_many() -> None:
    curve = pass_curve([(40, 20)] * 3)
    assert [point.k for point in curve] == [*range(1, 33), 36, 40]
    assert curve[-1].all_pass.mean == 0.0
    assert [point.k for point in pass_curve([(1000, 999)])][32:37] == [36, 40, 44, 48, 52]
    assert [point.k for point in pass_curve([(1000, 999)])][-2:] == [960, 1000]


def test_flakiness() -> None:
    assert flaky_chance(0.5, 2) == 0.5
    assert flaky_chance(1.0, 5) == 0.0
    assert consistency(1, 1) is None
    assert consistency(4, 2) == 0.0
    assert consistency(4, 0) == 1.0


def test_variance_parts_are_those_of_the_population() -> None:
    chance = random.Random(5)
    shares = [chance.choice([0.2, 0.8]) for _ in range(4000)]
    parts = variance_parts([[float(chance.random() < share) for _ in range(4)] for share in shares])
    assert parts is not None
    assert parts.within_scenarios == pytest.approx(0.16, abs=0.01)
    assert parts.between_scenarios == pytest.approx(0.09, abs=0.01)
    assert parts.error(100, 4) == pytest.approx(((0.09 + 0.04) / 100) ** 0.5, abs=1e-3)
    assert variance_parts([[1.0], [0.0]]) is None
    same = variance_parts([[1.0, 0.0], [1.0, 0.0]])
    assert same is not None
    assert same.between_scenarios == 0.0
