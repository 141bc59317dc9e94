"""Verdicts of a gate: on the same agent twice, on losses of the margin and of more."""

import math
import random
from collections.abc import Callable, Sequence
from itertools import product

import pytest

from benchyard.reports.statistics.means import standard_error
from benchyard.reports.statistics.verdicts import (
    GateVerdict,
    difference_bounds,
    gate_bounds,
    gate_bounds_expected,
    least_number,
    verdict,
)


def test_a_verdict_is_the_place_of_the_interval() -> None:
    assert verdict(-0.1, -0.05, 0.02) is GateVerdict.FAIL
    assert verdict(-0.01, 0.05, 0.02) is GateVerdict.PASS
    assert verdict(-0.03, 0.05, 0.02) is GateVerdict.INCONCLUSIVE
    assert verdict(-0.02, 0.05, 0.02) is GateVerdict.INCONCLUSIVE


def test_equal_results_bound_nothing_by_their_spread_but_something_by_their_number() -> None:
    few, many = difference_bounds([0.0] * 12), difference_bounds([0.0] * 500)
    assert few is not None
    assert many is not None
    assert verdict(few.low, few.high, 0.02) is GateVerdict.INCONCLUSIVE
    assert verdict(many.low, many.high, 0.02) is GateVerdict.PASS
    assert difference_bounds([]) is None
    lost = difference_bounds([-1.0] * 3)
    assert lost is not None
    assert (lost.mean, lost.low) == (-1.0, -1.0)


def _scores(chance: random.Random, shares: list[float], attempts: int) -> list[float]:
    return [sum(chance.random() < share for _ in range(attempts)) / attempts for share in shares]


def _judged(before: Sequence[float], after: Sequence[float], margin: float) -> GateVerdict:
    bounds = gate_bounds([b - a for a, b in zip(before, after, strict=True)])
    assert bounds is not None
    return verdict(bounds.low, bounds.high, margin)


@pytest.mark.parametrize(("scenarios", "attempts"), [(30, 3)])
def test_the_same_agent_twice_seldom_fails(scenarios: int, attempts: int) -> None:
    chance = random.Random(17)
    failed = 0
    for _ in range(2000):
        shares = [chance.betavariate(0.5, 0.5) for _ in range(scenarios)]
        before, after = _scores(chance, shares, attempts), _scores(chance, shares, attempts)
        failed += _judged(before, after, 0.0) is GateVerdict.FAIL
    assert failed / 2000 <= 0.025
    assert failed > 0


def test_a_loss_of_the_margin_seldom_passes() -> None:
    chance = random.Random(19)
    margin, rounds = 0.1, 2000
    passed = 0
    for _ in range(rounds):
        shares = [0.2 + 0.6 * chance.random() for _ in range(40)]
        before = _scores(chance, shares, 3)
        after = _scores(chance, [share - margin for share in shares], 3)
        passed += _judged(before, after, margin) is GateVerdict.PASS
    assert passed / rounds <= 0.025


def test_a_large_loss_on_many_scenarios_nearly_always_fails() -> None:
    chance = random.Random(23)
    failed = 0
    for _ in range(40):
        shares = [0.2 + 0.6 * chance.random() for _ in range(500)]
        before = _scores(chance, shares, 5)
        after = _scores(chance, [share - 0.1 for share in shares], 5)
        failed += _judged(before, after, 0.02) is GateVerdict.FAIL
    assert failed >= 38


def test_what_is_at_one_end_may_come_back_to_the_other() -> None:
    lost = difference_bounds([-1.0])
    assert lost is not None
    assert lost.high == pytest.approx(0.95)
    # So many equal losses, and no more, have a chance of 2.5 % where the mean is as high as the bound.
    several = difference_bounds([-1.0] * 8)
    assert several is not None
    assert ((1 - several.high) / 2) ** 8 == pytest.approx(0.025)


def test_a_spread_that_rounding_makes_is_none() -> None:
    # Two scenarios of three attempts, of which one fails more: a third less is two different floats.
    thirds = [2 / 3 - 1.0, 1 / 3 - 2 / 3]
    assert thirds[0] != thirds[1]
    bounds = gate_bounds(thirds)
    assert bounds is not None
    assert verdict(bounds.low, bounds.high, 0.0) is GateVerdict.INCONCLUSIVE
    hardly = difference_bounds([0.1 + 0.2 - 0.3, 0.0])
    assert hardly is not None
    assert hardly.high > 0.5
    large = difference_bounds([1e6, 1e6 + 1e-9], is_bounded=False)
    assert large is None


def test_scores_without_ends_have_no_bounds_without_a_spread() -> None:
    assert difference_bounds([5.0] * 5, is_bounded=False) is None
    assert gate_bounds([-5.0] * 5, is_bounded=False) is None
    assert gate_bounds([]) is None
    spread = gate_bounds([-9.0, 5.0, 30.0], is_bounded=False)
    assert spread is not None
    assert spread.low < -1 < 1 < spread.high


def _passes_of_losses(count: int, margin: float, won_share: float) -> float:
    """Return the chance to pass at a loss of the margin, by the exact sum over won and lost scenarios.

    Each scenario has one attempt. The second agent loses the margin, and as many more as it wins: with none
    won, the first passed everything that is ever lost.
    """
    chance = 0.0
    for won in range(count + 1):
        of_won = _binomial(won, count, won_share)
        if of_won < 1e-9:
            continue
        lost = _most_lost(count, won, margin)
        share = (margin + won_share) / (1 - won_share)
        chance += of_won * math.fsum(_binomial(each, count - won, share) for each in range(lost + 1))
    return chance


