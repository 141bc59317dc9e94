"""Reports of test runners, CTRF and JUnit: checks that one is there, complete, and of tests that ran."""

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
    """Return the path of the report that a script has its runner leave; None if it names none.

    None too if the path is relative and the script changes its directory.
    """
    match = _NAMED.search(script)
    if match is None or not (match[1].startswith("/") or not _MOVES.search(script)):
        return None
    return match[1]


async def check(
    room: Room,
    place: str,
    verdict: Verdict,
    context: ScoringContext,
    *,
    before: bytes | None = None,
    wanted: int | None = None,
) -> Verdict:
    """Adjust a verdict by the report at `place`; a score of 0 needs no report.

    `before` is the file's content before the tests ran, `wanted` the number of tests if the author gave one.
    """
    if verdict.score <= 0:
        return verdict
    counts = await read(room, place, context.call, before=before)
    if isinstance(counts, str):
        return judge(verdict, counts, official=context.official)
    counted = CountedTests(tests=counts.tests, skipped=counts.skipped)
    reason = flaw(counts, place) or miscount(counted, place, wanted, await context.counted())
    if reason is None and verdict.score >= 1 and counts.failed:
        # The task's author decides what failed tests mean: the score stays.
        told = (
            f"the runner's report {place} tells of {counts.failed} tests that did not pass, with a full score"
        )
        return replace(verdict, counted=counted, suspect=told)
    return judge(replace(verdict, counted=counted), reason, official=context.official)


async def read(room: Room, place: str, call: WorkerCall, *, before: bytes | None = None) -> TestReport | str:
    """Read a report; return a line of text instead if it does not show that tests were run."""
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


def flaw(counts: TestReport, place: str) -> str | None:
    """Return in a line why a report does not show that tests were run; None if it does."""
    if counts.passed <= 0 or counts.tests <= 0:
        return f"the runner's report {place} tells of no test that passed"
    if counts.listed != counts.tests:
        return f"the runner's report {place} tells of {counts.listed} of its {counts.tests} tests only"
    return None


def miscount(
    counts: CountedTests, place: str, wanted: int | None, of_reference: Sequence[CountedTests]
) -> str | None:
    """Return in a line why a report does not seem to be of all tests; None if it does.

    `wanted` is the number of tests that the author gave; 0 allows any. Without it, the number must be that of
    some report of the reference. No more tests may be skipped than in those reports.
    """
    if wanted == 0:
        return None
    if wanted is not None and counts.tests != wanted:
        return f"the runner's report {place} tells of {counts.tests} tests; there are {wanted}"
    known = sorted({count.tests for count in of_reference})
    if known and wanted is None and counts.tests not in known:
        reason = " or ".join(map(str, known))
        return f"the runner's report {place} tells of {counts.tests} tests; that of the reference of {reason}"
    most = max((count.skipped for count in of_reference), default=counts.skipped)
    if counts.skipped > most:
        reason = f"tells of {counts.skipped} skipped tests; that of the reference of {most or 'none'}"
        return f"the runner's report {place} {reason}"
    return None


def judge(verdict: Verdict, reason: str | None, *, official: bool) -> Verdict:
    """Lower a score above 0 to 0 for a flaw of the report; an official verdict only becomes suspect."""
    if reason is None or verdict.score <= 0:
        return verdict
    note = f"{verdict.output.rstrip()}\n[benchyard] {reason}\n".lstrip()
    if official:
        return replace(verdict, output=note, suspect=reason)
    return replace(verdict, score=0.0, output=note)
