"""Exact tests, intervals, flips and evidence, against published values."""

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as some

from benchyard.reports.statistics.differences import (
    Flips,
    Stratum,
    chi_squared_test,
    cluster_means,
    difference_parts,
    e_value,
    exact_odds_ratio,
    exact_test,
    flips,
    odds_ratio,
    paired_difference,
    permutation_test,
    shuffle_test,
    sign_test,
    strata_test,
)
from benchyard.reports.statistics.means import standard_error
from benchyard.reports.statistics.power import NoiseParts

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
    assert exact_test([Stratum(5, 5, 0, 5)]).p == pytest.approx(0.007936507937, abs=1e-12)


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
    # One scenario with single attempts does not hide what the others tell.
    mixed = flips([WON, Stratum(1, 2, 1, 2), Stratum(0, 3, 3, 3)])
    assert (mixed.n_repeated, mixed.differ_repeated) == (2, 1)
    assert mixed.expected is not None
    assert 10 / 16 < mixed.expected < 2
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


def test_differences_without_a_spread_are_tested_by_their_signs() -> None:
    assert sign_test([0.5] * 10) == pytest.approx(2 / 2**10)
    assert sign_test([0.5] * 5 + [-0.5] * 5 + [0.0]) == 1.0
    assert sign_test([]) == 1.0


def test_the_odds_ratio_is_that_of_r() -> None:
    swapped = [Stratum(each.passed_b, each.attempts_b, each.passed_a, each.attempts_a) for each in RABBITS]
    assert odds_ratio(swapped) == pytest.approx(7.0)
    assert odds_ratio([TIED]) is None


def test_chi_squared_is_that_of_r() -> None:
    value, p = chi_squared_test([LOST] * 86 + [WON] * 150 + [TIED] * 10, corrected=False)
    assert (value, p) == pytest.approx((17.355932, 3.099293e-05), rel=1e-6)
    assert chi_squared_test(ADMISSIONS)[0] == pytest.approx(1.4269462, abs=1e-7)
    assert chi_squared_test([TIED]) == (0.0, 1.0)


def test_the_exact_odds_ratio_is_that_of_r() -> None:
    # R gives the odds of the first agent, and stops its search at a relative error of about 1e-5.
    assert 1 / (exact_odds_ratio(RABBITS) or 0) == pytest.approx(10.36102408, rel=1e-5)
    assert exact_odds_ratio([WON, WON]) is None
    assert exact_odds_ratio([]) is None


def test_the_error_of_a_difference_is_the_published_one_of_swe_bench() -> None:
    # rag_claude2 against rag_gpt35: 22 of 500 differ, 20 more are won than lost; with the sum over n.
    differences = [1.0] * 21 + [-1.0] + [0.0] * 478
    assert standard_error(differences) * (499 / 500) ** 0.5 == pytest.approx(0.00920869154657707, rel=1e-12)


def test_the_parts_of_a_difference_add_up_to_the_published_error() -> None:
    # r1-distill-llama-70b against 8b at the 30 problems of AIME 2024, from errors of prediction and of data.
    of_attempts = 0.07820209046**2 * 30
    parts = NoiseParts(0.03092728899**2 * 30, of_attempts / 2, of_attempts / 2)
    assert parts.error(30, 1, 1) == pytest.approx(0.08409556562, abs=1e-10)
    assert parts.error(30, 1e12, 1e12) == pytest.approx(0.03092728899, abs=1e-9)


def test_results_with_the_published_parts_give_the_published_error() -> None:
    # Thirty problems whose errors of prediction and of data are those of AIME 2024, in many attempts.
    chance = random.Random(24)
    of_data, of_attempts = 0.03092728899 * 30**0.5, 0.07820209046 * 30**0.5
    # Both agents are far from a half, on either side of it, and the second is nearer.
    far = (of_data + (1 - 2 * of_attempts**2 - of_data**2) ** 0.5) / 2
    found = []
    for _ in range(200):
        pairs = []
        for number in range(30):
            side = (-1) ** number
            share, step = 0.5 + side * far, -side * of_data
            before = [float(chance.random() < share) for _ in range(8)]
            after = [float(chance.random() < share + step) for _ in range(8)]
            pairs.append((before, after))
        parts = difference_parts(pairs)
        assert parts is not None
        found.append(parts.error(30, 1, 1))
    assert fmean(found) == pytest.approx(0.08409556562, rel=0.03)


