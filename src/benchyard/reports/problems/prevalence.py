"""Prevalence of problems, and whether they go with failing inside scenarios. Pure."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchyard.models.reports.problems import Association, Direction
from benchyard.reports.statistics.differences import Stratum, exact_test
from benchyard.reports.statistics.multiple_tests import benjamini_hochberg

LEVEL = 0.05
"""Share of jobs without any connection in which any claim may be made."""


@dataclass(frozen=True)
class JudgedTrial:
    """A trial of which both is known: whether it has the problem, and whether it passed."""

    stratum: Hashable
    """Scenario and agent: habits of agents and difficulty of scenarios must not make a connection."""
    is_found: bool
    passed: bool


def associations(observed: Mapping[str, Sequence[JudgedTrial]]) -> dict[str, Association]:
    """Return the connection of each problem with the results, corrected for the number of those tested."""
    tests = {name: found for name, each in observed.items() if (found := _tested(each)) is not None}
    adjusted = dict(zip(tests, benjamini_hochberg([p for p, _ in tests.values()]), strict=True))
    made = {}
    for name, each in observed.items():
        p, direction = tests.get(name, (None, None))
        is_claimed = p is not None and adjusted[name] <= LEVEL
        made[name] = Association(
            failed_with=_failed(one.passed for one in each if one.is_found),
            failed_without=_failed(one.passed for one in each if not one.is_found),
            p=p,
            p_adjusted=adjusted.get(name),
            goes_with=direction if is_claimed else None,
        )
    return made


def _tested(observed: Sequence[JudgedTrial]) -> tuple[float, Direction] | None:
    """Return the p-value and the direction; None where no stratum has trials both with and without it."""
    cells: dict[Hashable, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for each in observed:
        cell = cells[each.stratum]
        at = 0 if each.is_found else 2
        cell[at] += each.passed
        cell[at + 1] += 1
    strata = [Stratum(*cell) for cell in cells.values() if cell[1] and cell[3]]
    # Strata in which all or none passed say nothing either.
    strata = [
        each for each in strata if 0 < each.passed_a + each.passed_b < each.attempts_a + each.attempts_b
    ]
    if not strata:
        return None
    expected = sum(
        each.attempts_a * (each.passed_a + each.passed_b) / (each.attempts_a + each.attempts_b)
        for each in strata
    )
    direction: Direction = "failing" if sum(each.passed_a for each in strata) < expected else "passing"
    return exact_test(strata).p, direction


def _failed(passed: Iterable[bool]) -> float | None:
    known = list(passed)
    return 1 - sum(known) / len(known) if known else None
