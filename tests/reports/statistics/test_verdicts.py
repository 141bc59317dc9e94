"""Verdicts of a gate: on the same agent twice, on losses of the margin and of more."""

import random

import pytest

from benchyard.reports.statistics.verdicts import GATE_LEVEL, GateVerdict, difference_bounds, verdict


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


@pytest.mark.parametrize(("scenarios", "attempts"), [(30, 3)])
def test_the_same_agent_twice_seldom_fails(scenarios: int, attempts: int) -> None:
    chance = random.Random(17)
    failed = 0
    for _ in range(2000):
        shares = [chance.betavariate(0.5, 0.5) for _ in range(scenarios)]
        before, after = _scores(chance, shares, attempts), _scores(chance, shares, attempts)
        bounds = difference_bounds([b - a for a, b in zip(before, after, strict=True)], level=GATE_LEVEL)
        assert bounds is not None
        failed += verdict(bounds.low, bounds.high, 0.0) is GateVerdict.FAIL
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
        bounds = difference_bounds([b - a for a, b in zip(before, after, strict=True)], level=GATE_LEVEL)
        assert bounds is not None
        passed += verdict(bounds.low, bounds.high, margin) is GateVerdict.PASS
    assert passed / rounds <= 0.025


def test_a_large_loss_on_many_scenarios_nearly_always_fails() -> None:
    chance = random.Random(23)
    failed = 0
    for _ in range(40):
        shares = [0.2 + 0.6 * chance.random() for _ in range(500)]
        before = _scores(chance, shares, 5)
        after = _scores(chance, [share - 0.1 for share in shares], 5)
        bounds = difference_bounds([b - a for a, b in zip(before, after, strict=True)], level=GATE_LEVEL)
        assert bounds is not None
        failed += verdict(bounds.low, bounds.high, 0.02) is GateVerdict.FAIL
    assert failed >= 38


def test_what_is_at_one_end_may_come_back_to_the_other() -> None:
    lost = difference_bounds([-1.0])
    assert lost is not None
    assert lost.high == pytest.approx(0.95)
    # So many equal losses, and no more, have a chance of 2.5 % where the mean is as high as the bound.
    several = difference_bounds([-1.0] * 8)
    assert several is not None
    assert ((1 - several.high) / 2) ** 8 == pytest.approx(0.025)