def test_the_parts_of_a_difference_are_those_of_the_population() -> None:
    chance = random.Random(8)
    shares = [(chance.uniform(0.2, 0.6), chance.choice([0.0, 0.3])) for _ in range(6000)]
    pairs = [
        ([float(chance.random() < p) for _ in range(3)], [float(chance.random() < p + d) for _ in range(5)])
        for p, d in shares
    ]
    parts = difference_parts(pairs)
    assert parts is not None
    assert parts.scenarios == pytest.approx(0.15**2, abs=0.01)
    expected = sum(p * (1 - p) + (p + d) * (1 - p - d) for p, d in shares) / len(shares)
    assert parts.attempts_a + parts.attempts_b == pytest.approx(expected, abs=0.01)


def test_the_parts_of_a_difference_by_hand() -> None:
    pairs = [([1.0, 0.0], [1.0, 1.0]), ([0.0, 0.0], [1.0, 0.0]), ([1.0, 1.0], [0.0, 1.0])]
    parts = difference_parts(pairs)
    assert parts is not None
    assert (parts.scenarios, parts.attempts_a, parts.attempts_b) == pytest.approx((1 / 12, 1 / 6, 1 / 3))
    assert difference_parts(pairs[:1]) is None
    assert difference_parts(pairs, ["x"] * 3) is None


def test_single_attempts_and_clusters_have_parts_too() -> None:
    single: list[tuple[list[float], list[float]]] = [([1.0], [float(number >= 10)]) for number in range(40)]
    alone = difference_parts(single)
    together = difference_parts(single, [number // 10 for number in range(40)])
    assert alone is not None
    assert together is not None
    assert alone.scenarios == 0.0
    assert together.attempts_a == alone.attempts_a
    # One family of four was lost: that is as sure as one scenario of four.
    assert together.error(40, 1, 1) == pytest.approx(0.25)


def test_many_attempts_are_tested_by_what_is_as_good_and_fast() -> None:
    strata = [Stratum(3, 5, 2, 5), Stratum(5, 5, 3, 5), Stratum(1, 5, 2, 5)] * 10
    exact, fast = strata_test(strata), strata_test(strata, 100)
    assert exact.method.startswith("exact")
    assert (fast.p_middle, "chi squared" in fast.method) == (None, True)
    assert fast.p == pytest.approx(exact.p, abs=0.02)


def test_many_graded_scores_are_tested_by_the_limit_of_their_shuffles() -> None:
    chance = random.Random(6)

    def scores(count: int, gain: float) -> list[tuple[list[float], list[float]]]:
        return [
            ([chance.random() for _ in range(3)], [chance.random() + gain for _ in range(2)])
            for _ in range(count)
        ]

    assert shuffle_test(scores(20, 0.05))[1].startswith("labels shuffled")
    many = scores(101, 0.05)
    limit, method = shuffle_test(many)
    assert method.startswith("normal limit")
    assert limit == pytest.approx(permutation_test(many, 1000), abs=0.04)
    assert shuffle_test(scores(4000, 0.05))[0] < 1e-6


def test_no_result_is_impossible() -> None:
    assert exact_test([LOST] * 2000).p > 0
    assert strata_test([LOST] * 20_000).p > 0
    found = paired_difference([1.0 + 1e-6 * (number % 2) for number in range(300)])
    assert found is not None
    assert found.p is not None
    assert found.p > 0


def test_clusters_have_the_mean_of_their_differences() -> None:
    assert cluster_means([1.0, 0.0, -1.0, 0.1, 0.2, -0.3], ["a", "a", "b", "c", "c", "c"]) == [0.5, -1.0, 0.0]