def _most_lost(count: int, won: int, margin: float) -> int:
    """Return the largest number of lost scenarios with which a gate passes, -1 if it never does."""

    def fails(lost: int) -> bool:
        bounds = gate_bounds([1.0] * won + [-1.0] * lost + [0.0] * (count - won - lost))
        assert bounds is not None
        return verdict(bounds.low, bounds.high, margin) is not GateVerdict.PASS

    first = least_number(fails, 0, count - won)
    return count - won if first is None else first - 1


def _binomial(passed: int, count: int, share: float) -> float:
    if share <= 0.0:
        return float(passed == 0)
    ways = math.lgamma(count + 1) - math.lgamma(passed + 1) - math.lgamma(count - passed + 1)
    return math.exp(ways + passed * math.log(share) + (count - passed) * math.log1p(-share))


PERFECT = [(40, 0.1), (100, 0.05), (100, 0.1), (200, 0.05), (250, 0.02), (500, 0.01), (500, 0.02)]


@pytest.mark.parametrize(("count", "margin"), PERFECT)
def test_a_loss_of_the_margin_from_a_perfect_baseline_seldom_passes(count: int, margin: float) -> None:
    assert _passes_of_losses(count, margin, 0.0) <= 0.025


@pytest.mark.parametrize("baseline", [0.98, 0.95, 0.9, 0.7, 0.5])
def test_a_loss_of_the_margin_from_a_good_baseline_seldom_passes(baseline: float) -> None:
    count, margin = 100, 0.05
    # Attempts of both are independent of each other: the second wins where only the first fails.
    assert _passes_of_losses(count, margin, (1 - baseline) * (baseline - margin)) <= 0.025


LOSSES: dict[str, Callable[[random.Random, int, float], list[float]]] = {
    "the same at every scenario": lambda _, count, margin: [1.0 - margin] * count,
    "whole scenarios": lambda chance, count, margin: [float(chance.random() >= margin) for _ in range(count)],
    "half of the scenarios": lambda chance, count, margin: [
        1.0 - 2 * margin * (chance.random() < 0.5) for _ in range(count)
    ],
}


@pytest.mark.parametrize(("loss", "attempts"), list(product(LOSSES, (2, 3, 5))))
def test_several_attempts_at_a_loss_of_the_margin_seldom_pass(loss: str, attempts: int) -> None:
    count, margin, rounds = 60, 0.07, 600
    chance = random.Random(f"{loss} {attempts}")
    passed = 0
    for _ in range(rounds):
        after = _scores(chance, LOSSES[loss](chance, count, margin), attempts)
        passed += _judged([1.0] * count, after, margin) is GateVerdict.PASS
    # One standard error above: the long form is in `make perf`.
    assert passed / rounds <= 0.025 + (0.025 * 0.975 / rounds) ** 0.5


def test_an_unchanged_agent_can_pass() -> None:
    assert _judged([1.0] * 205, [1.0] * 205, 0.02) is GateVerdict.PASS
    assert _judged([1.0] * 500, [1.0] * 498 + [0.0] * 2, 0.02) is GateVerdict.PASS
    chance = random.Random(31)
    shares = [chance.choice([0.05, 0.95]) for _ in range(500)]
    passed = sum(
        _judged(_scores(chance, shares, 5), _scores(chance, shares, 5), 0.03) is GateVerdict.PASS
        for _ in range(20)
    )
    assert passed >= 19


def test_lost_clusters_are_as_large_as_those_seen() -> None:
    differences = [0.0] * 20 + [-1.0] * 2 + [0.0] * 38
    alone = gate_bounds(differences)
    together = gate_bounds(differences, [number // 2 for number in range(60)])
    assert alone is not None
    assert together is not None
    # Thirty clusters of two scenarios are as sure as thirty scenarios.
    of_thirty = gate_bounds([0.0] * 10 + [-1.0] + [0.0] * 19)
    assert of_thirty is not None
    assert (together.low, together.high) == pytest.approx((of_thirty.low, of_thirty.high))
    assert together.low < alone.low


def test_expected_bounds_are_those_of_such_results() -> None:
    differences = [0.0] * 70 + [-1.0] * 10 + [0.5] * 20
    bounds = gate_bounds(differences)
    variance = standard_error(differences) ** 2 * len(differences)
    assert bounds is not None
    assert gate_bounds_expected(bounds.mean, variance, 100) == pytest.approx((bounds.low, bounds.high))
    free = gate_bounds(differences, is_bounded=False)
    assert free is not None
    expected = gate_bounds_expected(bounds.mean, variance, 100, is_bounded=False)
    assert expected == pytest.approx((free.low, free.high))


def test_the_least_number_is_found_or_told_to_be_out_of_reach() -> None:
    assert least_number(lambda number: number >= 7, 3, 100) == 7
    assert least_number(lambda number: True, 3, 100) == 3
    assert least_number(lambda number: False, 3, 100) is None
    assert least_number(lambda number: number >= 100, 3, 100) == 100
