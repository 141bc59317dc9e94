"""Reports that test runners leave, CTRF and JUnit: whether one is there, complete, and of tests that ran."""

import re

from benchyard.errors import ScorerFailed
from benchyard.scorers.base import Room, Verdict
from benchyard.scorers.report_counts import MOST_BYTES, Report
from benchyard.workers.workers import Call

_COUNTED = "benchyard.scorers.report_counts:counted"
_NAMED = re.compile(r"--(?:ctrf|junitxml|junit-xml)[= ]{1,3}[\"']?([^\s\"'$;|&<>()`\\]{1,400})")
_MOVES = re.compile(r"\b(?:cd|pushd)\b")


def place_of(script: str) -> str | None:
    """Where a script has its runner leave a report; None where it names none, or none that can be told."""
    found = _NAMED.search(script)
    if found is None or not (found[1].startswith("/") or not _MOVES.search(script)):
        return None
    return found[1]


async def flaw(
    room: Room, place: str, call: Call, *, before: bytes | None = None, wanted: int | None = None
) -> str | None:
    """Why the report there does not show that tests were run, in a line; None where it does.

    `before` is what was there before they ran, `wanted` how many tests there are where that is known.
    """
    try:
        content = await room.fetch(place, MOST_BYTES)
        if content is None or content == before:
            return f"the runner's report {place} is missing, so that nothing shows that tests were run"
        counts = await call(_COUNTED, content)
    except ScorerFailed:
        counts = None
    if counts is None:
        return f"the runner's report {place} cannot be read, so that nothing shows that tests were run"
    found = Report(**counts)
    if found.passed <= 0 or found.tests <= 0:
        return f"the runner's report {place} tells of no test that passed"
    if found.listed != found.tests:
        return f"the runner's report {place} tells of {found.listed} of its {found.tests} tests only"
    if wanted is not None and found.tests != wanted:
        return f"the runner's report {place} tells of {found.tests} tests; there are {wanted}"
    return None


def judged(verdict: Verdict, reason: str | None, *, official: bool) -> Verdict:
    """A verdict in view of its report's flaw: none above 0, or suspect where the official one stays."""
    if reason is None or verdict.score <= 0:
        return verdict
    told = f"{verdict.output.rstrip()}\n[benchyard] {reason}\n".lstrip()
    if official:
        return Verdict(verdict.score, told, verdict.facts, verdict.rewards, suspect=reason)
    return Verdict(0.0, told, verdict.facts, verdict.rewards)
