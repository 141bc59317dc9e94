"""Several attempts at the same scenario: pass@k, pass^k, flakiness, and the parts of the variance."""

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

from benchyard.reports.statistics.means import Estimate, estimate

_DIGITS = 9


@lru_cache(maxsize=4096)
def pass_at(k: int, attempts: int, passed: int) -> float:
    """Return the chance that at least one of k attempts passes, from `passed` of `attempts`; unbiased.

    See Chen et al., 2021.
    """
    _require(k, attempts, passed)
    return 1.0 - math.comb(attempts - passed, k) / math.comb(attempts, k)


@lru_cache(maxsize=4096)
def pass_all(k: int, attempts: int, passed: int) -> float:
    """Return the chance that all of k attempts pass (pass^k), from `passed` of `attempts`; unbiased.

    See Yao et al., 2024.
    """
    _require(k, attempts, passed)
    return math.comb(passed, k) / math.comb(attempts, k)


def _require(k: int, attempts: int, passed: int) -> None:
    if not 1 <= k <= attempts or not 0 <= passed <= attempts:
        raise ValueError(f"pass@{k} of {passed} passed in {attempts} attempts has no meaning")


def pass_at_k(counts: Iterable[tuple[int, int]], attempts: int) -> dict[str, float]:
    """Return pass@k for k = 1, 2, 4, ... and all attempts, from (counting, passed) attempts per scenario.

    A scenario with fewer than k counting attempts has no pass@k and is left out of it.
    """
    return _means(counts, attempts, pass_at)


def pass_all_k(counts: Iterable[tuple[int, int]], attempts: int) -> dict[str, float]:
    """Return pass^k for the same k as `pass_at_k`, over the same scenarios."""
    return _means(counts, attempts, pass_all)


def pass_scenarios(counts: Iterable[tuple[int, int]], attempts: int) -> dict[str, int]:
    """Return the number of scenarios that `pass_at_k` is of, by k."""
    tried = [each for each, _ in counts]
    usable = {str(k): sum(each >= k for each in tried) for k in _powers(attempts)}
    return {k: count for k, count in usable.items() if count}


def _means(
    counts: Iterable[tuple[int, int]], attempts: int, chance: Callable[[int, int, int], float]
) -> dict[str, float]:
    known = list(counts)
    means = {}
    for k in _powers(attempts):
        values = [chance(k, tried, passed) for tried, passed in known if tried >= k]
        if values:
            means[str(k)] = round(fmean(values), _DIGITS)
    return means


@dataclass(frozen=True)
class PassPoint:
    """Pass@k and pass^k for one k, over the scenarios that have at least k attempts."""

    k: int
    any_passes: Estimate
    all_pass: Estimate
    n_scenarios: int
    n_left_out: int


def pass_curve(
    counts: Iterable[tuple[int, int]],
    ks: Iterable[int] | None = None,
    clusters: Sequence[Hashable] | None = None,
) -> list[PassPoint]:
    """Return pass@k and pass^k with intervals over scenarios, from (counting, passed) per scenario.

    Without `ks`, for each k up to 32, for some above (36, 40, ... 64, 72, ...), and for the attempts of the
    scenario that has most of them. Clusters of scenarios, one for each of the counts, are the unit of the
    intervals where they are given.
    """
    whole = list(counts)
    keys: Sequence[Hashable] = [None] * len(whole) if clusters is None else clusters
    known = [(tried, passed, key) for (tried, passed), key in zip(whole, keys, strict=True) if tried]
    most = max((tried for tried, _, _ in known), default=0)
    chosen = ks if ks is not None else _usual_ks(most)
    points = []
    for k in chosen:
        usable = [each for each in known if each[0] >= k]
        groups = None if clusters is None else [key for _, _, key in usable]
        any_passes = estimate([pass_at(k, tried, passed) for tried, passed, _ in usable], groups)
        all_pass = any_passes
        if k > 1:
            all_pass = estimate([pass_all(k, tried, passed) for tried, passed, _ in usable], groups)
        if any_passes and all_pass:
            points.append(PassPoint(k, any_passes, all_pass, len(usable), len(known) - len(usable)))
    return points


def _usual_ks(most: int) -> list[int]:
    """Return each k up to 32, eight of them between each two further powers of two, and the largest one."""
    chosen = list(range(1, min(most, 32) + 1))
    k, step = 32, 4
    while (k := k + step) < most:
        chosen.append(k)
        step = 2 ** (k.bit_length() - 4)
    return chosen if most <= 32 else [*chosen, most]


def _powers(attempts: int) -> list[int]:
    if attempts < 2:
        return []
    powers = [2**power for power in range(attempts.bit_length()) if 2**power < attempts]
    return [*powers, attempts]


def flaky_chance(share: float, attempts: int) -> float:
    """Return the chance that attempts with this chance to pass do not all end the same."""
    return 1.0 - share**attempts - (1.0 - share) ** attempts


def consistency(attempts: int, passed: int) -> float | None:
    """Return how far outcomes agree, from 0 (a coin) to 1 (always the same); None for a single attempt."""
    return None if attempts < 2 else (2 * passed / attempts - 1) ** 2


@dataclass(frozen=True)
class VarianceParts:
    """The variance of one agent's score at one scenario, by where it comes from."""

    between_scenarios: float
    """Scenarios are of different difficulty: more scenarios make it count less."""
    within_scenarios: float
    """The agent does not always do the same: more attempts make it count less."""
    n: int
    """Number of scenarios with at least two attempts, from which the parts were estimated."""
    attempts: float
    """Mean number of attempts at these."""

    def error(self, scenarios: int, attempts: float) -> float:
        """Return the standard error of a mean over so many scenarios with so many attempts at each."""
        return math.sqrt((self.between_scenarios + self.within_scenarios / attempts) / scenarios)


def _variance(values: Sequence[float]) -> float:
    # The library's own works with fractions, which takes 20 times as long.
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def variance_parts(scores: Iterable[Sequence[float]]) -> VarianceParts | None:
    """Return the parts of the variance, from the scores of the attempts at each scenario.

    None with fewer than two scenarios that have at least two attempts, which could tell the parts apart.
    Unbiased, but for a part between scenarios that would be negative and is 0.
    """
    repeated = [each for each in scores if len(each) > 1]
    if len(repeated) < 2:
        return None
    variances = [_variance(each) for each in repeated]
    within = fmean(variances)
    noise = fmean(own / len(each) for own, each in zip(variances, repeated, strict=True))
    between = max(0.0, _variance([fmean(each) for each in repeated]) - noise)
    return VarianceParts(between, within, len(repeated), fmean(len(each) for each in repeated))
