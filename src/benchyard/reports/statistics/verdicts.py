"""The verdict of a gate: pass, fail or inconclusive, by the interval of a paired difference."""

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import fmean

from benchyard.reports.statistics.distributions import student_quantile
from benchyard.reports.statistics.means import LEVEL, t_interval

GATE_LEVEL = 0.965
"""Level of the interval that a gate rests on. With 0.95, simulated jobs with few attempts and skewed scores
are judged wrongly in up to 3 % of cases on either side; with this, in at most 2.5 %."""
PSEUDO_LOSSES = 2
"""Scenarios counted as lost beside those seen, for the lower bound of a gate.

Losses of a nearly perfect agent are rare: few of them make the mean too good and the spread too small at
once, and Student's bound takes no account of that. The first term that it leaves out (of Hall's expansion,
1992) is at most (1 + 2 z^2) / 6 = 1.65 scenarios, for differences between -1 and 1 of any distribution.
"""


NONE_SEEN = "none seen to differ in so many"
"""Method of bounds that rest on the number of scenarios alone."""


class GateVerdict(StrEnum):
    """The result of a gate."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Bounds:
    """The interval of a mean difference."""

    mean: float
    low: float
    high: float
    method: str


def difference_bounds(
    differences: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    level: float = LEVEL,
    *,
    is_bounded: bool = True,
) -> Bounds | None:
    """Return the interval of the mean of one difference per scenario; None where nothing bounds it.

    Differences that are all the same have no spread. If they come from scores between 0 and 1 (`is_bounded`),
    their number bounds them: a scenario that goes all the way to -1 or to 1 may be as frequent as is still
    likely not to be seen in so many. Those of other scores have no bounds then.
    """
    if not differences:
        return None
    mean = fmean(differences)
    if interval := t_interval(differences, clusters, level):
        return Bounds(mean, *interval, "paired t over scenarios")
    if not is_bounded:
        return None
    groups = len(differences) if clusters is None else len(set(clusters))
    unseen = 1.0 - ((1 - level) / 2) ** (1 / groups)
    low, high = mean - unseen * (1 + mean), mean + unseen * (1 - mean)
    return Bounds(mean, max(-1.0, low), min(1.0, high), NONE_SEEN)


def gate_bounds(
    differences: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    is_bounded: bool = True,
) -> Bounds | None:
    """Return the interval that a gate rests on; None where nothing bounds the difference.

    It is wider than the one that is shown, and its lower bound counts two more scenarios as lost (or two more
    clusters of the usual size), so that an agent that lost just the margin seldom passes, also after a
    baseline that passed everything.
    """
    found = difference_bounds(differences, clusters, GATE_LEVEL, is_bounded=is_bounded)
    if found is None or not is_bounded or t_interval(differences, clusters, GATE_LEVEL) is None:
        return found
    return replace(found, low=max(-1.0, min(found.low, _low_with_losses(differences, clusters))))


def _low_with_losses(differences: Sequence[float], clusters: Sequence[Hashable] | None) -> float:
    """Return the lower bound of Student's interval with further scenarios, or clusters, at -1."""
    keys: Sequence[Hashable] = range(len(differences)) if clusters is None else clusters
    sums: dict[Hashable, float] = defaultdict(float)
    sizes: dict[Hashable, float] = defaultdict(float)
    for key, difference in zip(keys, differences, strict=True):
        sums[key] += difference
        sizes[key] += 1.0
    seen = len(sums)
    usual = len(differences) / seen
    totals = [(sums[key], sizes[key]) for key in sums] + [(-usual, usual)] * PSEUDO_LOSSES
    count = math.fsum(size for _, size in totals)
    mean = math.fsum(total for total, _ in totals) / count
    groups = len(totals)
    squares = math.fsum((total - mean * size) ** 2 for total, size in totals)
    error = math.sqrt(groups / (groups - 1) * squares) / count
    return mean - student_quantile((1 + GATE_LEVEL) / 2, seen - 1) * error


def gate_bounds_expected(
    mean: float, variance: float, count: int, *, is_bounded: bool = True
) -> tuple[float, float]:
    """Return the bounds of a gate on so many scenarios, whose differences have a mean and a variance."""
    reach = student_quantile((1 + GATE_LEVEL) / 2, count - 1)
    error = math.sqrt(variance / count)
    low, high = mean - reach * error, mean + reach * error
    if not is_bounded:
        return low, high
    whole = count + PSEUDO_LOSSES
    share = PSEUDO_LOSSES / whole
    # The squares of the scenarios seen, and those of the distance between them and the lost ones.
    squares = variance * (count - 1) + (1 + mean) ** 2 * count * share
    lost = mean * (1 - share) - share - reach * math.sqrt(squares / (whole * (whole - 1)))
    return max(-1.0, min(low, lost)), high


def least_number(is_enough: Callable[[int], bool], least: int, most: int) -> int | None:
    """Return the smallest number from the least on that is enough; None where not even the most is.

    What is enough must stay so for all larger numbers.
    """
    if is_enough(least):
        return least
    if least >= most or not is_enough(most):
        return None
    low, high = least, most
    while high - low > 1:
        middle = (low + high) // 2
        if is_enough(middle):
            high = middle
        else:
            low = middle
    return high


def verdict(low: float, high: float, margin: float) -> GateVerdict:
    """Return the verdict of an interval: whether it lies below -margin, above it, or holds it."""
    if high < -margin:
        return GateVerdict.FAIL
    if low > -margin:
        return GateVerdict.PASS
    return GateVerdict.INCONCLUSIVE
