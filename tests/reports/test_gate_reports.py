"""Verdicts for other programs, with names of any characters."""

from xml.etree import ElementTree

from benchyard.reports.gate_reports import junit, markdown
from benchyard.reports.paired_comparison import compare, gate
from tests.reports.test_paired_comparison import side

HOSTILE = "a|b`<img src=x onerror=alert(1)>\n# head\x1b[31m\u202e,\"'"


def test_hostile_names_stay_on_their_line_and_in_their_cell() -> None:
    before, after = side([[1.0]] * 5), side([[0.0]] * 5, "bmj_2")
    renamed = [each.model_copy(update={"scenario_name": HOSTILE}) for each in before.trials]
    job = before.job.model_copy(update={"name": HOSTILE})
    view = compare(type(before)(job, 0, renamed), after)
    text = markdown([gate(view, 0.02)])
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    for line in text.splitlines():
        if "img" in line:
            assert line.replace("\\|", "").count("|") == 5
    root = ElementTree.fromstring(junit([gate(view, 0.02), gate(view, 0.9)]))
    assert [suite.get("tests") for suite in root] == ["2"]


def test_an_inconclusive_verdict_counts_as_it_was_asked_to() -> None:
    view = compare(side([[1.0]] * 5), side([[1.0]] * 5, "bmj_2"))
    found = gate(view, 0.02)
    assert found.verdict == "inconclusive"

    def told(inconclusive: str | None) -> tuple[str | None, str | None, list[str]]:
        (suite,) = ElementTree.fromstring(junit([found], inconclusive))
        return suite.get("failures"), suite.get("skipped"), [each.tag for each in suite[0]]

    assert told(None) == ("0", "1", ["skipped", "system-out"])
    assert told("fail") == ("1", "0", ["failure", "system-out"])
    assert told("pass") == ("0", "0", ["system-out"])


def test_a_difference_without_bounds_is_told_without_them() -> None:
    view = compare(side([[0.0]] * 5), side([[5.0]] * 5, "bmj_2"))
    assert "| +5.000 |" in markdown([gate(view, 0.02)])


def test_no_chance_is_told_as_0() -> None:
    view = compare(side([[1.0]] * 1100), side([[0.0]] * 1100, "bmj_2"))
    assert view.p is not None
    assert view.p > 0
    assert "&lt;1e-16" in markdown([gate(view, 0.02)])
