"""Every attack is a real one, and comes to what the page says: `python -m tests.integrity --write`."""

import pytest

from tests.integrity import page
from tests.integrity.attacks import ATTACKS, HONEST, NOTHING
from tests.integrity.graders import BASH, COMMAND, PYTEST, Grader, apart
from tests.integrity.matrix import MODES, Row, cases, named, rows
from tests.integrity.yard import Yard

ALONE = [(PYTEST, "clean"), (BASH, "answer"), (COMMAND, "live"), *((apart(), mode) for mode in MODES)]
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


def test_what_the_page_says_is_what_is_promised() -> None:
    """All but what runs inside the graded process: prevented by `answer`, at least reported by `clean`."""
    within = {attack.title for attack in ATTACKS if attack.within and not attack.above}
    above = {attack.title for attack in ATTACKS if attack.above}
    for line in page.lines(page.ATTACKS):
        _, title, _, _, clean, system, answer, live = (cell.strip() for cell in line.strip("|").split("|"))
        if title in within:
            assert (clean, system, answer, live) == ("open",) * len(MODES)
        elif title in above:
            # The room's filter refuses to trace; memory is open to the same user, and so is all in `live`.
            assert clean == system == answer
            assert live == "open"
        else:
            assert system in ("prevented", "reported"), line
            assert answer == "prevented", line
            assert clean in ("prevented", "reported"), line
            assert live in ("prevented", "reported"), line


def test_what_stays_open_is_closed_by_grading_from_a_distance(yard: Yard) -> None:
    found = rows(yard, WITHIN, naive=False)
    assert [row.outcomes for row in found] == [("prevented",) * len(MODES)] * len(WITHIN)
    assert [row.line for row in found] == page.lines(page.APART)


def test_what_stays_open_is_named_as_every_answer_is(yard: Yard) -> None:
    attack = next(attack for attack in ATTACKS if attack.within)
    view = yard.scored(attack, attack.graders[0], "clean")
    assert view["tamper_report"]["opened_by_scorers"] == ["/home/user/task/solution.py"]
