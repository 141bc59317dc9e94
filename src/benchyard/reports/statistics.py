"""Statistics of scores: confidence intervals of means, and pass@k."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

Z_95 = 1.959963984540054
"""Number of standard errors that hold 95 % of the normal distribution."""

_T_95 = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
"""Numbers of standard errors that hold 95 % of Student's distribution, for 1 to 10 degrees of freedom.

From there on, a series is exact enough.
"""

_DIGITS = 9


@dataclass(frozen=True)
class Estimate:
    """A mean, and the 95 % confidence interval around it."""

    mean: float
    low: float
    high: float


def estimate(scores: Sequence[float]) -> Estimate | None:
    """Return the mean of one score per scenario, with its interval; None without scores.

    A scenario with several attempts gives their mean: attempts at the same scenario are not independent, so
    the interval is over scenarios. Scores that are all 0 or 1 (or all equal, which tells nothing of their
    variation) get Wilson's interval, which is never empty; others get Student's, cut to 0 and 1.
    """
    if not scores:
        return None
    mean, count = fmean(scores), len(scores)
    spread = _spread(scores, mean)
    if spread == 0.0 or all(score in (0.0, 1.0) for score in scores):
        low, high = wilson(mean, count)
    else:
        reach = t_95(count - 1) * spread / math.sqrt(count)
        low, high = mean - reach, mean + reach
    return Estimate(round(mean, _DIGITS), _cut(min(low, mean)), _cut(max(high, mean)))


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share of so many."""
    share = min(1.0, max(0.0, share))
    square = Z_95**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    reach = Z_95 / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return middle - reach, middle + reach


def t_95(freedom: int) -> float:
    """Return the number of standard errors that hold 95 % of Student's distribution."""
    if freedom <= len(_T_95):
        return _T_95[freedom - 1]
    cube, fifth = Z_95**3, Z_95**5
    first = (cube + Z_95) / (4 * freedom)
    return Z_95 + first + (5 * fifth + 16 * cube + 3 * Z_95) / (96 * freedom**2)


@lru_cache(maxsize=4096)
def pass_at(k: int, attempts: int, passed: int) -> float:
    """Return the chance that one of k attempts passes, from `passed` of `attempts`; unbiased.

    See Chen et al., 2021.
    """
    if not 1 <= k <= attempts or not 0 <= passed <= attempts:
        raise ValueError(f"pass@{k} of {passed} passed in {attempts} attempts has no meaning")
    return 1.0 - math.comb(attempts - passed, k) / math.comb(attempts, k)


def pass_at_k(counts: Iterable[tuple[int, int]], attempts: int) -> dict[str, float]:
    """Return pass@k for k = 1, 2, 4, ... and all attempts, from (counting, passed) attempts per scenario.

    A scenario with fewer than k counting attempts has no pass@k and is left out of it.
    """
    known = list(counts)
    estimates = {}
    for k in _steps(attempts):
        values = [pass_at(k, tried, passed) for tried, passed in known if tried >= k]
        if values:
            estimates[str(k)] = round(fmean(values), _DIGITS)
    return estimates


def _steps(attempts: int) -> list[int]:
    if attempts < 2:
        return []
    powers = [2**power for power in range(attempts.bit_length()) if 2**power < attempts]
    return [*powers, attempts]


def _spread(scores: Sequence[float], mean: float) -> float:
    """Return the standard deviation; exactly 0 for equal scores, despite rounding errors of their mean."""
    if min(scores) == max(scores):
        return 0.0
    return math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / (len(scores) - 1))


def _cut(value: float) -> float:
    return round(min(1.0, max(0.0, value)), _DIGITS)
