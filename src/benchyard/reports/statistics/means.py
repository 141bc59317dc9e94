"""Means with confidence intervals: Wilson's on the effective number of clusters, and its relatives."""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchyard.reports.statistics.distributions import (
    beta_quantile,
    normal_quantile,
    student_quantile,
)

LEVEL = 0.95
"""Confidence of all intervals that name no other."""
Z_95 = normal_quantile((1 + LEVEL) / 2)
"""Number of standard errors that hold 95 % of the normal distribution."""
_DIGITS = 9
_BINARY = frozenset({0.0, 1.0})
_LEAST_VARIANCE = 1e-30
_ROUNDING = 1e-9
"""Standard error, as a part of the largest value or of 1, below which a spread comes from rounding."""


@dataclass(frozen=True)
class Estimate:
    """A mean, and the 95 % confidence interval around it."""

    mean: float
    low: float
    high: float
    n: int = 0
    """Number of values, one for each scenario."""
    n_clusters: int = 0
    """Number of groups of values that are independent of each other."""
    n_effective: float = 0.0
    """Number of independent tries that would leave the same uncertainty."""
    method: str = ""


def estimate(scores: Sequence[float], clusters: Sequence[Hashable] | None = None) -> Estimate | None:
    """Return the mean of one score per scenario, with its interval; None without scores.

    A scenario with several attempts gives their mean: attempts at the same scenario are not independent, so
    the interval is over scenarios, or over clusters of them where these are given (a repository, a family).
    Scores between 0 and 1 get Wilson's interval with as many tries as would leave the same standard error,
    never fewer than there are clusters, and with Student's quantile; it is never empty. For scores of 0 and 1
    without clusters it is Wilson's own. Other scores get Student's interval, and none where they have no
    spread: then nothing bounds their mean.
    """
    if not scores:
        return None
    mean, count = fmean(scores), len(scores)
    groups = count if clusters is None else len(set(clusters))
    if clusters is None and set(scores) <= _BINARY:
        low, high = wilson(mean, count)
        return _cut_estimate(mean, low, high, count, count, count, "wilson")
    error = standard_error(scores, clusters)
    if min(scores) < 0.0 or max(scores) > 1.0:
        low, high = t_interval(scores, clusters) or (-math.inf, math.inf)
        return Estimate(round(mean, _DIGITS), low, high, count, groups, groups, "student")
    if error == 0.0:
        low, high = wilson(mean, groups)
        return _cut_estimate(mean, low, high, count, groups, groups, "wilson")
    # Scores that hardly differ from 0 have a variance below what a float holds.
    square = max(error * error, _LEAST_VARIANCE)
    effective = max(float(groups), mean * (1 - mean) / square)
    low, high = wilson(mean, effective, student_quantile((1 + LEVEL) / 2, max(1, groups - 1)))
    return _cut_estimate(mean, low, high, count, groups, effective, "wilson, effective n")


def _cut_estimate(
    mean: float, low: float, high: float, count: int, groups: int, effective: float, method: str
) -> Estimate:
    return Estimate(
        round(mean, _DIGITS),
        _cut(min(low, mean)),
        _cut(max(high, mean)),
        count,
        groups,
        round(effective, 3),
        method,
    )


def standard_error(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> float:
    """Return the standard error of a mean whose values are independent between clusters only.

    It is 0 for equal values, and where there is a single cluster, which tells nothing of the variation.
    """
    if len(values) < 2 or min(values) == max(values):
        return 0.0
    mean = fmean(values)
    if clusters is None:
        count = len(values)
        return math.sqrt(math.fsum([(value - mean) ** 2 for value in values]) / (count * (count - 1)))
    sums: dict[Hashable, list[float]] = defaultdict(list)
    for key, value in zip(clusters, values, strict=True):
        sums[key].append(value - mean)
    groups = len(sums)
    if groups < 2:
        return 0.0
    total = math.fsum(math.fsum(group) ** 2 for group in sums.values())
    return math.sqrt(groups / (groups - 1) * total) / len(values)


def wilson(share: float, count: float, z: float = Z_95) -> tuple[float, float]:
    """Return Wilson's interval of a share of so many."""
    share = min(1.0, max(0.0, share))
    square = z**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    reach = z / (1 + square / count) * math.sqrt(share * (1 - share) / count + square / (4 * count**2))
    return middle - reach, middle + reach


def clopper_pearson(passed: int, count: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the exact interval of a share, which holds at least as often as it says."""
    outside = (1 - level) / 2
    low = 0.0 if passed == 0 else beta_quantile(outside, passed, count - passed + 1)
    high = 1.0 if passed == count else beta_quantile(1 - outside, passed + 1, count - passed)
    return low, high


def beta_interval(passed: int, count: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the interval of a share that follows from knowing nothing before: of a uniform prior."""
    outside = (1 - level) / 2
    a, b = passed + 1, count - passed + 1
    return beta_quantile(outside, a, b), beta_quantile(1 - outside, a, b)


def t_interval(
    values: Sequence[float], clusters: Sequence[Hashable] | None = None, level: float = LEVEL
) -> tuple[float, float] | None:
    """Return Student's interval of a mean; None where the values have no spread to make one from.

    A spread of the size of rounding is none: the differences of thirds are not all the same number.
    """
    groups = len(values) if clusters is None else len(set(clusters))
    error = standard_error(values, clusters)
    if groups < 2 or _is_rounding(error, values):
        return None
    mean = fmean(values)
    reach = student_quantile((1 + level) / 2, groups - 1) * error
    return mean - reach, mean + reach


def _is_rounding(error: float, values: Sequence[float]) -> bool:
    """Tell whether a standard error is 0, or so small that only rounding made it."""
    return error <= _ROUNDING * max(1.0, max(values), -min(values))


@dataclass(frozen=True)
class Amount:
    """A mean of amounts such as costs, which have no upper end, with Student's interval."""

    mean: float
    low: float | None
    high: float | None
    """None where the amounts have no spread to make an interval from."""
    n: int


def amount(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> Amount | None:
    """Return the mean of one amount per scenario with its interval, which does not go below 0."""
    if not values:
        return None
    mean = fmean(values)
    interval = t_interval(values, clusters)
    if interval is None:
        return Amount(mean, None, None, len(values))
    low = max(0.0, interval[0]) if min(values) >= 0 else interval[0]
    return Amount(mean, low, interval[1], len(values))


def ratio(
    amounts: Sequence[float], counts: Sequence[float], clusters: Sequence[Hashable] | None = None
) -> Amount | None:
    """Return the sum of amounts for each one counted, over scenarios, with its interval.

    None where nothing is counted. The interval is that of a ratio of two means, by its linear part.
    """
    total, counted = math.fsum(amounts), math.fsum(counts)
    if not counted:
        return None
    mean = total / counted
    rests = [each - mean * count for each, count in zip(amounts, counts, strict=True)]
    groups = len(rests) if clusters is None else len(set(clusters))
    error = standard_error(rests, clusters) * len(rests) / counted
    if groups < 2 or _is_rounding(error, rests):
        return Amount(mean, None, None, len(rests))
    reach = student_quantile((1 + LEVEL) / 2, groups - 1) * error
    return Amount(mean, max(0.0, mean - reach), mean + reach, len(rests))


def _cut(value: float) -> float:
    return round(min(1.0, max(0.0, value)), _DIGITS)
