"""Exact tests, intervals, flips and evidence, against published values."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchyard.reports.statistics.differences import (
    Flips,
    Stratum,
    e_value,
    exact_test,
    fisher_exact,
    flips,
    odds_ratio,
    paired_difference,
    permutation_test,
)

RABBITS = [
    Stratum(0, 6, 0, 5),
    Stratum(3, 6, 0, 6),
    Stratum(6, 6, 2, 6),
    Stratum(5, 6, 6, 6),
    Stratum(2, 2, 5, 5),
]
ADMISSIONS = [
    Stratum(512, 825, 89, 108),
    Stratum(353, 560, 17, 25),
    Stratum(120, 325, 202, 593),
    Stratum(138, 417, 131, 375),
    Stratum(53, 191, 94, 393),
    Stratum(22, 373, 24, 341),
]
WON, LOST, TIED = Stratum(0, 1, 1, 1), Stratum(1, 1, 0, 1), Stratum(1, 1, 1, 1)


def test_the_exact_test_gives_what_r_prints_for_textbook_sets() -> None:
    assert exact_test(RABBITS).p == pytest.approx(0.03994490358, abs=1e-11)
    assert exact_test(ADMISSIONS).p == pytest.approx(0.2277625268, abs=1e-10)


@pytest.mark.parametrize(
    ("lost", "won", "p"),
    [(86, 150, 3.71593614e-05), (59, 121, 4.43444926e-06), (1, 21, 1.0967254638671875e-05)],
)
def test_with_one_attempt_it_is_mcnemars_exact_test(lost: int, won: int, p: float) -> None:
    found = exact_test([LOST] * lost + [WON] * won + [TIED] * 134)
    assert found.p == pytest.approx(p, rel=1e-8)
    assert found.p_middle < found.p


def test_agents_that_never_differ_are_not_told_apart() -> None:
    assert exact_test([TIED] * 5).p == 1.0
    assert exact_test([]).p == 1.0


STRATA = some.lists(
    some.tuples(some.integers(1, 5), some.integers(1, 5), some.integers(0, 5), some.integers(0, 5)).map(
        lambda each: Stratum(min(each[2], each[0]), each[0], min(each[3], each[1]), each[1])
    ),
    max_size=12,
)


@given(STRATA, some.randoms())
def test_neither_the_order_of_scenarios_nor_of_agents_changes_p(
    strata: list[Stratum], chance: random.Random
) -> None:
    p = exact_test(strata).p
    assert 0.0 < p <= 1.0
    swapped = [Stratum(each.passed_b, each.attempts_b, each.passed_a, each.attempts_a) for each in strata]
    chance.shuffle(swapped)
    assert exact_test(swapped).p == pytest.approx(p, rel=1e-6)


def test_the_paired_interval_is_that_of_r() -> None:
    sleep = [-1.2, -2.4, -1.3, -1.3, 0.0, -1.0, -1.8, -0.8, -4.6, -1.4]
    found = paired_difference(sleep)
    assert found is not None
    assert found.p == pytest.approx(0.002832890197, abs=1e-12)
    assert (found.low, found.high) == pytest.approx((-2.4598857633, -0.7001142367), abs=1e-10)
    assert paired_difference([]) is None
    flat = paired_difference([0.0, 0.0])
    assert flat is not None
    assert (flat.low, flat.high, flat.p) == (None, None, None)


def test_fishers_test_is_the_exact_test_of_one_stratum() -> None:
    assert fisher_exact(5, 5, 0, 5) == pytest.approx(0.007936507937, abs=1e-12)


def test_evidence_is_that_of_the_published_formula() -> None:
    known = {(21, 1): 8289.138, (15, 5): 3.220601, (10, 10): 0.270260}
    assert {each: e_value(*each) for each in known} == pytest.approx(known, rel=1e-6)
    assert e_value(0, 0) == 1.0
    assert e_value(2000, 0) > 1e100


def test_evidence_seldom_refutes_the_truth_at_any_look() -> None:
    chance = random.Random(3)
    refuted = 0
    for _ in range(1000):
        won = 0
        for count in range(1, 60):
            won += chance.random() < 0.5
            if e_value(won, count - won) >= 20:
                refuted += 1
                break
    assert refuted <= 50


def test_flips_are_counted_beside_what_noise_would_make() -> None:
    assert flips([WON, WON, LOST, TIED, Stratum(0, 1, 0, 1)]) == Flips(2, 1, 1, 1, None)
    noisy = flips([Stratum(1, 2, 1, 2)])
    assert (noisy.won, noisy.lost) == (0, 0)
    # Two attempts at a half each: equal shares in 6 of 16 cases.
    assert noisy.expected == pytest.approx(10 / 16)
    assert flips([Stratum(2, 2, 3, 3)]).expected == 0.0


def test_graded_scores_are_tested_by_shuffled_labels() -> None:
    same: list[tuple[list[float], list[float]]] = [([0.2, 0.4], [0.4, 0.2]), ([0.9], [0.9])]
    assert permutation_test(same, 500) == 1.0
    assert permutation_test([], 10) == 1.0
    apart: list[tuple[list[float], list[float]]] = [([0.1, 0.2], [0.8, 0.9])] * 8
    p = permutation_test(apart, 2000)
    assert p < 0.005
    assert permutation_test(apart, 2000) == p


def test_shuffled_labels_agree_with_the_exact_test_where_scores_are_0_and_1() -> None:
    pairs: list[tuple[list[float], list[float]]] = [([0.0], [1.0])] * 9 + [([1.0], [0.0])] * 2
    assert permutation_test(pairs, 20_000) == pytest.approx(exact_test([WON] * 9 + [LOST] * 2).p, abs=0.01)


def test_the_odds_ratio_is_that_of_r() -> None:
    swapped = [Stratum(each.passed_b, each.attempts_b, each.passed_a, each.attempts_a) for each in RABBITS]
    assert odds_ratio(swapped) == pytest.approx(7.0)
    assert odds_ratio([TIED]) is None
