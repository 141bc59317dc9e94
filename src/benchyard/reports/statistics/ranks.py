"""Ranks: Kendall's correlation of two orders, and the agents that cannot be told apart."""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from operator import mul
from statistics import fmean

from benchyard.reports.statistics.distributions import student_tail
from benchyard.reports.statistics.multiple_tests import holm

_LEVEL = 0.05
_SAME = 1e-9
_NO_SPREAD = 1e-18
"""Variance of a mean difference below which it comes from rounding."""


def kendall_score(first: Sequence[float], second: Sequence[float]) -> int:
    """Return the number of pairs that both order alike, less those that they order in reverse."""
    groups: dict[float, list[float]] = defaultdict(list)
    for x, y in zip(first, second, strict=True):
        groups[x].append(y)
    score = 0
    below: list[float] = []
    for x in sorted(groups):
        for y in groups[x]:
            score += bisect_left(below, y) + bisect_right(below, y) - len(below)
        below = sorted([*below, *groups[x]])
    return score


def kendall_tau(first: Sequence[float], second: Sequence[float], score: int | None = None) -> float | None:
    """Return Kendall's rank correlation with ties (tau-b); None where one of them does not vary.

    Their score may be given, if it is known.
    """
    pairs = len(first) * (len(first) - 1) // 2
    tied_first, tied_second = (
        sum(count * (count - 1) // 2 for count in Counter(values).values()) for values in (first, second)
    )
    scale = math.sqrt((pairs - tied_first) * (pairs - tied_second))
    if not scale:
        return None
    return (kendall_score(first, second) if score is None else score) / scale


@dataclass(frozen=True)
class Rank:
    """The place of an agent by mean, and the places that differences beyond chance leave it."""

    place: int
    best: int
    worst: int


def _places(means: Sequence[float]) -> list[int]:
    ordered = sorted(means, reverse=True)
    return [ordered.index(mean) + 1 for mean in means]


@dataclass(frozen=True)
class Standing:
    """The order of agents by mean, as far as their differences are more than chance."""

    ranks: list[Rank]
    """The rank of each agent: it is better than so many others, and worse than so many, beyond chance."""
    groups: list[list[int]]
    """Indexes of agents, best first, of which no two can be told apart; an agent may be in several."""
    p_values: dict[tuple[int, int], float]
    """Pairs of indexes -> the chance of their difference, corrected for the number of pairs (Holm)."""


def standing(scores: Sequence[Sequence[float]], clusters: Sequence[Hashable] | None = None) -> Standing:
    """Return the order of agents from their scores at the same scenarios.

    Each pair is tested by Student's test of its paired differences, over scenarios or clusters of them.
    """
    means = [fmean(row) if row else 0.0 for row in scores]
    pairs = _paired_p_values(scores, means, clusters)
    adjusted = dict(zip(pairs, holm(list(pairs.values())), strict=True))
    apart = {pair for pair, p in adjusted.items() if p <= _LEVEL}
    better = [0] * len(scores)
    worse = [0] * len(scores)
    for a, b in apart:
        winner, loser = (a, b) if means[a] > means[b] else (b, a)
        worse[loser] += 1
        better[winner] += 1
    ranks = [
        Rank(place, 1 + worse[agent], len(scores) - better[agent])
        for agent, place in enumerate(_places([round(mean, 9) for mean in means]))
    ]
    return Standing(ranks, _groups(means, apart), adjusted)


def _paired_p_values(
    scores: Sequence[Sequence[float]], means: Sequence[float], clusters: Sequence[Hashable] | None
) -> dict[tuple[int, int], float]:
    sums = [_cluster_sums(row, mean, clusters) for row, mean in zip(scores, means, strict=True)]
    groups = len(sums[0]) if sums else 0
    if groups < 2:
        return {(a, b): 1.0 for a in range(len(scores)) for b in range(a + 1, len(scores))}
    squares = [math.fsum(map(mul, row, row)) for row in sums]
    scale = groups / (groups - 1) / len(scores[0]) ** 2
    found = {}
    for a in range(len(scores)):
        for b in range(a + 1, len(scores)):
            # The variance of a difference follows from those of both and what they have in common.
            variance = (squares[a] + squares[b] - 2 * math.fsum(map(mul, sums[a], sums[b]))) * scale
            if variance < _NO_SPREAD:
                # Equal differences everywhere have no spread, but signs that can be tested.
                is_equal = abs(means[a] - means[b]) < _SAME
                found[a, b] = 1.0 if is_equal else min(1.0, 2 * 0.5**groups)
            else:
                found[a, b] = student_tail((means[a] - means[b]) / math.sqrt(variance), groups - 1)
    return found


def _cluster_sums(row: Sequence[float], mean: float, clusters: Sequence[Hashable] | None) -> list[float]:
    """Return the sum of the deviations from the mean in each cluster."""
    if clusters is None:
        return [score - mean for score in row]
    sums: dict[Hashable, float] = defaultdict(float)
    for cluster, score in zip(clusters, row, strict=True):
        sums[cluster] += score - mean
    return list(sums.values())


def _groups(means: Sequence[float], apart: set[tuple[int, int]]) -> list[list[int]]:
    """Return the longest runs of agents, in the order of their means, of which no two are apart."""
    order = sorted(range(len(means)), key=lambda agent: -means[agent])
    groups: list[list[int]] = []
    reached = 0
    for start in range(len(order)):
        end = start + 1
        while end < len(order) and not any(
            (min(order[end], other), max(order[end], other)) in apart for other in order[start:end]
        ):
            end += 1
        if end > reached:
            groups.append(order[start:end])
            reached = end
    return groups
