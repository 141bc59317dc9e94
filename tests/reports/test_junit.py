"""JUnit's XML, read back."""

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as some

from benchyard.models.jobs import BenchmarkJobView, Job, JobState
from benchyard.models.trials import FailureReason, SuspectRule, Trial
from benchyard.reports.junit import junit
from benchyard.reports.outcomes import outcomes
from tests.reports.scenes import job, trial


def seen(made: Job, trials: list[Trial], failure_reason: str | None = None) -> BenchmarkJobView:
    return BenchmarkJobView(
        id=made.id,
        name=made.name,
        state=made.state,
        create_time_ms=1,
        job_source=made.source,
        job_spec=made.spec,
        start_time_ms=1_700_000_000_000,
        end_time_ms=1_700_000_001_500,
        benchmark_outcomes=outcomes(made, trials, with_scenarios=True),
        failure_reason=failure_reason,
    )


def test_a_suite_per_agent_and_a_case_per_scenario() -> None:
    trials = [
        trial(1.0, scenario=0, start_time_ms=1, end_time_ms=2001),
        trial(0.25, scenario=1),
        trial(failure="agent", scenario=2),
        trial(failure="infrastructure", scenario=3),
        trial(failure="cancelled", scenario=4),
        trial(1.0, agent=1, scenario=0),
    ]
    made = job(agents=2, scenarios=5, state=JobState.CANCELLED)
    root = ElementTree.fromstring(junit(seen(made, trials)))
    first, second = root
    assert [first.get(name) for name in ("name", "tests", "failures", "errors", "skipped")] == [
        "agent-0",
        "5",
        "2",
        "1",
        "1",
    ]
    assert (second.get("tests"), second.get("failures")) == ("1", "0")
    assert (root.get("tests"), root.get("errors"), root.get("time")) == ("6", "1", "1.500")
    cases = first.findall("testcase")
    assert [[child.tag for child in case if child.tag != "properties"] for case in cases] == [
        [],
        ["failure"],
        ["failure"],
        ["error"],
        ["skipped"],
    ]
    assert (cases[0].get("time"), cases[0].get("classname"), cases[0].get("name")) == (
        "2.000",
        "agent-0",
        "scenario 0",
    )
    failure = cases[2].find("failure")
    assert failure is not None
    assert (failure.get("type"), failure.text) == ("Oops", "agent: it broke")


def test_a_job_that_came_to_nothing_is_an_error() -> None:
    made = job(state=JobState.FAILED)
    root = ElementTree.fromstring(junit(seen(made, [], failure_reason="no such benchmark")))
    assert (root.get("tests"), root.get("errors")) == ("1", "1")
    error = root.find(".//error")
    assert error is not None
    assert error.get("message") == "no such benchmark"


@given(some.text(), some.text())
def test_any_text_makes_a_file_that_can_be_read(name: str, message: str) -> None:
    reason = FailureReason(exception_type=message, exception_message=message, kind="agent")
    broken = trial(failure="agent").model_copy(update={"scenario_name": name, "failure": reason})
    root = ElementTree.fromstring(junit(seen(job(), [broken])).encode())
    failure = root.find(".//failure")
    assert failure is not None


def test_characters_invalid_in_xml_are_replaced() -> None:
    broken = trial(failure="agent").model_copy(
        update={"scenario_name": "a\x00b\x1b[31m<&]]>\ufffe\U0001f600"}
    )
    root = ElementTree.fromstring(junit(seen(job(), [broken])))
    case = root.find(".//testcase")
    assert case is not None
    assert case.get("name") == "a\ufffdb\ufffd[31m<&]]>\ufffd\U0001f600"


WHY = "scorers opened /usr/local/bin/python3, which was changed outside of the work"


def case_of(rule: SuspectRule) -> ElementTree.Element:
    made = job(state=JobState.COMPLETED)
    view = seen(made, [])
    found = outcomes(made, [trial(1.0, suspicions=[WHY, "more"])], with_scenarios=True, rule=rule)
    root = ElementTree.fromstring(junit(view.model_copy(update={"benchmark_outcomes": found})))
    suite = root.find(".//testsuite/properties/property[@name='n_suspect']")
    assert suite is not None
    assert suite.get("value") == "1"
    case = root.find(".//testcase")
    assert case is not None
    mark = case.find("properties/property[@name='suspect']")
    assert mark is not None
    assert mark.get("value") == f"{WHY} (and 1 more)"
    return case


def test_a_suspect_score_is_marked_and_fails_where_it_must_not_be() -> None:
    assert case_of("keep").find("failure") is None
    for rule, counts in (("fail", "1"), ("zero", "0")):
        failure = case_of(rule).find("failure")  # type: ignore[arg-type]
        assert failure is not None
        assert failure.get("type") == "Suspect"
        assert (failure.get("message") or "").startswith(f"score {counts}; suspect: {WHY}")
        assert failure.text == f"scored 1, counts {counts}\n{WHY}\nmore"


def test_without_suspicion_there_is_no_mark() -> None:
    text = junit(seen(job(state=JobState.COMPLETED), [trial(1.0)]))
    assert "suspect" not in text
