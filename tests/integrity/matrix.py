"""The table: what became of every attack, against every grader, in every way of keeping it apart."""

import platform
import shutil
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from tests.integrity.attacks import ATTACKS, Attack
from tests.integrity.graders import WORK, Grader
from tests.integrity.yard import Yard

MODES = ("clean", "system", "answer", "live")
AT_ONCE = 6
_ANSWER = f"{WORK}/solution.py"


@dataclass(frozen=True)
class Row:
    """One attack on one grader."""

    attack: Attack
    grader: Grader
    in_place: float | None
    """What a naive harness gives it; None where that was not asked."""
    outcomes: tuple[str, ...]
    """One for each of `MODES`: prevented, reported or open."""

    @property
    def line(self) -> str:
        """The row as the page shows it."""
        naive = "-" if self.in_place is None else f"{self.in_place:.1f}"
        cells = (str(self.attack.number), self.attack.title, self.grader.name, naive, *self.outcomes)
        return f"| {' | '.join(cells)} |"


Case = tuple[Attack, Grader]


def cases(*, short: bool = False) -> list[Case]:
    """Every attack with all its graders, or in short with the first one."""
    able = [
        attack
        for attack in ATTACKS
        if (attack.needs is None or shutil.which(attack.needs))
        and attack.machine in (None, platform.machine())
    ]
    return [(attack, grader) for attack in able for grader in attack.graders[: 1 if short else None]]


def rows(yard: Yard, wanted: Sequence[Case], *, naive: bool = True) -> list[Row]:
    """Try all of these, several at the same time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        places = [pool.submit(yard.in_place, *case) if naive else None for case in wanted]
        views = [[pool.submit(yard.scored, *case, mode) for mode in MODES] for case in wanted]
        return [
            Row(
                *case,
                place.result() if place else None,
                tuple(outcome(case[0], one.result()) for one in each),
            )
            for case, place, each in zip(wanted, places, views, strict=True)
        ]


def outcome(attack: Attack, view: dict[str, Any]) -> str:
    """What the attack came to."""
    if view["scoring_contract_result"]["score"] == 0:
        return "prevented"
    told = list(named(view["tamper_report"]))
    return "reported" if any(trace in each for trace in attack.traces for each in told) else "open"


def named(report: dict[str, Any]) -> Iterator[str]:
    """Everything a report names that it would not name for honest work."""
    if report["opened_by_scorers"] is None:
        raise AssertionError(f"nothing is known of what scorers opened: {report['notes']}")
    yield from _paths(report["changed_outside"])
    yield from _paths(report["special_inside"])
    yield from (path for path in report["opened_by_scorers"] if path != _ANSWER)
    yield from (each["command"] for each in report["processes"])


def _paths(files: Iterable[dict[str, Any]]) -> Iterator[str]:
    return (file["path"] for file in files)
