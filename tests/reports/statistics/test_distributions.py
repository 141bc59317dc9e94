"""Quantiles and tails, against the values that R prints."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchyard.reports.statistics.distributions import (
    beta_quantile,
    beta_share,
    normal_quantile,
    normal_tail,
    student_quantile,
    student_tail,
)


def test_student_quantiles_are_those_of_r() -> None:
    known = {
        1: 12.706204736,
        2: 4.302652730,
        5: 2.570581836,
        11: 2.200985160,
        30: 2.042272456,
        88: 1.987289865,
    }
    assert {freedom: student_quantile(0.975, freedom) for freedom in known} == pytest.approx(known, abs=1e-9)
    assert student_quantile(0.025, 5) == pytest.approx(-2.570581836, abs=1e-9)
    assert student_quantile(0.5, 3) == 0.0
    assert student_quantile(0.975, 1e7) == pytest.approx(normal_quantile(0.975), abs=1e-6)
    with pytest.raises(ValueError, match="degree of freedom"):
        student_quantile(0.9, 0)


def test_beta_quantiles_are_those_of_r() -> None:
    assert beta_quantile(0.025, 82, 183) == pytest.approx(0.2553018479, abs=1e-10)
    assert beta_quantile(0.975, 82, 183) == pytest.approx(0.3662905935, abs=1e-10)
    assert beta_share(0.0, 2, 3) == 0.0
    assert beta_share(1.0, 2, 3) == 1.0
    assert beta_share(0.5, 4, 4) == pytest.approx(0.5, abs=1e-12)


@given(some.floats(0.01, 0.99), some.integers(1, 300), some.integers(1, 300))
def test_the_share_below_a_beta_quantile_is_the_one_asked_for(share: float, a: int, b: int) -> None:
    assert beta_share(beta_quantile(share, a, b), a, b) == pytest.approx(share, abs=1e-6)


@given(some.floats(0.001, 0.999), some.integers(1, 500))
def test_the_tail_beyond_a_student_quantile_is_what_is_left(share: float, freedom: int) -> None:
    t = student_quantile(share, freedom)
    assert student_tail(t, freedom) == pytest.approx(2 * min(share, 1 - share), abs=1e-9)


def test_the_normal_tail_has_both_sides() -> None:
    assert normal_tail(1.959963984540054) == pytest.approx(0.05)
    assert normal_tail(-1.959963984540054) == pytest.approx(0.05)
