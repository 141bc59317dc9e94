"""Power, against published values and by simulation."""

import math
import random

import pytest

from benchyard.reports.statistics.differences import Stratum, exact_test
from benchyard.reports.statistics.power import (
    NoiseParts,
    attempts_needed,
    detectable_difference,
    scenarios_needed,
)

NOISE = NoiseParts(scenarios=1 / 9, attempts_a=0.0, attempts_b=0.0)


def test_the_number_of_scenarios_is_that_of_the_paper() -> None:
    assert scenarios_needed(0.03, NOISE) == pytest.approx(968.997, abs=1e-3)
    assert detectable_difference(969, NOISE) == pytest.approx(0.03, abs=1e-6)


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
