"""Ranks and the discrimination of scenarios."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchyard.reports.statistics.differences import paired_difference
from benchyard.reports.statistics.ranks import Rank, kendall_tau, standing


def test_kendalls_tau_counts_ties() -> None:
    assert kendall_tau([1, 2, 3], [1, 2, 3]) == 1.0
    assert kendall_tau([1, 2, 3], [3, 2, 1]) == -1.0
    assert kendall_tau([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.9128709, abs=1e-7)
    assert kendall_tau([1, 1, 1], [1, 2, 3]) is None


def test_the_standing_tells_apart_what_is_more_than_chance() -> None:
    good = [1.0] * 30
    left, right = [1.0, 0.0] * 15, [0.0, 1.0] * 15
    found = standing([left, good, right])
    assert found.ranks == [Rank(2, 2, 3), Rank(1, 1, 1), Rank(2, 2, 3)]
    assert found.groups == [[1], [0, 2]]
    assert standing([good]).groups == [[0]]
    assert standing([[1.0], [0.0]]).groups == [[0, 1]], "one scenario tells nothing"
    assert standing([]).ranks == []


def test_the_same_difference_everywhere_is_told_by_the_number_of_scenarios() -> None:
    assert standing([[1.0] * 5, [0.0] * 5]).groups == [[0, 1]]
    assert standing([[1.0] * 6, [0.0] * 6]).groups == [[0], [1]]
    assert standing([[1.0] * 6, [0.0] * 6], ["x", "x", "x", "y", "y", "y"]).groups == [[0, 1]]
    assert standing([[0.5] * 50, [0.5] * 50]).p_values == {(0, 1): 1.0}


def test_an_agent_between_two_groups_is_in_both() -> None:
    chance = random.Random(14)
    rows = [[float(chance.random() < share) for _ in range(60)] for share in (0.65, 0.5, 0.35)]
    assert standing(rows).groups == [[0, 1], [1, 2]]


def test_the_pairs_of_a_standing_are_tested_as_a_comparison_does() -> None:
    first, second, repos = [0.2, 0.8, 0.4, 1.0], [0.0, 0.3, 0.9, 0.1], ["x", "x", "y", "z"]
    for clusters in (None, repos):
        difference = paired_difference([b - a for a, b in zip(first, second, strict=True)], clusters)
        assert difference is not None
        assert standing([first, second], clusters).p_values == {(0, 1): pytest.approx(difference.p)}


@given(some.integers(2, 5), some.randoms())
def test_neither_the_order_of_agents_nor_of_scenarios_changes_their_standing(
    agents: int, chance: random.Random
) -> None:
    rows = [[chance.choice([0.0, 0.5, 1.0]) for _ in range(8)] for _ in range(agents)]
    order, columns = list(range(agents)), list(range(8))
    chance.shuffle(order)
    chance.shuffle(columns)
    before = standing(rows)
    after = standing([[rows[agent][column] for column in columns] for agent in order])
    assert [after.ranks[order.index(agent)] for agent in range(agents)] == before.ranks
    for (a, b), p in after.p_values.items():
        pair = min(order[a], order[b]), max(order[a], order[b])
        assert p == pytest.approx(before.p_values[pair])


def test_equal_agents_are_seldom_told_apart() -> None:
    chance = random.Random(12)
    claimed = 0
    for _ in range(200):
        shares = [chance.betavariate(0.5, 0.5) for _ in range(30)]
        rows = [[sum(chance.random() < share for _ in range(3)) / 3 for share in shares] for _ in range(4)]
        claimed += len(standing(rows).groups) > 1
    assert claimed <= 200 * 0.05 + 3 * (200 * 0.05 * 0.95) ** 0.5
