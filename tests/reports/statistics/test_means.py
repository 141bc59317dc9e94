"""Means and their intervals, against published values and by simulation."""

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchyard.reports.statistics.means import (
    beta_interval,
    clopper_pearson,
    estimate,
    standard_error,
    t_interval,
    wilson,
)

SCORES = some.lists(some.floats(0, 1), min_size=1, max_size=50)


@given(SCORES)
def test_the_mean_is_in_its_interval_and_the_interval_in_what_scores_can_be(scores: list[float]) -> None:
    found = estimate(scores)
    assert found is not None
    assert found.mean == pytest.approx(sum(scores) / len(scores), abs=1e-8)
    assert 0 <= found.low <= found.mean <= found.high <= 1
    assert found.low < found.high or min(scores) < max(scores), "scores that agree do not make it certain"


@given(some.lists(some.sampled_from([0.0, 1.0]), min_size=1, max_size=200))
def test_scores_of_nothing_or_all_get_wilsons_interval(scores: list[float]) -> None:
    found = estimate(scores)
    assert found is not None
    low, high = wilson(sum(scores) / len(scores), len(scores))
    assert [found.low, found.high] == pytest.approx([max(0, low), min(1, high)], abs=1e-8)


# Newcombe's examples of 1998 and the ends of what scores can be.
WILSON = {
    (81, 263): (0.255289, 0.366210),
    (15, 148): (0.062386, 0.160487),
    (0, 20): (0.0, 0.161125),
    (1, 29): (0.006113, 0.171755),
    (20, 20): (0.838875, 1.0),
    (9, 10): (0.595850, 0.982124),
}
CLOPPER_PEARSON = {
    (81, 263): (0.252737, 0.367622),
    (15, 148): (0.057844, 0.161650),
    (0, 20): (0.0, 0.168433),
    (1, 29): (0.000873, 0.177644),
}
UNIFORM_PRIOR = {(20, 20): (0.838902, 0.998795), (0, 20): (0.001205, 0.161098), (9, 10): (0.587220, 0.977169)}


def test_intervals_of_shares_are_the_published_ones() -> None:
    for (passed, count), interval in WILSON.items():
        assert wilson(passed / count, count) == pytest.approx(interval, abs=1e-6)
    for (passed, count), interval in CLOPPER_PEARSON.items():
        assert clopper_pearson(passed, count) == pytest.approx(interval, abs=1e-6)
    for (passed, count), interval in UNIFORM_PRIOR.items():
        assert beta_interval(passed, count) == pytest.approx(interval, abs=1e-6)
    assert clopper_pearson(20, 20)[1] == 1.0


def test_the_clustered_error_is_that_of_inspect() -> None:
    values = [float(number) for number in range(20)]
    assert standard_error(values, [number % 4 for number in range(20)]) == pytest.approx(0.6454972, abs=1e-7)


def test_one_cluster_tells_nothing_of_the_variation() -> None:
    assert standard_error([0.0, 1.0], ["django", "django"]) == 0.0
    assert t_interval([0.0, 1.0], ["django", "django"]) is None
    found = estimate([0.0, 1.0] * 50, ["django"] * 100)
    assert found is not None
    assert (found.n, found.n_clusters) == (100, 1)
    assert found.high - found.low > 0.8


def test_clusters_that_agree_inside_count_as_one_scenario_each() -> None:
    scores = [1.0] * 10 + [0.0] * 10 + [1.0] * 10 + [0.0] * 10
    families = [index // 10 for index in range(40)]
    alone, together = estimate(scores), estimate(scores, families)
    assert alone is not None
    assert together is not None
    assert together.high - together.low > 2 * (alone.high - alone.low)


def test_scores_outside_of_0_and_1_get_students_interval() -> None:
    found = estimate([-1.0, 2.0, 5.0])
    assert found is not None
    assert found.mean == 2.0
    assert (found.low, found.high) == pytest.approx((2 - 4.302652730 * 3**0.5, 2 + 4.302652730 * 3**0.5))
    assert estimate([]) is None


def test_scores_that_hardly_differ_have_an_interval_all_the_same() -> None:
    for tiny in (1e-300, 1.9604717425055423e-153, 1e-20):
        found = estimate([0.0, tiny])
        assert found is not None
        assert 0.0 <= found.low <= found.mean <= found.high < 1.0


def test_equal_scores_outside_of_0_and_1_have_no_interval() -> None:
    for scores in ([2.0] * 4, [2.0, 2.0 + 1e-12], [-3.0]):
        found = estimate(scores)
        assert found is not None
        assert (found.low, found.high) == (-math.inf, math.inf)


Population = Callable[[random.Random], float]
POPULATIONS: dict[str, Population] = {
    "easy": lambda chance: chance.betavariate(12, 1),
    "hard": lambda chance: chance.betavariate(0.2, 8) if chance.random() < 0.8 else chance.betavariate(3, 2),
    "bimodal": lambda chance: chance.betavariate(0.25, 0.25),
    "mid": lambda chance: chance.betavariate(2, 2),
}
TRUTH = {"easy": 12 / 13, "hard": 0.8 * 0.2 / 8.2 + 0.2 * 0.6, "bimodal": 0.5, "mid": 0.5}


@pytest.mark.parametrize(
    ("population", "scenarios", "attempts"),
    [("easy", 30, 5), ("hard", 30, 5), ("bimodal", 12, 5), ("mid", 89, 5), ("mid", 30, 1)],
)
def test_intervals_hold_the_truth_as_often_as_they_say(
    population: str, scenarios: int, attempts: int
) -> None:
    chance = random.Random(11)
    draw, truth, rounds = POPULATIONS[population], TRUTH[population], 500
    held = 0
    for _ in range(rounds):
        shares = [draw(chance) for _ in range(scenarios)]
        means = [sum(chance.random() < share for _ in range(attempts)) / attempts for share in shares]
        found = estimate(means)
        assert found is not None
        held += found.low <= truth <= found.high
    # Three standard errors on both sides.
    assert held / rounds == pytest.approx(0.95, abs=3 * (0.95 * 0.05 / rounds) ** 0.5)


@pytest.mark.parametrize("of", [[0.0, 1.0], [0.1, 0.35, 0.6, 0.9]])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(of: list[float]) -> None:
    chance = random.Random(7)
    truth = sum(of) / len(of)
    held = 0
    for _ in range(1000):
        found = estimate([chance.choice(of) for _ in range(15)])
        assert found is not None
        held += found.low <= truth <= found.high
    assert 920 <= held <= 990
