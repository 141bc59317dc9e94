"""Power: the difference that so many scenarios and attempts can show, and what it takes to show one."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from benchyard.reports.statistics.distributions import normal_quantile, normal_share, student_quantile

POWER = 0.8
"""Chance to see a difference that is there."""
LEVEL = 0.05
"""Chance of a claim where there is no difference."""
MOST_ATTEMPTS = 1_000
_MOST_SCENARIOS = 1e9
_POINTS = 200
"""Number of intervals of a numerical integral; even."""
_REACH = 8.0
"""Standard deviations on both sides that an integral goes over."""


@dataclass(frozen=True)
class NoiseParts:
    """The variance of the difference of two agents at one scenario, by where it comes from."""

    scenarios: float
    """The difference itself is not the same at each scenario."""
    attempts_a: float
    attempts_b: float
    """An agent does not always do the same: the variance of one attempt."""

    def error(self, scenarios: int, attempts_a: float, attempts_b: float) -> float:
        """Return the standard error of the mean difference."""
        noise = self.attempts_a / attempts_a + self.attempts_b / attempts_b
        return math.sqrt((self.scenarios + noise) / scenarios)


def _reach(power: float, level: float) -> float:
    return normal_quantile(1 - level / 2) + normal_quantile(power)


def scenarios_needed(
    difference: float,
    noise: NoiseParts,
    attempts: float = 1,
    *,
    power: float = POWER,
    level: float = LEVEL,
) -> float:
    """Return the number of scenarios with so many attempts that show a difference; not rounded."""
    spread = noise.scenarios + (noise.attempts_a + noise.attempts_b) / attempts
    return _reach(power, level) ** 2 * spread / difference**2


def detectable_difference(
    scenarios: int, noise: NoiseParts, attempts: float = 1, *, power: float = POWER, level: float = LEVEL
) -> float:
    """Return the smallest difference that so many scenarios and attempts show."""
    return _reach(power, level) * noise.error(scenarios, attempts, attempts)


def attempts_needed(
    difference: float,
    scenarios: int,
    noise: NoiseParts,
    *,
    power: float = POWER,
    level: float = LEVEL,
) -> int | None:
    """Return the attempts at each scenario that show a difference; None where no number of them does.

    More attempts do not help against a difference that is not the same at each scenario.
    """
    allowed = scenarios * (difference / _reach(power, level)) ** 2 - noise.scenarios
    if allowed <= 0:
        return None
    attempts = max(1, math.ceil((noise.attempts_a + noise.attempts_b) / allowed - 1e-9))
    return attempts if attempts <= MOST_ATTEMPTS else None


@dataclass(frozen=True)
class PowerCell:
    """The difference that a comparison of some size shows."""

    attempts: int
    scenarios: int
    detectable: float


def power_table(
    noise: NoiseParts, scenarios: Iterable[int], attempts: Iterable[int], *, power: float = POWER
) -> list[PowerCell]:
    """Return the detectable difference for each number of scenarios with each number of attempts."""
    numbers = sorted(set(attempts))
    return [
        PowerCell(number, count, detectable_difference(count, noise, number, power=power))
        for count in sorted(set(scenarios))
        for number in numbers
    ]


def student_power(scenarios: float, difference: float, deviation: float, level: float = LEVEL) -> float:
    """Return the chance that Student's paired test shows a difference, given the deviation of one scenario.

    It is the tail of the noncentral distribution on the side of the difference, as R has it.
    """
    freedom = scenarios - 1
    limit = student_quantile(1 - level / 2, freedom)
    shift = math.sqrt(scenarios) * abs(difference) / deviation
    # The estimated deviation varies as the root of a chi-squared one over its degrees of freedom.
    width = _REACH / math.sqrt(2 * freedom)
    low, high = max(1e-9, 1 - width), 1 + width
    step = (high - low) / _POINTS
    log_scale = math.log(2) + freedom / 2 * math.log(freedom / 2) - math.lgamma(freedom / 2)
    total = 0.0
    for index in range(_POINTS + 1):
        ratio = low + index * step
        density = math.exp(log_scale + (freedom - 1) * math.log(ratio) - freedom * ratio * ratio / 2)
        weight = 1 if index in (0, _POINTS) else 4 if index % 2 else 2
        total += weight * density * normal_share(shift - limit * ratio)
    return total * step / 3


@lru_cache(maxsize=256)
def student_scenarios_needed(
    difference: float, deviation: float, *, power: float = POWER, level: float = LEVEL
) -> float:
    """Return the number of scenarios with which Student's paired test shows a difference; not rounded."""
    return _least(lambda count: student_power(count, difference, deviation, level), power)


def attempts_for_shares(before: float, after: float, *, power: float = POWER, level: float = LEVEL) -> float:
    """Return the attempts on each side that show that a single share has changed; not rounded."""
    pooled = (before + after) / 2
    outside = normal_quantile(1 - level / 2) * math.sqrt(2 * pooled * (1 - pooled))
    inside = normal_quantile(power) * math.sqrt(before * (1 - before) + after * (1 - after))
    return ((outside + inside) / (after - before)) ** 2


def _least(power_of: Callable[[float], float], power: float) -> float:
    """Return the smallest number, of at least 2, that has a power, which grows with it."""
    low, high = 2.0, 4.0
    while power_of(high) < power and high < _MOST_SCENARIOS:
        low, high = high, high * 2
    for _ in range(60):
        middle = (low + high) / 2
        if power_of(middle) < power:
            low = middle
        else:
            high = middle
    return (low + high) / 2
