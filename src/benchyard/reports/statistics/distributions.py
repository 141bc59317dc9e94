"""Quantiles and tails of the normal, Student's and the beta distribution, without a numerical library."""

import math
from functools import lru_cache
from statistics import NormalDist

_NORMAL = NormalDist()
_TINY = 1e-300
_STEPS = 10_000
_HALVINGS = 200


def normal_quantile(share: float) -> float:
    """Return the number of standard deviations below which this share of the normal distribution lies."""
    return _NORMAL.inv_cdf(share)


def normal_share(deviations: float) -> float:
    """Return the share of the normal distribution below so many standard deviations."""
    return math.erfc(-deviations / math.sqrt(2)) / 2


def normal_tail(deviations: float) -> float:
    """Return the share of the normal distribution beyond so many standard deviations, on both sides."""
    return math.erfc(abs(deviations) / math.sqrt(2))


@lru_cache(maxsize=4096)
def beta_share(x: float, a: float, b: float) -> float:
    """Return the share of the beta distribution below x: the regularized incomplete beta function."""
    if x <= 0.0:
        return 0.0
    if x >= 1.0:
        return 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    front = math.exp(log_front)
    # The continued fraction converges fast only on this side of the mean.
    if x < (a + 1.0) / (a + b + 2.0):
        return front * _beta_fraction(x, a, b) / a
    return 1.0 - front * _beta_fraction(1.0 - x, b, a) / b


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    c = 1.0
    d = 1.0 / _nonzero(1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 / _nonzero(1.0 + even * d)
        c = _nonzero(1.0 + even / c)
        value *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 / _nonzero(1.0 + odd * d)
        c = _nonzero(1.0 + odd / c)
        step = d * c
        value *= step
        if abs(step - 1.0) < 1e-15:
            break
    return value


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


@lru_cache(maxsize=4096)
def beta_quantile(share: float, a: float, b: float) -> float:
    """Return the x below which this share of the beta distribution lies."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if beta_share(middle, a, b) < share:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def student_tail(t: float, freedom: float) -> float:
    """Return the share of Student's distribution beyond t, on both sides."""
    return beta_share(freedom / (freedom + t * t), freedom / 2, 0.5)


@lru_cache(maxsize=4096)
def student_quantile(share: float, freedom: float) -> float:
    """Return the t below which this share of Student's distribution lies."""
    if freedom <= 0:
        raise ValueError("Student's distribution needs at least one degree of freedom")
    if share < 0.5:
        return -student_quantile(1.0 - share, freedom)
    if share == 0.5:
        return 0.0
    outside = 2.0 * (1.0 - share)
    low, high = 0.0, 1.0
    while student_tail(high, freedom) > outside:
        low, high = high, high * 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if student_tail(middle, freedom) > outside:
            low = middle
        else:
            high = middle
    return (low + high) / 2
