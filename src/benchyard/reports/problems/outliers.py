"""Outliers among the trials of an agent at a scenario, by the median absolute deviation. Pure."""

from collections.abc import Sequence
from statistics import median

LEAST_PEERS = 5
_DEVIATIONS = 5.0
_NORMAL = 1.4826
"""Ratio of the standard deviation to the median absolute deviation of normal values."""
_LEAST_FACTOR = 2.0


def is_outlier(value: float, known: Sequence[float]) -> bool | None:
    """Tell whether a value is far above the others; None with too few of them."""
    if len(known) < LEAST_PEERS:
        return None
    usual = median(known)
    spread = _NORMAL * median(abs(each - usual) for each in known)
    return value > usual + _DEVIATIONS * spread and value > _LEAST_FACTOR * usual


def middle(known: Sequence[float]) -> float:
    """Return the median."""
    return float(median(known))
