"""Corrections for many tests, against the table of the paper."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchyard.reports.statistics.multiple_tests import benjamini_hochberg, holm

PAPER = [
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344,
    0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0000,
]  # fmt: skip
"""P-values of Benjamini and Hochberg, 1995."""


def test_the_papers_own_table() -> None:
    adjusted = benjamini_hochberg(PAPER)
    assert adjusted[:6] == pytest.approx([0.0015, 0.003, 0.0095, 0.035625, 0.0603, 0.0638571], abs=1e-7)
    assert sum(p <= 0.05 for p in adjusted) == 4
    assert sum(p <= 0.05 for p in holm(PAPER)) == 3


@given(some.lists(some.floats(0, 1), max_size=30))
def test_adjusted_values_are_never_smaller_and_keep_the_order(p_values: list[float]) -> None:
    for adjust in (benjamini_hochberg, holm):
        adjusted = adjust(p_values)
        assert all(p <= a + 1e-12 and a <= 1 for p, a in zip(p_values, adjusted, strict=True))
        pairs = sorted(zip(p_values, adjusted, strict=True))
        assert [a for _, a in pairs] == sorted(a for _, a in pairs)
