"""Ranks and the discrimination of scenarios."""

import pytest

from benchyard.reports.statistics.ranks import Rank, kendall_tau, rank_intervals, trend_p


def test_kendalls_tau_counts_ties() -> None:
    assert kendall_tau([1, 2, 3], [1, 2, 3]) == 1.0
    assert kendall_tau([1, 2, 3], [3, 2, 1]) == -1.0
    assert kendall_tau([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9128709, abs=1e-7)
    assert kendall_tau([1, 1, 1], [1, 2, 3]) is None


def test_agents_that_cannot_be_told_apart_share_their_ranks() -> None:
    good = [1.0] * 30
    left, right = [1.0, 0.0] * 15, [0.0, 1.0] * 15
    ranks = rank_intervals([good, left, right], 300)
    assert ranks[0] == Rank(1, 1, 1)
    assert (ranks[1].place, ranks[2].place) == (2, 2)
    assert {ranks[1].best, ranks[2].best, ranks[1].worst, ranks[2].worst} == {2, 3}
    assert rank_intervals([good, left, right], 300) == ranks
    assert rank_intervals([[], []]) == [Rank(1, 1, 1)] * 2


def test_the_last_of_a_series_is_tested_against_the_pooled_past() -> None:
    assert trend_p([0.5], [0.1]) == 1.0
    assert trend_p([0.5, 0.5, 0.5], [0.1, 0.1, 0.1]) == 1.0
    assert trend_p([0.5, 0.5, 0.9], [0.05, 0.05, 0.05]) < 0.001
    assert trend_p([0.5, 0.9], [0.0, 0.1]) == 1.0
