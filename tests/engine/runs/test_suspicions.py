"""What speaks against a score, by the report and by what its scorers say."""

from typing import Any

import pytest

from benchyard.engine.runs.suspicions import LONGEST_SUSPICION, MOST_SUSPICIONS, suspicions, with_suspicions
from benchyard.models.runs import (
    ChangedFile,
    ContractResult,
    LeftProcess,
    ReferenceReport,
    ScorerResult,
    TamperReport,
)
from benchyard.models.scenarios import Isolation

PYTHON = "/usr/local/bin/python3"


def result(score: float = 1.0, isolation: Isolation = "clean", **scorer: Any) -> ContractResult:
    made = ScorerResult(scoring_function_name="s", state="complete", output="", **{"score": score, **scorer})
    return ContractResult(score=score, scoring_function_results=[made], isolation=isolation)


def file(path: str = PYTHON, *, opened: bool = True, type: str = "file") -> ChangedFile:
    return ChangedFile(path=path, kind="added", type=type, opened=opened)


def report(*files: ChangedFile, **fields: Any) -> TamperReport:
    opened = sum(each.opened for each in files)
    made = {"changed_outside": files, "opened_outside_total": opened, "processes": [], **fields}
    return TamperReport.model_validate(made)


def reference(**fields: Any) -> ReferenceReport:
    return ReferenceReport(id="scn_1@1", create_time_ms=1, **fields)


def test_a_clean_report_says_nothing() -> None:
    assert suspicions(result(), report()) == []
    assert suspicions(result(), report(file(opened=False))) == []
    # A server that only pretends looks at nothing.
    assert suspicions(result(isolation="clean"), TamperReport()) == []


@pytest.mark.parametrize("score", [0.0, 0.25, 1.0])
def test_only_scores_above_nothing_are_suspect(score: float) -> None:
    found = suspicions(result(score), report(file(), unknown=["it is not known"]))
    assert bool(found) == (score > 0)


def test_files_opened_outside_are_named() -> None:
    one = "scorers opened /usr/local/bin/python3, which was changed outside of the work"
    assert suspicions(result(), report(file(), file("/srv/x", opened=False))) == [one]
    (several,) = suspicions(result(), report(*(file(f"/bin/{name}") for name in "abcde")))
    assert (
        several == "scorers opened /bin/a, /bin/b, /bin/c and 2 more, which were changed outside of the work"
    )
    (link,) = suspicions(result(), report(file(type="link")))
    assert link == "scorers opened /usr/local/bin/python3 (a link), which was changed outside of the work"


def test_a_list_that_was_cut_counts_as_a_whole() -> None:
    (line,) = suspicions(result(), report(file(), opened_outside_total=1500))
    assert "python3 and 1499 more" in line
    hidden = suspicions(result(), report(file(), opened_outside_total=3), reference(opened_outside=[PYTHON]))
    assert hidden == ["scorers opened 2 more files that were changed outside of the work"]


def test_files_that_the_reference_opened_are_subtracted() -> None:
    known = reference(opened_outside=[PYTHON])
    assert suspicions(result(), report(file()), known) == []
    (line,) = suspicions(result(), report(file(), file("/bin/sh")), known)
    assert "/bin/sh" in line
    assert PYTHON not in line
    only_changed = reference(changed_outside=[PYTHON])
    assert suspicions(result(), report(file()), only_changed) != []


def test_suspicions_of_scorers_come_first_and_are_never_subtracted() -> None:
    told = result(suspect="no test report was made")
    found = suspicions(told, report(file()), reference())
    assert found[0] == "no test report was made"
    assert len(found) == 2
    nothing = result(suspect="a reason", score=0.0).model_copy(update={"score": 0.5})
    assert suspicions(nothing, report()) == [], "the part that is suspect gave nothing"


def test_suspicions_of_the_scoring_come_first_of_all() -> None:
    told = result(suspect="no test report was made").model_copy(update={"suspicions": ["only in `clean`"]})
    assert suspicions(told, report()) == ["only in `clean`", "no test report was made"]
    nothing = told.model_copy(update={"score": 0.0})
    assert suspicions(nothing, report()) == []


class TestUnknown:
    def test_unwatched_files_are_named(self) -> None:
        unwatched = report(unwatched_outside=["/bin/a", "/bin/b"], unwatched_outside_total=2)
        (line,) = suspicions(result(), unwatched)
        assert line == "whether scorers opened /bin/a, /bin/b, changed outside of the work, is not known"
        assert suspicions(result(), report(unknown=["what was changed is not known: why"])) == [
            "what was changed is not known: why"
        ]

    def test_files_that_the_reference_changed_are_subtracted(self) -> None:
        unwatched = report(unwatched_outside=["/bin/a", "/bin/b"], unwatched_outside_total=1002)
        (line,) = suspicions(result(), unwatched, reference(changed_outside=["/bin/a"]))
        assert "/bin/b and 1000 more" in line
        small = report(unwatched_outside=["/bin/a"], unwatched_outside_total=1)
        assert suspicions(result(), small, reference(changed_outside=["/bin/a"])) == []

    def test_unlisted_files_are_not_subtracted(self) -> None:
        unwatched = report(unwatched_outside=["/bin/a"], unwatched_outside_total=1001)
        (line,) = suspicions(result(), unwatched, reference(changed_outside=["/bin/a"]))
        assert "1000" in line


class TestProcesses:
    LEFT = report(processes=[LeftProcess(pid=9, user="user", command="sleep 9")])

    def test_they_count_in_live_alone(self) -> None:
        assert suspicions(result(), self.LEFT, reference()) == []
        (line,) = suspicions(result(isolation="live"), self.LEFT, reference())
        assert line == "`sleep 9` of user ran beside the scorers; the reference leaves none"

    def test_those_of_the_reference_are_part_of_the_work(self) -> None:
        assert suspicions(result(isolation="live"), self.LEFT, reference(process_users=["user"])) == []
        (line,) = suspicions(result(isolation="live"), self.LEFT, reference(process_users=["www"]))
        assert line.endswith("those of the reference belong to www")

    def test_without_a_reference_they_are_facts_only(self) -> None:
        assert suspicions(result(isolation="live"), self.LEFT) == []

    def test_a_list_that_is_not_known_is_suspect(self) -> None:
        assert suspicions(result(isolation="live"), report(processes=None)) != []
        assert suspicions(result(isolation="clean"), report(processes=None)) == []


def test_hostile_names_stay_on_one_line_and_short() -> None:
    odd = "/usr/bin/x\n\n1 suspect: none\t" + "y" * 4000
    (line,) = suspicions(result(), report(file(odd)))
    assert "\n" not in line
    assert len(line) <= LONGEST_SUSPICION


def test_further_suspicions_follow_once_and_within_bounds() -> None:
    first = with_suspicions(result(), ["a", "b"])
    assert with_suspicions(first, ["b", "c", ""]).suspicions == ["a", "b", "c"]
    assert with_suspicions(result(0.0), ["a"]).suspicions == []
    many = with_suspicions(result(), (str(number) for number in range(100)))
    assert len(many.suspicions) == MOST_SUSPICIONS
