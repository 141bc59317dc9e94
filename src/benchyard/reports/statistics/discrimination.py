"""Scenarios by what they tell of agents: which tell them apart, which tell nothing, which say the reverse."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from benchyard.reports.statistics.multiple_tests import benjamini_hochberg
from benchyard.reports.statistics.ranks import kendall_score, kendall_tau

LEVEL = 0.05
"""Chance of a claim where there is nothing, corrected for the number of scenarios."""

ScenarioKind = Literal["saturated", "impossible", "suspicious"]


@dataclass(frozen=True)
class Discrimination:
    """The evidence that one scenario gives about the agents that tried it."""

    mean: float | None
    """Mean over the agents; None where none has a result."""
    n_agents: int
    tau: float | None
    """Kendall's correlation of the results here with the agents' means elsewhere; None where one of them does
    not vary."""
    p: float | None
    """Chance of so low a correlation if the scenario told nothing, corrected for the number of scenarios."""
    kind: ScenarioKind | None
    """`saturated`: all pass; `impossible`: none scores above 0; `suspicious`: better agents do worse, by more
    than chance."""


def discriminations(rows: Sequence[Sequence[float | None]]) -> list[Discrimination]:
    """Return what each scenario tells, from the mean score of each agent at it; None where it has none."""
    sums, counts = _totals(rows)
    found = [_correlation(row, sums, counts) for row in rows]
    tested = [index for index, (_, p) in enumerate(found) if p is not None]
    adjusted = dict(
        zip(tested, benjamini_hochberg([found[index][1] or 0.0 for index in tested]), strict=True)
    )
    results = []
    for index, row in enumerate(rows):
        known = [score for score in row if score is not None]
        p = adjusted.get(index)
        results.append(
            Discrimination(
                mean=fmean(known) if known else None,
                n_agents=len(known),
                tau=found[index][0],
                p=p,
                kind=_kind(known, p),
            )
        )
    return results


def _totals(rows: Sequence[Sequence[float | None]]) -> tuple[list[float], list[int]]:
    """Return the sum and the number of each agent's results."""
    width = max((len(row) for row in rows), default=0)
    sums, counts = [0.0] * width, [0] * width
    for row in rows:
        for agent, score in enumerate(row):
            if score is not None:
                sums[agent] += score
                counts[agent] += 1
    return sums, counts


def _correlation(
    row: Sequence[float | None], sums: Sequence[float], counts: Sequence[int]
) -> tuple[float | None, float | None]:
    """Return tau of one scenario, and its chance; an agent's mean leaves this scenario out."""
    if len({*row} - {None}) < 2:
        return None, None
    here: list[float] = []
    elsewhere: list[float] = []
    for agent, score in enumerate(row):
        if score is not None and counts[agent] > 1:
            here.append(score)
            # Rounded: equal means must stay equal when different scenarios are left out.
            elsewhere.append(round((sums[agent] - score) / (counts[agent] - 1), 9))
    if len(here) < 2 or min(here) == max(here):
        return None, None
    score = kendall_score(here, elsewhere)
    tau = kendall_tau(here, elsewhere, score)
    if tau is None:
        return None, None
    # Only what disagrees can be a finding; the others count as tests all the same.
    return tau, reversal_p(here, elsewhere, score) if tau < 0 else 1.0


def _kind(known: Sequence[float], p: float | None) -> ScenarioKind | None:
    if not known:
        return None
    if min(known) >= 1.0 - 1e-9:
        return "saturated"
    if max(known) <= 0.0:
        return "impossible"
    return "suspicious" if p is not None and p <= LEVEL else None


def reversal_p(first: Sequence[float], second: Sequence[float], score: int | None = None) -> float:
    """Return the chance that two unrelated orders disagree as much as these, ties and all.

    By the normal approximation of Kendall's score with its correction for continuity, which is careful where
    values are few. Their score may be given, if it is known.
    """
    spread = _score_variance(len(first), list(Counter(first).values()), list(Counter(second).values()))
    if not spread:
        return 1.0
    score = kendall_score(first, second) if score is None else score
    return math.erfc(-(score + 1) / math.sqrt(2 * spread)) / 2


def _score_variance(count: int, ties_first: Sequence[int], ties_second: Sequence[int]) -> float:
    """Return the variance of Kendall's score of unrelated orders with such groups of ties."""

    def spread(n: int) -> int:
        return n * (n - 1) * (2 * n + 5)

    def triples(groups: Sequence[int]) -> int:
        return sum(n * (n - 1) * (n - 2) for n in groups)

    def pairs(groups: Sequence[int]) -> int:
        return sum(n * (n - 1) for n in groups)

    variance = (spread(count) - sum(map(spread, ties_first)) - sum(map(spread, ties_second))) / 18
    if count > 2:
        of_triples = 9 * count * (count - 1) * (count - 2)
        variance += triples(ties_first) * triples(ties_second) / of_triples
    return variance + pairs(ties_first) * pairs(ties_second) / (2 * count * (count - 1))
