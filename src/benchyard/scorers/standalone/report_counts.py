"""Counts in reports of test runners, CTRF and JUnit; of the standard library alone, for workers."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO
from xml.parsers import expat

MOST_BYTES = 4 * 1024**2


@dataclass(frozen=True)
class TestReport:
    """Counts of a test runner's report."""

    tests: int
    passed: int
    listed: int
    """Tests that the report lists one by one."""
    skipped: int = 0
    failed: int = 0
    """Tests that did not pass, by the report's sum or its list, whichever is more."""


def parse(content: bytes) -> TestReport:
    """Return the counts of a report; raises ValueError if it is not a valid report."""
    try:
        return _ctrf(json.loads(content)) if content.lstrip()[:1] == b"{" else _junit(content)
    except (LookupError, TypeError, AttributeError, RecursionError, OverflowError, expat.ExpatError) as error:
        raise ValueError(str(error)) from error


def _ctrf(found: Any) -> TestReport:
    results = found["results"]
    summary = results["summary"]
    skipped = _number(summary, "skipped") + _number(summary, "pending")
    tests = results["tests"]
    failed = sum(1 for test in tests if test.get("status") == "failed")
    return TestReport(
        _number(summary, "tests"),
        _number(summary, "passed"),
        len(tests),
        skipped,
        max(failed, _number(summary, "failed")),
    )


def _number(counts: Mapping[str, Any], name: str) -> int:
    number = int(counts.get(name) or 0)
    if number < 0:
        raise ValueError(f"{name} is negative")
    return number


def _junit(content: bytes) -> TestReport:
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped", "listed", "failed"), 0)
    depth, counted = 0, 0
    """Depth of the parser, and depth of the outermost suite whose sums stand for all that it holds."""

    def begin(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth, counted
        depth += 1
        if name == "testcase":
            counts["listed"] += 1
        elif name in ("failure", "error"):
            counts["failed"] += 1
        elif name == "testsuite" and not counted and "tests" in attributes:
            counted = depth
            for each in ("tests", "failures", "errors", "skipped"):
                counts[each] += _number(attributes, each)

    def end(_: str) -> None:
        nonlocal depth, counted
        if counted == depth:
            counted = 0
        depth -= 1

    def refuse(*_: Any) -> None:
        raise ValueError("it declares entities")

    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    parser.EndElementHandler = end
    parser.EntityDeclHandler = refuse
    parser.Parse(content, True)
    failed = counts["failures"] + counts["errors"]
    passed = counts["tests"] - failed - counts["skipped"]
    return TestReport(
        counts["tests"], passed, counts["listed"], counts["skipped"], max(failed, counts["failed"])
    )


def counted(content: BinaryIO) -> dict[str, int] | None:
    """Return the counts of a report as values of JSON, for a worker; None if it is not a valid report."""
    try:
        return asdict(parse(content.read(MOST_BYTES + 1)))
    except ValueError:
        return None
