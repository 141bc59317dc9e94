"""Differences of two agents on the same scenarios: exact tests, intervals, flips and evidence."""

import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean
from typing import NamedTuple

from benchyard.reports.statistics.attempts import variance_parts
from benchyard.reports.statistics.distributions import normal_tail, student_tail
from benchyard.reports.statistics.means import LEVEL, standard_error, t_interval
from benchyard.reports.statistics.power import NoiseParts

PERMUTATIONS = 10_000
"""Number of random relabellings that stand for all of them."""
MOST_ATTEMPTS_EXACT = 20_000
"""Attempts of two agents up to which the exact test takes a second at most; above, chi squared is as good."""
_MOST_SHUFFLED = 500
"""Attempts up to which shuffles take less than a second; above, their normal limit is as good."""
_LEAST_P = sys.float_info.min
"""Smallest p-value that is told: no result is impossible."""
_SEED = 20240607
_MOST_LOG = 700.0
"""Logarithm of the largest evidence that is told, which a float still holds."""
_DIGITS = 9
_TOLERANCE = 1e-7
"""Relative difference below which two probabilities are the same, as in R."""


class Stratum(NamedTuple):
    """Attempts of two agents at the same scenario, and the number of them that passed."""

    passed_a: int
    attempts_a: int
    passed_b: int
    attempts_b: int


@dataclass(frozen=True)
class ExactTest:
    """A test that the two agents pass equally often at every scenario."""

    p: float
    """Chance of a result at most as likely as this one, if they do."""
    p_middle: float
    """The same, with half of the chance of results exactly as likely as this one."""


def exact_test(strata: Iterable[Stratum]) -> ExactTest:
    """Run the exact conditional Cochran-Mantel-Haenszel test, with the scenarios as strata.

    With one attempt each it is McNemar's exact test. The distribution of the passes of the first agent, given
    all passes at each scenario, is a sum of independent hypergeometric ones.
    """
    low, observed, chances = _passes(strata)
    seen = chances[observed - low]
    limit = seen * (1 + _TOLERANCE)
    p = math.fsum(chance for chance in chances if chance <= limit)
    same = math.fsum(chance for chance in chances if abs(chance - seen) <= seen * _TOLERANCE)
    return ExactTest(_p_value(p), _p_value(p - same / 2))


def _p_value(p: float) -> float:
    return min(1.0, max(_LEAST_P, p))


@dataclass(frozen=True)
class StrataTest:
    """A test of shares, exact where its size allows that."""

    p: float
    p_middle: float | None
    """None unless the test is exact."""
    method: str


def strata_test(strata: Sequence[Stratum], most_exact: int = MOST_ATTEMPTS_EXACT) -> StrataTest:
    """Run the exact Cochran-Mantel-Haenszel test, or that by chi squared for more attempts than given.

    The time of the exact one grows with the square of the attempts.
    """
    if sum(each.attempts_a + each.attempts_b for each in strata) > most_exact:
        p = chi_squared_test(strata)[1]
        return StrataTest(p, None, "Cochran-Mantel-Haenszel test by chi squared, scenarios as strata")
    found = exact_test(strata)
    method = "exact Cochran-Mantel-Haenszel test, scenarios as strata"
    return StrataTest(found.p, found.p_middle, method)


def _passes(strata: Iterable[Stratum]) -> tuple[int, int, list[float]]:
    """Return the fewest passes of the first agent, those seen, and the chances of the fewest and of more."""
    low = observed = 0
    alike: Counter[tuple[float, ...]] = Counter()
    for stratum, count in Counter(strata).items():
        least, weights = _hypergeometric(stratum)
        low += least * count
        observed += stratum.passed_a * count
        alike[tuple(weights)] += count
    chances = [1.0]
    for found, count in sorted(alike.items()):
        if found == (0.5, 0.5):
            # Single attempts that differ: half of the scenarios of most jobs, and a binomial distribution.
            chances = _convolve(chances, _coins(count))
        elif len(found) > 1:
            for _ in range(count):
                chances = _convolve(chances, found)
    return low, observed, chances


def _coins(count: int) -> list[float]:
    """Return the chances of 0, 1, ... heads of so many coins."""
    chances, ways, all_ways = [], 1, 2**count
    for index in range(count + 1):
        chances.append(ways / all_ways)
        ways = ways * (count - index) // (index + 1)
    return chances


def _hypergeometric(stratum: Stratum) -> tuple[int, list[float]]:
    """Return the fewest passes of the first agent, and the chances of these and of each number above."""
    passed = stratum.passed_a + stratum.passed_b
    low, high = max(0, passed - stratum.attempts_b), min(stratum.attempts_a, passed)
    total = math.comb(stratum.attempts_a + stratum.attempts_b, passed)
    ways = (
        math.comb(stratum.attempts_a, count) * math.comb(stratum.attempts_b, passed - count)
        for count in range(low, high + 1)
    )
    return low, [way / total for way in ways]


