"""Every attack is a real one, and comes to what the page says: `python -m tests.integrity --write`."""

import re

import pytest

from tests.house.tree import ROOT
from tests.integrity import page
from tests.integrity.attacks import ATTACKS, HONEST, NOTHING, Attack
from tests.integrity.graders import BASH, COMMAND, PYTEST, Grader, apart
from tests.integrity.matrix import MODES, Row, cases, named, rows
from tests.integrity.yard import Yard

ALONE = [(PYTEST, "clean"), (BASH, "answer"), (COMMAND, "live"), *((apart(), mode) for mode in MODES)]
_TRIES = 12
WITHIN = [(attack, apart()) for attack in ATTACKS if attack.within]


@pytest.mark.parametrize(("grader", "mode"), ALONE, ids=lambda value: getattr(value, "name", value))
def test_honest_work_scores_and_is_not_reported(yard: Yard, grader: Grader, mode: str) -> None:
    view = yard.scored(HONEST, grader, mode)
    assert view["scoring_contract_result"]["score"] == 1.0, view
    assert list(named(view["tamper_report"])) == []


@pytest.mark.parametrize(("grader", "mode"), ALONE, ids=lambda value: getattr(value, "name", value))
def test_nothing_done_scores_nothing(yard: Yard, grader: Grader, mode: str) -> None:
    view = yard.scored(NOTHING, grader, mode)
    (result,) = view["scoring_contract_result"]["scoring_function_results"]
    assert (result["state"], result["score"]) == ("complete", 0.0)


def test_every_attack_comes_to_what_the_page_says(yard: Yard) -> None:
    compare(rows(yard, cases(short=True)))


@pytest.mark.slow
def test_every_attack_on_every_grader_comes_to_what_the_page_says(yard: Yard) -> None:
    compare(rows(yard, cases()))


def compare(found: list[Row]) -> None:
    """A table that differs from the page fails, and so does an attack that is none."""
    assert [row.line for row in found if row.in_place != 1.0] == []
    shown = set(page.lines(page.ATTACKS))
    assert [row.line for row in found if row.line not in shown] == []


def test_the_page_has_a_row_for_every_attack_and_grader() -> None:
    wanted = [(attack.title, grader.name) for attack in ATTACKS for grader in attack.graders]
    shown = [tuple(cell.strip() for cell in line.split("|"))[2:4] for line in page.lines(page.ATTACKS)]
    assert shown == wanted


@pytest.mark.parametrize("table", [page.PARTS, page.FINDINGS])
def test_every_row_names_tests_that_are_there(table: str) -> None:
    found = page.lines(table)
    assert found
    for line in found:
        for test in line.strip("| ").rpartition("| ")[2].split(", "):
            file, *names = test.split("::")
            words = ROOT.joinpath(file).read_text()
            assert all(re.search(rf"^ *(?:async )?(?:class|def) {name}\b", words, re.M) for name in names), (
                line
            )


def test_page_agrees_with_the_promises() -> None:
    """All but what runs inside the graded process: prevented by `answer`, at least reported by `clean`."""
    within = {attack.title for attack in ATTACKS if attack.within and not attack.above}
    above = {attack.title for attack in ATTACKS if attack.above}
    for line in page.lines(page.ATTACKS):
        _, title, _, _, clean, system, answer, live = (cell.strip() for cell in line.strip("|").split("|"))
        if title in within:
            assert (clean, system, answer, live) == ("open",) * len(MODES)
        elif title in above:
            # Tracing is refused while anything is scored; memory is open to who has the same user and rights.
            assert clean == system == answer == live
        else:
            assert system in ("prevented", "reported"), line
            assert answer == "prevented", line
            assert clean in ("prevented", "reported"), line
            assert live in ("prevented", "reported"), line


LEFT = [
    attack for attack in ATTACKS if attack.name in ("zombie-traces", "leftover-descriptor", "leftover-memory")
]


@pytest.mark.parametrize("attack", LEFT, ids=lambda attack: attack.name)
def test_leftovers_in_a_live_devbox_reach_no_scorer(yard: Yard, attack: Attack) -> None:
    """In scenarios that need tracing it does: then the score is forged, and who did it is told."""
    # The last word is a race between two writers, of which the attack wins more than half.
    assert any(_left(yard, attack, tracing=True) == 1.0 for _ in range(_TRIES))
    assert _left(yard, attack, tracing=False) == 0.0


def _left(yard: Yard, attack: Attack, *, tracing: bool) -> float:
    view = yard.scored(attack, attack.graders[0], "live", tracing=tracing)
    report = view["tamper_report"]
    assert any("waiter.py" in each["command"] for each in report["processes"]), report
    assert report["notes"] == []
    return float(view["scoring_contract_result"]["score"])


def test_open_attacks_are_prevented_by_grading_from_a_distance(yard: Yard) -> None:
    found = rows(yard, WITHIN, naive=False)
    assert [row.outcomes for row in found] == [("prevented",) * len(MODES)] * len(WITHIN)
    assert [row.line for row in found] == page.lines(page.APART)


def test_open_attacks_show_the_answer_as_opened(yard: Yard) -> None:
    attack = next(attack for attack in ATTACKS if attack.within)
    view = yard.scored(attack, attack.graders[0], "clean")
    assert view["tamper_report"]["opened_by_scorers"] == ["/home/user/task/solution.py"]
