"""Evidence about a margin: wrong at no look more often than it says, and blind to the order of results."""

import random

import pytest

from benchyard.reports.evidence import ENOUGH, margin_evidence


def differences(chance: random.Random, count: int, before: float, after: float) -> list[float]:
    """Return differences of single attempts at scenarios of any difficulty."""
    return [float(chance.random() < after) - float(chance.random() < before) for _ in range(count)]


def test_an_equal_agent_is_seldom_found_worse_at_any_of_many_looks() -> None:
    chance = random.Random(5)
    rounds = 200
    wrong = 0
    for _ in range(rounds):
        values = differences(chance, 60, 0.5, 0.5)
        looks = [margin_evidence(values[:n], values[:n], 0.0) for n in range(20, 61, 20)]
        wrong += any(look.worse >= ENOUGH for look in looks)
    assert wrong / rounds <= 1 / ENOUGH + 3 * (0.025 * 0.975 / rounds) ** 0.5


def test_a_loss_of_the_margin_is_seldom_let_through_at_any_of_many_looks() -> None:
    chance = random.Random(7)
    rounds = 200
    wrong = 0
    for _ in range(rounds):
        values = differences(chance, 60, 0.6, 0.5)
        looks = [margin_evidence(values[:n], values[:n], 0.1) for n in range(20, 61, 20)]
        wrong += any(look.not_worse >= ENOUGH for look in looks)
    assert wrong / rounds <= 1 / ENOUGH + 3 * (0.025 * 0.975 / rounds) ** 0.5


def test_a_large_loss_is_found_long_before_the_end() -> None:
    values = differences(random.Random(11), 60, 0.9, 0.2)
    assert margin_evidence(values, values, 0.02).worse >= ENOUGH
    gained = [-value for value in values]
    assert margin_evidence(gained, gained, 0.02).not_worse >= ENOUGH


def test_order_does_not_matter_and_unscored_attempts_take_from_both_sides() -> None:
    values = differences(random.Random(13), 40, 0.7, 0.4)
    found = margin_evidence(values, values, 0.02)
    again = margin_evidence(values[::-1], values[::-1], 0.02)
    assert (again.worse, again.not_worse) == pytest.approx((found.worse, found.not_worse))
    unsure = margin_evidence([-1.0, *values], [1.0, *values], 0.02)
    assert unsure.worse < found.worse
    assert unsure.not_worse < margin_evidence([0.0, *values], [0.0, *values], 0.02).not_worse


def test_scenarios_of_a_cluster_count_as_one() -> None:
    lost = [-1.0] * 20
    alone = margin_evidence(lost, lost, 0.02)
    together = margin_evidence(lost, lost, 0.02, ["a"] * 20, largest_cluster=20)
    assert together.worse == pytest.approx(margin_evidence([-1.0], [-1.0], 0.02).worse)
    assert together.worse < ENOUGH < alone.worse


@pytest.mark.parametrize("margin", [0.0, 0.02, 1.0])
def test_nothing_yet_and_the_ends_of_the_scale_have_finite_evidence(margin: float) -> None:
    none = margin_evidence([], [], margin)
    assert (none.worse, none.not_worse, none.n) == (1.0, 1.0, 0)
    for value in (-1.0, 0.0, 1.0):
        found = margin_evidence([value] * 5000, [value] * 5000, margin)
        assert 0.0 <= found.worse < float("inf")
        assert 0.0 <= found.not_worse < float("inf")
