"""The chance that one agent passes more often than another."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchyard.reports.statistics.posterior import chance_better


@given(some.integers(0, 25), some.integers(0, 25), some.integers(0, 25), some.integers(0, 25))
def test_either_of_two_agents_is_better(passed_a: int, failed_a: int, passed_b: int, failed_b: int) -> None:
    count_a, count_b = passed_a + failed_a, passed_b + failed_b
    chance = chance_better(passed_a, count_a, passed_b, count_b)
    assert chance + chance_better(passed_b, count_b, passed_a, count_a) == pytest.approx(1.0, abs=1e-9)
    assert chance_better(passed_a, count_a, passed_a, count_a) == pytest.approx(0.5, abs=1e-9)


def test_the_chance_is_that_of_drawn_shares() -> None:
    chance = random.Random(1)
    drawn = sum(chance.betavariate(8, 4) > chance.betavariate(5, 7) for _ in range(20_000)) / 20_000
    assert chance_better(4, 10, 7, 10) == pytest.approx(drawn, abs=0.012)
    assert chance_better(0, 0, 0, 0) == pytest.approx(0.5)
    # One pass and one failure: the second wins unless its uniform-prior share is the lower.
    assert chance_better(0, 1, 1, 1) == pytest.approx(5 / 6)
    with pytest.raises(ValueError, match="no meaning"):
        chance_better(2, 1, 0, 0)