def _convolve(chances: Sequence[float], weights: Sequence[float]) -> list[float]:
    if len(chances) < len(weights):
        chances, weights = weights, chances
    sums = [0.0] * (len(chances) + len(weights) - 1)
    for index, chance in enumerate(chances):
        if chance:
            for step, weight in enumerate(weights):
                sums[index + step] += chance * weight
    return sums


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of paired values, with its interval and Student's test."""

    mean: float
    low: float | None
    high: float | None
    """None where the values have no spread to make an interval from."""
    p: float | None
    n: int
    n_clusters: int


def paired_difference(
    differences: Sequence[float], clusters: Sequence[Hashable] | None = None, level: float = LEVEL
) -> PairedDifference | None:
    """Return the mean of one difference per scenario, with Student's interval; None without any."""
    if not differences:
        return None
    mean = fmean(differences)
    groups = len(differences) if clusters is None else len(set(clusters))
    interval = t_interval(differences, clusters, level)
    if interval is None:
        return PairedDifference(mean, None, None, None, len(differences), groups)
    error = standard_error(differences, clusters)
    p = _p_value(student_tail(mean / error, groups - 1))
    return PairedDifference(mean, *interval, p, len(differences), groups)


def cluster_means(differences: Sequence[float], clusters: Sequence[Hashable]) -> list[float]:
    """Return the mean difference of each cluster of scenarios."""
    found: dict[Hashable, list[float]] = defaultdict(list)
    for cluster, difference in zip(clusters, differences, strict=True):
        found[cluster].append(difference)
    # What cancels out but for rounding is no difference.
    return [round(fmean(each), _DIGITS) for each in found.values()]


def sign_test(differences: Iterable[float]) -> float:
    """Return the p-value of the signs of paired differences: for those that have no spread."""
    strata = [Stratum(int(each < 0), 1, int(each > 0), 1) for each in differences if each]
    return exact_test(strata).p


def shuffle_test(attempts: Sequence[tuple[Sequence[float], Sequence[float]]]) -> tuple[float, str]:
    """Return the p-value of graded scores under shuffled labels, and the way it was found.

    The time of the shuffles grows with the attempts; of many, their sum is as good as normal.
    """
    varying = [(a, b) for a, b in attempts if min(*a, *b) != max(*a, *b)]
    if sum(len(a) + len(b) for a, b in varying) <= _MOST_SHUFFLED:
        return permutation_test(attempts), "labels shuffled among the attempts at each scenario"
    surplus = variance = 0.0
    for a, b in varying:
        mean = fmean([*a, *b])
        squares = math.fsum((score - mean) ** 2 for score in (*a, *b))
        variance += squares / (len(a) + len(b) - 1) * (1 / len(a) + 1 / len(b))
        surplus += fmean(a) - fmean(b)
    p = _p_value(normal_tail(surplus / math.sqrt(variance)))
    return p, "normal limit of labels shuffled among the attempts at each scenario"


def permutation_test(
    attempts: Sequence[tuple[Sequence[float], Sequence[float]]], permutations: int = PERMUTATIONS
) -> float:
    """Return the p-value of graded scores: how often shuffled labels differ as much; seeded.

    Labels are shuffled among the attempts at the same scenario.
    """
    if not attempts:
        return 1.0
    generator = random.Random(_SEED)  # noqa: S311 - reproducible, not secret
    rows = [([*a, *b], len(a), math.fsum(a) / len(a) - math.fsum(b) / len(b)) for a, b in attempts]
    # Scenarios whose attempts all have the same score cannot contribute to any difference.
    varying = [(pool, size) for pool, size, _ in rows if min(pool) != max(pool)]
    observed = abs(math.fsum(difference for *_, difference in rows))
    limit = observed - 1e-12
    reached = 0
    for _ in range(permutations):
        total = 0.0
        for pool, size in varying:
            generator.shuffle(pool)
            total += math.fsum(pool[:size]) / size - math.fsum(pool[size:]) / (len(pool) - size)
        reached += abs(total) >= limit
    return (reached + 1) / (permutations + 1)


@dataclass(frozen=True)
class Flips:
    """Scenarios that the second agent does better or worse, beside the number expected from noise alone."""

    won: int
    lost: int
    both: int
    """Scenarios that both pass with every attempt."""
    neither: int
    """Scenarios that none passes with any attempt."""
    expected: float | None
    """Number of the repeated scenarios at which equal agents would differ by chance; None without any."""
    n_repeated: int = 0
    """Scenarios with more than one attempt each, which can tell what is chance."""
    differ_repeated: int = 0
    """Number of them at which the agents differ."""


def flips(strata: Iterable[Stratum]) -> Flips:
    """Count won and lost scenarios of the second agent against the first."""
    won = lost = both = neither = repeated = differ = 0
    expected = 0.0
    for each in strata:
        share_a, share_b = each.passed_a / each.attempts_a, each.passed_b / each.attempts_b
        won += share_b > share_a
        lost += share_b < share_a
        both += share_a == share_b == 1.0
        neither += share_a == share_b == 0.0
        if each.attempts_a + each.attempts_b > 2:
            repeated += 1
            differ += share_a != share_b
            expected += _chance_to_differ(each)
    return Flips(won, lost, both, neither, expected if repeated else None, repeated, differ)


