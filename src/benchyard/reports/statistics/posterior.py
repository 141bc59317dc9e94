"""Shares as beliefs: which of two agents passes more often, from a uniform prior; a second opinion on few.

See Bowyer, Aitchison and Ivanova, 2025: under a few hundred scenarios, intervals of large numbers mislead.
"""

import math


def chance_better(passed_a: int, count_a: int, passed_b: int, count_b: int) -> float:
    """Return the chance that the second of two agents passes more often, after independent tries of each.

    Every share was as likely as any other before. The sum is exact, and has one term for each pass.
    """
    if not 0 <= passed_a <= count_a or not 0 <= passed_b <= count_b:
        raise ValueError(f"{passed_a} of {count_a} against {passed_b} of {count_b} has no meaning")
    a, b = passed_a + 1, count_a - passed_a + 1
    c, d = passed_b + 1, count_b - passed_b + 1
    terms = (
        math.exp(
            _log_beta(a + index, b + d) - math.log(d + index) - _log_beta(1 + index, d) - _log_beta(a, b)
        )
        for index in range(c)
    )
    return min(1.0, math.fsum(terms))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
