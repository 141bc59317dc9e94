"""Scenarios that tell agents apart, that tell nothing, and that say the reverse."""

import random
from itertools import permutations

import pytest

from benchyard.reports.statistics.discrimination import discriminations, reversal_p
from benchyard.reports.statistics.ranks import kendall_tau


def test_scenarios_that_all_or_none_pass_are_named() -> None:
    found = discriminations([[1.0, 1.0], [0.0, 0.0], [0.2, 0.4], [None, None], [1.0, None]])
    assert [each.kind for each in found] == ["saturated", "impossible", None, None, "saturated"]
    assert [each.n_agents for each in found] == [2, 2, 2, 0, 1]
    assert found[3].mean is None
    assert discriminations([]) == []


def test_a_scenario_that_better_agents_fail_is_suspicious() -> None:
    chance = random.Random(4)
    skills = [0.05 + 0.045 * number for number in range(20)]
    rows: list[list[float | None]] = [[float(chance.random() < skill) for skill in skills] for _ in range(60)]
    rows[7] = [float(skill < 0.5) for skill in skills]
    found = discriminations(rows)
    assert [index for index, each in enumerate(found) if each.kind == "suspicious"] == [7]
    assert found[7].tau is not None
    assert found[7].tau < -0.6


def test_agents_that_do_not_differ_make_no_scenario_suspicious() -> None:
    chance = random.Random(9)
    claimed = 0
    for _ in range(60):
        rows = [[float(chance.random() < 0.5) for _ in range(12)] for _ in range(30)]
        claimed += any(each.kind == "suspicious" for each in discriminations(rows))
    assert claimed <= 60 * 0.05 + 3 * (60 * 0.05 * 0.95) ** 0.5


def test_the_mean_that_a_scenario_is_held_against_leaves_it_out() -> None:
    # With itself in the means, the single scenario that varies would agree with them for certain.
    found = discriminations([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    assert (found[0].tau, found[0].kind) == (None, None)


@pytest.mark.parametrize("count", [4, 5, 6])
def test_the_chance_of_disagreement_is_close_to_that_over_all_orders(count: int) -> None:
    order = list(range(count))
    taus = [kendall_tau(order, list(other)) or 0.0 for other in permutations(order)]
    for seen in (order[::-1], [*order[1:][::-1], order[0]]):
        tau = kendall_tau(order, seen) or 0.0
        exact = sum(other <= tau + 1e-12 for other in taus) / len(taus)
        assert exact <= reversal_p(order, seen) <= exact + 0.03


def test_values_that_do_not_vary_disagree_with_nothing() -> None:
    assert reversal_p([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]) == 1.0