@lru_cache(maxsize=4096)
def _chance_to_differ(stratum: Stratum) -> float:
    """Return the chance of unequal shares if both agents pass as often as they do together."""
    attempts = stratum.attempts_a + stratum.attempts_b
    pooled = (stratum.passed_a + stratum.passed_b) / attempts
    if pooled in (0.0, 1.0):
        return 0.0
    same = 0.0
    for passed_a in range(stratum.attempts_a + 1):
        passed_b, rest = divmod(passed_a * stratum.attempts_b, stratum.attempts_a)
        if rest == 0:
            same += _binomial(passed_a, stratum.attempts_a, pooled) * _binomial(
                passed_b, stratum.attempts_b, pooled
            )
    return 1.0 - same


def _binomial(passed: int, attempts: int, share: float) -> float:
    return math.comb(attempts, passed) * share**passed * (1 - share) ** (attempts - passed)


def e_value(won: int, lost: int) -> float:
    """Return the evidence against "as often won as lost", valid at every look while results come in.

    It is the chance of these flips under all shares alike, to that under a half: at 1/alpha or above, the
    claim is refuted at level alpha, whenever that is looked at.
    """
    count = won + lost
    log_value = count * math.log(2) - math.log(count + 1) - math.log(math.comb(count, won))
    return math.exp(min(log_value, _MOST_LOG))


def chi_squared_test(strata: Iterable[Stratum], *, corrected: bool = True) -> tuple[float, float]:
    """Return chi squared of the Cochran-Mantel-Haenszel test, and its p-value: the exact test of large jobs.

    Corrected for continuity, as R does unless asked otherwise. With one attempt each it is McNemar's.
    """
    surplus = variance = 0.0
    for each in strata:
        total = each.attempts_a + each.attempts_b
        passed = each.passed_a + each.passed_b
        surplus += each.passed_a - each.attempts_a * passed / total
        if total > 1:
            pairs = each.attempts_a * each.attempts_b * passed * (total - passed)
            variance += pairs / (total**2 * (total - 1))
    if not variance:
        return 0.0, 1.0
    value = max(0.0, abs(surplus) - (0.5 if corrected else 0.0)) ** 2 / variance
    return value, _p_value(normal_tail(math.sqrt(value)))


def odds_ratio(strata: Sequence[Stratum]) -> float | None:
    """Return the Mantel-Haenszel odds ratio of the second agent to the first; None where it has no value."""
    above = below = 0.0
    for each in strata:
        total = each.attempts_a + each.attempts_b
        above += each.passed_b * (each.attempts_a - each.passed_a) / total
        below += each.passed_a * (each.attempts_b - each.passed_b) / total
    return above / below if below else None


def exact_odds_ratio(strata: Iterable[Stratum]) -> float | None:
    """Return the odds ratio of the second agent to the first under which the result is the most likely.

    It is the one that belongs to the exact test. None where it would be 0 or without bounds.
    """
    low, observed, chances = _passes(strata)
    seen = observed - low
    if not 0 < seen < len(chances) - 1:
        return None
    logs = [math.log(chance) if chance else -math.inf for chance in chances]

    def expected(log_ratio: float) -> float:
        tilted = [value + index * log_ratio for index, value in enumerate(logs)]
        most = max(tilted)
        weights = [math.exp(value - most) for value in tilted]
        return sum(index * weight for index, weight in enumerate(weights)) / sum(weights)

    below, above = -50.0, 50.0
    for _ in range(100):
        middle = (below + above) / 2
        if expected(middle) < seen:
            below = middle
        else:
            above = middle
    return math.exp(-(below + above) / 2)


def difference_parts(
    pairs: Sequence[tuple[Sequence[float], Sequence[float]]], clusters: Sequence[Hashable] | None = None
) -> NoiseParts | None:
    """Return the parts of the variance of a difference at one scenario, from both agents' scores.

    See Wang, 2025. None with fewer than two scenarios or clusters, which show no variance. Where single
    attempts cannot tell the parts apart, all is taken for that of attempts, but what clusters add.
    """
    groups = len(pairs) if clusters is None else len(set(clusters))
    if groups < 2:
        return None
    differences = [fmean(b) - fmean(a) for a, b in pairs]
    alone = len(pairs) * standard_error(differences) ** 2
    total = alone if clusters is None else len(pairs) * standard_error(differences, clusters) ** 2
    parts_a, parts_b = (variance_parts([pair[side] for pair in pairs]) for side in (0, 1))
    if parts_a is None or parts_b is None:
        return NoiseParts(max(0.0, total - alone), alone / 2, alone / 2)
    within_a, within_b = parts_a.within_scenarios, parts_b.within_scenarios
    of_attempts = fmean(within_a / len(a) + within_b / len(b) for a, b in pairs)
    return NoiseParts(max(0.0, total - of_attempts), within_a, within_b)
