"""Evidence about a margin while jobs run: e-values that hold at every look, for scores from 0 to 1."""

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import repeat

from benchyard.reports.statistics.means import LEVEL

ENOUGH = 2 / (1 - LEVEL)
"""E-value that refutes a claim as surely as one bound of a 95 % interval does: wrong once in 40."""
_STAKES = 48
_LEAST_STAKE = 1 / 512
_MOST_LOG = 700.0


@dataclass(frozen=True)
class MarginEvidence:
    """Evidence against "worse by the margin at most", and against "worse by the margin at least"."""

    worse: float
    """At 40 or above it is worse by more than the margin, whenever that is looked at."""
    not_worse: float
    """At 40 or above it is not."""
    n: int
    """Number of differences that were seen whole."""


def margin_evidence(
    worst: Sequence[float],
    best: Sequence[float],
    margin: float,
    clusters: Sequence[Hashable] | None = None,
    largest_cluster: int = 1,
) -> MarginEvidence:
    """Return the evidence of one difference per scenario, each between -1 and 1.

    The two sequences have the difference with all that is unscored against the second agent, and for it.
    Scenarios of a cluster count as one; the largest cluster that can come must be known before.
    """
    low = _sums([each + margin for each in worst], clusters, largest_cluster)
    high = _sums([-(each + margin) for each in best], clusters, largest_cluster)
    return MarginEvidence(worse=_capital(high, 1 + margin), not_worse=_capital(low, 1 - margin), n=len(worst))


def _sums(values: Sequence[float], clusters: Sequence[Hashable] | None, largest: int) -> list[float]:
    """Return the sum of each cluster as a share of the largest possible one."""
    if clusters is None:
        return list(values)
    sums: dict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster].append(value)
    most = max(largest, *map(len, sums.values())) if sums else 1
    return [math.fsum(each) / most for each in sums.values()]


def _capital(gains: Sequence[float], most_lost: float) -> float:
    """Return the mean capital of players who each stake a fixed share at every gain, from 1.

    None can gain on average while the claim holds, so the chance that it ever reaches 40 is 1 in 40 at most
    (Ville). The order of the gains does not matter.
    """
    # A player who could lose everything would never play again.
    most = 1.0 / max(most_lost, 0.5)
    stakes = [most * _LEAST_STAKE ** (step / (_STAKES - 1)) for step in range(_STAKES)]
    logs = [math.fsum(map(_log_factor, repeat(stake), gains)) for stake in stakes]
    largest = max(logs)
    total = math.log(math.fsum(math.exp(each - largest) for each in logs) / _STAKES) + largest
    return math.exp(max(-_MOST_LOG, min(_MOST_LOG, total)))


def _log_factor(stake: float, gain: float) -> float:
    return math.log(max(1 + stake * gain, 1e-12))
