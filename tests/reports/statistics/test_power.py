"""Power, against published values and by simulation."""

import math
import random

import pytest

from benchyard.reports.statistics.differences import Stratum, exact_test
from benchyard.reports.statistics.power import (
    NoiseParts,
    attempts_for_shares,
    attempts_needed,
    detectable_difference,
    power_table,
    scenarios_needed,
    student_power,
    student_scenarios_needed,
)

NOISE = NoiseParts(scenarios=1 / 9, attempts_a=0.0, attempts_b=0.0)


def test_the_number_of_scenarios_is_that_of_the_paper() -> None:
    assert scenarios_needed(0.03, NOISE) == pytest.approx(968.997, abs=1e-3)
    assert detectable_difference(969, NOISE) == pytest.approx(0.03, abs=1e-6)


def test_sizes_are_those_that_r_prints() -> None:
    assert student_scenarios_needed(0.03, 1 / 3) == pytest.approx(970.9199778, abs=1e-5)
    assert attempts_for_shares(0.5, 0.75, power=0.9) == pytest.approx(76.70693011, rel=1e-7)


def test_students_power_is_the_level_without_a_difference_and_grows_with_it() -> None:
    assert student_power(12, 0.0, 1.0) == pytest.approx(0.025, abs=1e-4)
    powers = [student_power(12, difference, 1.0) for difference in (0.2, 0.5, 1.0, 3.0)]
    assert powers == sorted(powers)
    assert 0.99 < powers[-1] <= 1.0 + 1e-9


def test_the_table_of_power_has_each_size_once() -> None:
    noise = NoiseParts(scenarios=0.01, attempts_a=0.2, attempts_b=0.2)
    table = power_table(noise, [100, 50, 100], [3, 1])
    assert [(cell.scenarios, cell.attempts) for cell in table] == [(50, 1), (50, 3), (100, 1), (100, 3)]
    assert table[3].detectable == detectable_difference(100, noise, 3)
    assert table[3].detectable < table[2].detectable < table[0].detectable


def test_more_attempts_help_only_against_the_noise_of_attempts() -> None:
    noise = NoiseParts(scenarios=0.01, attempts_a=0.2, attempts_b=0.2)
    needed = attempts_needed(0.05, 100, noise)
    assert needed is not None
    assert detectable_difference(100, noise, needed) <= 0.05 < detectable_difference(100, noise, needed - 1)
    assert attempts_needed(0.02, 100, noise) is None
    assert attempts_needed(0.5, 100, noise) == 1


def test_a_difference_is_seen_as_often_as_the_power_says() -> None:
    chance = random.Random(2)
    spread = 0.25
    noise = NoiseParts(scenarios=0.0, attempts_a=spread, attempts_b=spread)
    scenarios = math.ceil(scenarios_needed(0.2, noise, 2))
    seen = 0
    for _ in range(200):
        strata = [
            Stratum(
                sum(chance.random() < 0.4 for _ in range(2)),
                2,
                sum(chance.random() < 0.6 for _ in range(2)),
                2,
            )
            for _ in range(scenarios)
        ]
        seen += exact_test(strata).p <= 0.05
    assert 140 <= seen <= 185
