"""The verdict of a gate: pass, fail or inconclusive, by the interval of a paired difference."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from benchyard.reports.statistics.means import LEVEL, t_interval

GATE_LEVEL = 0.965
"""Level of the interval that a gate rests on. With 0.95, simulated jobs with few attempts and skewed scores
are judged wrongly in up to 3 % of cases on either side; with this, in at most 2.5 %."""


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
    differences: Sequence[float], clusters: Sequence[Hashable] | None = None, level: float = LEVEL
) -> Bounds | None:
    """Return the interval of the mean of one difference per scenario; None without any.

    Differences that are all the same have no spread. What bounds them then is their number: a scenario that
    goes all the way to -1 or to 1 may be as frequent as is still likely not to be seen in so many.
    """
    if not differences:
        return None
    mean = fmean(differences)
    if interval := t_interval(differences, clusters, level):
        return Bounds(mean, *interval, "paired t over scenarios")
    groups = len(differences) if clusters is None else len(set(clusters))
    unseen = 1.0 - ((1 - level) / 2) ** (1 / groups)
    low, high = mean - unseen * (1 + mean), mean + unseen * (1 - mean)
    return Bounds(mean, max(-1.0, low), min(1.0, high), "none seen to differ in so many")


def verdict(low: float, high: float, margin: float) -> GateVerdict:
    """Return the verdict of an interval: whether it lies below -margin, above it, or holds it."""
    if high < -margin:
        return GateVerdict.FAIL
    if low > -margin:
        return GateVerdict.PASS
    return GateVerdict.INCONCLUSIVE
