"""Reports that test runners leave, CTRF and JUnit: whether one is there, complete, and of tests that ran."""

import re
from collections.abc import Sequence
from dataclasses import replace

from benchyard.errors import ScorerFailed
from benchyard.models.runs import CountedTests
from benchyard.scorers.base import Room, ScoringContext, Verdict
from benchyard.scorers.standalone.report_counts import MOST_BYTES, TestReport
from benchyard.workers.workers import WorkerCall

_COUNTED = "benchyard.scorers.standalone.report_counts:counted"
_NAMED = re.compile(r"--(?:ctrf|junitxml|junit-xml)[= ]{1,3}[\"']?([^\s\"'$;|&<>()`\\]{1,400})")
_MOVES = re.compile(r"\b(?:cd|pushd)\b")


def place_of(script: str) -> str | None:
    """Where a script has its runner leave a report; None where it names none, or none that can be told."""
    found = _NAMED.search(script)
    if found is None or not (found[1].startswith("/") or not _MOVES.search(script)):
        return None
    return found[1]


async def check(
    room: Room,
    place: str,
    verdict: Verdict,
    context: ScoringContext,
    *,
    before: bytes | None = None,
    wanted: int | None = None,
) -> Verdict:
    """A verdict in view of the report there; one of 0 needs none.

    `before` is what was there before tests ran, `wanted` how many there are where the author said that.
    """
    if verdict.score <= 0:
        return verdict
    found = await read(room, place, context.call, before=before)
    if isinstance(found, str):
        return judge(verdict, found, official=context.official)
    counted = CountedTests(tests=found.tests, skipped=found.skipped)
    reason = flaw(found, place) or miscount(counted, place, wanted, await context.counted())
    if reason is None and verdict.score >= 1 and found.failed:
        # What a task makes of tests that fail is its author's: the score stays.
        told = (
            f"the runner's report {place} tells of {found.failed} tests that did not pass, with a full score"
        )
        return replace(verdict, counted=counted, suspect=told)
    return judge(replace(verdict, counted=counted), reason, official=context.official)


async def read(room: Room, place: str, call: WorkerCall, *, before: bytes | None = None) -> TestReport | str:
    """The report there, or why it does not show that tests were run, in a line."""
    try:
        content = await room.fetch(place, MOST_BYTES)
        if content is None or content == before:
            return f"the runner's report {place} is missing, so that nothing shows that tests were run"
        counts = await call(_COUNTED, content)
    except ScorerFailed:
        counts = None
    if counts is None:
        return f"the runner's report {place} cannot be read, so that nothing shows that tests were run"
    return TestReport(**counts)


def flaw(found: TestReport, place: str) -> str | None:
    """Why a report does not show that tests were run, in a line; None where it does."""
    if found.passed <= 0 or found.tests <= 0:
        return f"the runner's report {place} tells of no test that passed"
    if found.listed != found.tests:
        return f"the runner's report {place} tells of {found.listed} of its {found.tests} tests only"
    return None


def miscount(
    found: CountedTests, place: str, wanted: int | None, of_reference: Sequence[CountedTests]
) -> str | None:
    """Why a report is not of all tests, in a line; None where nothing says so.

    `wanted` is how many the author says there are, 0 where any number will do. Else they are as many as in a
    report of the reference, and no more of them are skipped.
    """
    if wanted == 0:
        return None
    if wanted is not None and found.tests != wanted:
        return f"the runner's report {place} tells of {found.tests} tests; there are {wanted}"
    known = sorted({each.tests for each in of_reference})
    if known and wanted is None and found.tests not in known:
        told = " or ".join(map(str, known))
        return f"the runner's report {place} tells of {found.tests} tests; that of the reference of {told}"
    most = max((each.skipped for each in of_reference), default=found.skipped)
    if found.skipped > most:
        told = f"tells of {found.skipped} skipped tests; that of the reference of {most or 'none'}"
        return f"the runner's report {place} {told}"
    return None


def judge(verdict: Verdict, reason: str | None, *, official: bool) -> Verdict:
    """A verdict in view of its report's flaw: none above 0, or suspect where the official one stays."""
    if reason is None or verdict.score <= 0:
        return verdict
    told = f"{verdict.output.rstrip()}\n[benchyard] {reason}\n".lstrip()
    if official:
        return replace(verdict, output=told, suspect=reason)
    return replace(verdict, score=0.0, output=told)
