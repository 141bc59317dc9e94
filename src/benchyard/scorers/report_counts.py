"""Counts in reports of test runners, CTRF and JUnit; of the standard library alone, for workers."""

import json
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO
from xml.parsers import expat

MOST_BYTES = 4 * 1024**2


@dataclass(frozen=True)
class Report:
    """What a runner counted."""

    tests: int
    passed: int
    listed: int
    """Tests that it tells of one by one."""
    skipped: int = 0


def parse(content: bytes) -> Report:
    """The counts of a report; raises ValueError for what is none."""
    try:
        return _ctrf(json.loads(content)) if content.lstrip()[:1] == b"{" else _junit(content)
    except (LookupError, TypeError, AttributeError, RecursionError, OverflowError, expat.ExpatError) as error:
        raise ValueError(str(error)) from error


def _ctrf(found: Any) -> Report:
    results = found["results"]
    summary = results["summary"]
    skipped = int(summary.get("skipped", 0)) + int(summary.get("pending", 0))
    return Report(int(summary["tests"]), int(summary["passed"]), len(results["tests"]), skipped)


def _junit(content: bytes) -> Report:
    counts = dict.fromkeys(("tests", "failures", "errors", "skipped", "listed"), 0)

    def begin(name: str, attributes: dict[str, str]) -> None:
        if name == "testcase":
            counts["listed"] += 1
        elif name == "testsuite":
            for each in ("tests", "failures", "errors", "skipped"):
                counts[each] += int(attributes.get(each, 0))

    def refuse(*_: Any) -> None:
        raise ValueError("it declares entities")

    parser = expat.ParserCreate()
    parser.StartElementHandler = begin
    parser.EntityDeclHandler = refuse
    parser.Parse(content, True)
    passed = counts["tests"] - counts["failures"] - counts["errors"] - counts["skipped"]
    return Report(counts["tests"], passed, counts["listed"], counts["skipped"])


def counted(content: BinaryIO) -> dict[str, int] | None:
    """The counts of a report as values of JSON, for a worker; None for what is none."""
    try:
        return asdict(parse(content.read(MOST_BYTES + 1)))
    except ValueError:
        return None
