"""Differences of two agents on the same scenarios: exact tests, intervals, flips and evidence."""

import math
import random
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from benchyard.reports.statistics.distributions import normal_tail, student_tail
from benchyard.reports.statistics.means import LEVEL, standard_error, t_interval

PERMUTATIONS = 10_000
"""Number of random relabellings that stand for all of them."""
_SEED = 20240607
_MOST_LOG = 700.0
"""Logarithm of the largest evidence that is told, which a float still holds."""
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
    return ExactTest(min(1.0, p), min(1.0, p - same / 2))


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
    p = student_tail(mean / error, groups - 1)
    return PairedDifference(mean, *interval, p, len(differences), groups)


def sign_test(differences: Iterable[float]) -> float:
    """Return the p-value of the signs of paired differences: for those that have no spread."""
    strata = [Stratum(int(each < 0), 1, int(each > 0), 1) for each in differences if each]
    return exact_test(strata).p


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
    """Number of scenarios at which equal agents would differ by chance; None with one attempt each, which
    cannot tell."""


def flips(strata: Iterable[Stratum]) -> Flips:
    """Count won and lost scenarios of the second agent against the first."""
    won = lost = both = neither = 0
    expected = 0.0
    is_known = True
    for each in strata:
        share_a, share_b = each.passed_a / each.attempts_a, each.passed_b / each.attempts_b
        won += share_b > share_a
        lost += share_b < share_a
        both += share_a == share_b == 1.0
        neither += share_a == share_b == 0.0
        is_known = is_known and each.attempts_a + each.attempts_b > 2
        expected += _chance_to_differ(each)
    return Flips(won, lost, both, neither, expected if is_known else None)


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
    return value, normal_tail(math.sqrt(value))


def fisher_exact(passed_a: int, attempts_a: int, passed_b: int, attempts_b: int) -> float:
    """Return the p-value of Fisher's exact test of two shares that are not paired."""
    return exact_test([Stratum(passed_a, attempts_a, passed_b, attempts_b)]).p


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


@dataclass(frozen=True)
class DifferenceParts:
    """The variance of a difference of single attempts at one scenario, by where it comes from."""

    data: float
    """The difference is not the same at each scenario: more scenarios make it count less."""
    prediction: float
    """Agents do not always do the same: more attempts make it count less."""

    def error(self, scenarios: int, attempts: float = 1) -> float:
        """Return the standard error of the mean difference."""
        return math.sqrt(max(0.0, self.data + self.prediction / attempts) / scenarios)


def difference_parts(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> DifferenceParts | None:
    """Return the parts of the variance of a difference, from both agents' scores at each scenario.

    See Wang, 2025. None unless both have at least two attempts at each of at least two scenarios. The part
    of the data is unbiased, and may be negative.
    """
    if len(pairs) < 2 or any(min(len(a), len(b)) < 2 for a, b in pairs):
        return None
    differences = [fmean(b) - fmean(a) for a, b in pairs]
    mean = fmean(differences)
    between = fmean((each - mean) ** 2 for each in differences)
    prediction = bias = 0.0
    for side in zip(*pairs, strict=True):
        for scores in side:
            own = fmean(scores)
            spread = fmean((score - own) ** 2 for score in scores)
            prediction += spread * len(scores) / (len(scores) - 1)
            bias += spread / (len(scores) - 1)
    return DifferenceParts(between - bias / len(pairs), prediction / len(pairs))
