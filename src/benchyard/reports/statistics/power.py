"""Power: the difference that so many scenarios and attempts can show, and what it takes to show one."""

import math
from dataclasses import dataclass

from benchyard.reports.statistics.distributions import normal_quantile

POWER = 0.8
"""Chance to see a difference that is there."""
LEVEL = 0.05
"""Chance of a claim where there is no difference."""
MOST_ATTEMPTS = 1_000


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
