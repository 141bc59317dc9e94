"""A job in JUnit's XML, as CI systems read it: a suite per agent, a case per scenario."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from benchyard.models.jobs import BenchmarkJobView, BenchmarkOutcome, ScenarioOutcome
from benchyard.models.trials import PASSED
from benchyard.reports.comparison import agent_labels, counted_score, why_suspect

LONGEST_TEXT = 20_000
_LONGEST_MESSAGE = 200

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NEARLY = PASSED - 1e-9


def junit(job: BenchmarkJobView) -> str:
    """Return the whole file; a job without any outcome is an error, so that a build cannot pass on it."""
    root = Element("testsuites", name=_text(job.name))
    for label, outcome in zip(agent_labels(job.benchmark_outcomes), job.benchmark_outcomes, strict=True):
        _suite(root, label, job, outcome)
    if not job.benchmark_outcomes:
        _add_missing(root, job)
    for count in ("tests", "failures", "errors", "skipped"):
        root.set(count, str(sum(int(suite.get(count, "0")) for suite in root)))
    root.set("time", _seconds(_length(job)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(root: Element, label: str, job: BenchmarkJobView, outcome: BenchmarkOutcome) -> None:
    suite = SubElement(root, "testsuite", name=_text(label), time=_seconds(outcome.duration_ms))
    if job.start_time_ms is not None:
        suite.set("timestamp", datetime.fromtimestamp(job.start_time_ms / 1000, UTC).isoformat())
    known = {} if outcome.mean_score is None else {"mean_score": f"{outcome.mean_score:g}"}
    _properties(suite, known | ({"n_suspect": str(outcome.n_suspect)} if outcome.n_suspect else {}))
    for row in outcome.scenario_outcomes:
        _case(suite, label, row, fails_suspect=outcome.suspect == "fail")
    _count(suite)


def _case(suite: Element, label: str, row: ScenarioOutcome, *, fails_suspect: bool) -> None:
    case = SubElement(
        suite,
        "testcase",
        classname=_text(label),
        name=_text(row.scenario_name),
        time=_seconds(row.duration_ms),
    )
    score = counted_score(row)
    why = why_suspect(row)
    known = {} if score is None else {"score": f"{score:g}"}
    _properties(case, known | ({"suspect": why} if why else {}))
    if row.state == "CANCELED":
        SubElement(case, "skipped", message="canceled")
    elif score is None:
        _problem(case, "error", row, "no score")
    elif why and (fails_suspect or score < _NEARLY):
        text = f"score {score:g}; suspect: {why}"
        failure = SubElement(case, "failure", message=_text(text[:_LONGEST_MESSAGE]), type="Suspect")
        scores_given = ", ".join(
            f"{attempt.score:g}" for attempt in row.attempts if attempt.score is not None
        )
        failure.text = _text("\n".join([f"scored {scores_given}, counts {score:g}", *row.suspicions]))
    elif score < _NEARLY:
        _problem(case, "failure", row, f"score {score:g}")


def _problem(case: Element, tag: str, row: ScenarioOutcome, what: str) -> None:
    reason = row.failure_reason
    if reason is None:
        SubElement(case, tag, message=what, type=row.state)
        return
    problem = SubElement(
        case,
        tag,
        message=_text(f"{what}: {reason.exception_message}"[:_LONGEST_MESSAGE]),
        type=_text(reason.exception_type),
    )
    problem.text = _text(f"{reason.kind}: {reason.exception_message}")


def _add_missing(root: Element, job: BenchmarkJobView) -> None:
    suite = SubElement(root, "testsuite", name=_text(job.name), time="0")
    case = SubElement(suite, "testcase", classname=_text(job.name), name="job", time="0")
    why = job.failure_reason or f"the job is {job.state.value} and no agent has an outcome"
    SubElement(case, "error", message=_text(why), type=job.state.value)
    _count(suite)


def _count(suite: Element) -> None:
    cases = suite.findall("testcase")
    suite.set("tests", str(len(cases)))
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(tag) is not None for case in cases)))


def _properties(parent: Element, known: Mapping[str, str]) -> None:
    if known:
        properties = SubElement(parent, "properties")
        for name, value in known.items():
            SubElement(properties, "property", name=name, value=_text(value))


def _length(job: BenchmarkJobView) -> int | None:
    if job.start_time_ms is None or job.end_time_ms is None:
        return None
    return job.end_time_ms - job.start_time_ms


def _seconds(duration_ms: int | None) -> str:
    return f"{(duration_ms or 0) / 1000:.3f}"


def _text(text: str) -> str:
    """Return text that XML can hold: names and messages of devboxes have any characters and length."""
    return _NOT_XML.sub("\ufffd", text[:LONGEST_TEXT])
