"""Intervals and pass@k, against what is known of them."""

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchyard.reports.statistics import estimate, pass_at, pass_at_k, t_95, wilson

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


def test_values_that_are_in_tables() -> None:
    assert list(wilson(0.5, 10)) == pytest.approx([0.2366, 0.7634], abs=1e-4)
    assert wilson(1.0, 20)[0] == pytest.approx(0.8389, abs=1e-4)
    assert t_95(1) == 12.7062
    assert t_95(11) == pytest.approx(2.2010, abs=3e-3)
    assert t_95(30) == pytest.approx(2.0423, abs=2e-4)
    assert t_95(1_000_000) == pytest.approx(1.96, abs=1e-4)
    thirds = estimate([0.2, 0.4, 0.6])
    assert thirds is not None
    assert [thirds.low, thirds.high] == pytest.approx([0.0, 0.4 + 4.3027 * 0.2 / 3**0.5], abs=1e-4)
    assert estimate([]) is None


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


@given(some.data())
def test_pass_at_k_is_the_share_of_all_choices_of_k_attempts_with_one_that_passed(
    data: some.DataObject,
) -> None:
    attempts = data.draw(some.integers(1, 8))
    passed, k = data.draw(some.integers(0, attempts)), data.draw(some.integers(1, attempts))
    choices = list(combinations(range(attempts), k))
    share = sum(min(choice) < passed for choice in choices) / len(choices)
    assert pass_at(k, attempts, passed) == pytest.approx(share)


def test_pass_at_k_is_told_for_steps_and_leaves_out_who_tried_less() -> None:
    assert pass_at_k([(5, 1), (5, 5)], 5) == {
        "1": pytest.approx(0.6),
        "2": pytest.approx(0.7),
        "4": pytest.approx(0.9),
        "5": 1.0,
    }
    assert pass_at_k([(1, 0), (2, 1)], 2) == {"1": 0.25, "2": 1.0}
    assert pass_at_k([(0, 0)], 3) == {}
    assert pass_at_k([(1, 1)], 1) == {}
    assert pass_at_k([(1000, 1)] * 1000, 1000)["512"] == pytest.approx(0.512)
    with pytest.raises(ValueError, match="no meaning"):
        pass_at(3, 2, 1)
