"""Ranks: how well scenarios tell agents apart, and which agents cannot be told apart."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from benchyard.reports.statistics.distributions import normal_tail

_RESAMPLES = 1_000
_SEED = 20240607


def kendall_tau(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Kendall's rank correlation with ties (tau-b); None where one of them does not vary."""
    agree = disagree = tied_first = tied_second = 0
    for index, (x, y) in enumerate(zip(first, second, strict=True)):
        for u, v in zip(first[index + 1 :], second[index + 1 :], strict=True):
            if x == u or y == v:
                tied_first += x == u
                tied_second += y == v
            elif (x < u) == (y < v):
                agree += 1
            else:
                disagree += 1
    pairs = len(first) * (len(first) - 1) // 2
    scale = math.sqrt((pairs - tied_first) * (pairs - tied_second))
    return (agree - disagree) / scale if scale else None


@dataclass(frozen=True)
class Rank:
    """The place of an agent, and the places it takes in 95 % of resampled sets of scenarios."""

    place: int
    best: int
    worst: int


def rank_intervals(scores: Sequence[Sequence[float]], resamples: int = _RESAMPLES) -> list[Rank]:
    """Return the rank of each agent, from its scores at the same scenarios; seeded.

    Scenarios are drawn again with replacement, the same for all agents. Agents with equal means share the
    better place.
    """
    if not scores or not scores[0]:
        return [Rank(1, 1, 1) for _ in scores]
    generator = random.Random(_SEED)  # noqa: S311 - reproducible, not secret
    count = len(scores[0])
    drawn: list[list[int]] = [[] for _ in scores]
    for _ in range(resamples):
        chosen = generator.choices(range(count), k=count)
        means = [math.fsum(row[index] for index in chosen) for row in scores]
        for places, place in zip(drawn, _places(means), strict=True):
            places.append(place)
    ranks = []
    for place, places in zip(_places([fmean(row) for row in scores]), drawn, strict=True):
        places.sort()
        low, high = places[int(0.025 * resamples)], places[min(resamples - 1, int(0.975 * resamples))]
        ranks.append(Rank(place, min(place, low), max(place, high)))
    return ranks


def _places(means: Sequence[float]) -> list[int]:
    ordered = sorted(means, reverse=True)
    return [ordered.index(mean) + 1 for mean in means]


def trend_p(values: Sequence[float], errors: Sequence[float]) -> float:
    """Return the p-value of the last value against the pooled earlier ones, with their standard errors.

    1 where there is nothing to compare with, or no error to compare by.
    """
    if len(values) < 2:
        return 1.0
    weights = [1 / error**2 if error else 0.0 for error in errors[:-1]]
    total = math.fsum(weights)
    if not total:
        return 1.0
    past = math.fsum(weight * value for weight, value in zip(weights, values, strict=False)) / total
    spread = math.sqrt(1 / total + errors[-1] ** 2)
    return normal_tail((values[-1] - past) / spread)
