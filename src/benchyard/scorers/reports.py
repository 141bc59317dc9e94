"""Reports of test runners, CTRF and JUnit: checks that one is there, complete, and of tests that ran."""

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from benchyard.errors import ScorerFailed
from benchyard.models.runs import CountedTests
from benchyard.scorers.base import Room, ScoringContext, Verdict
from benchyard.scorers.standalone.report_counts import MOST_BYTES, TestReport
from benchyard.workers.workers import WorkerCall

_COUNTED = "benchyard.scorers.standalone.report_counts:counted"
_OPTION = re.compile(r"--(?:ctrf|junitxml|junit-xml)[= ]{1,3}[\"']?([^\s\"';|&<>()`\\]{1,400})")
_ASSIGNMENT = re.compile(
    r"^(?:export )?([A-Za-z_]\w{0,60})=[\"']?([^\s\"';|&<>()`\\]{0,400})[\"']?;?$", re.MULTILINE
)
_MOVE = re.compile(r"^cd [\"']?([^\s\"';|&<>()`\\]{1,400})[\"']?(?:$| &&|;)", re.MULTILINE)
_MOVES = re.compile(r"\b(?:cd|pushd|popd)\b")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w{0,60})\}|([A-Za-z_]\w{0,60}))")
_MOST_SCRIPT = 64 * 1024
"""Characters of a script that are looked at."""
_MOST_PATH = 1000
_MOST_LINE = 1000


def place_of(script: str, variables: Mapping[str, str] | None = None) -> str | None:
    """Return the path of the report that a script has its runner leave; None if it names none.

    Followed are variables that the script sets once, to a plain value, and a single change of the directory.
    None too if the path cannot be told without running the script.
    """
    script = script[:_MOST_SCRIPT]
    option = _OPTION.search(script)
    if option is None:
        return None
    given = variables or {}
    path = _expanded(option[1], script, given)
    if path is None or path.startswith("~"):
        return None
    if path.startswith("/") or not _MOVES.search(script):
        return path
    moves = list(_MOVE.finditer(script))
    if len(moves) != 1 or len(_MOVES.findall(script)) != 1 or moves[0].start() > option.start():
        return None
    folder = _expanded(moves[0][1], script, given)
    return None if folder is None or folder[0] in "~-" else posixpath.join(folder, path)


def _expanded(text: str, script: str, given: Mapping[str, str]) -> str | None:
    """Return a word with its variables replaced; None if one is unknown.

    Known are those that the script sets once, to a plain value, and those that were given.
    """
    names = {one or other for one, other in _VARIABLE.findall(text)}
    set_plainly = {found[1]: found[2] for found in _ASSIGNMENT.finditer(script)} if names else {}
    values = {name: given.get(name, "$") for name in names}
    for name in names:
        if count := script.count(f"{name}="):
            values[name] = set_plainly.get(name, "$") if count == 1 else "$"
    found = _VARIABLE.sub(lambda name: values[name[1] or name[2]], text)
    return None if "$" in found or not found or len(found) > _MOST_PATH else found


@dataclass(frozen=True)
class Runner:
    """A test runner: how scripts call it, and the line that it ends with."""

    name: str
    call: re.Pattern[str]
    closing: re.Pattern[str]


_RUNNERS = (
    Runner(
        "pytest",
        re.compile(r"\b(?:pytest|py\.test)\b"),
        re.compile(
            r"^(?:=+ )?\d{1,7} (?:passed|failed|skipped|xfailed|xpassed|errors?|deselected|warnings?)\b"
            r"[^\n]{0,200} in \d",
            re.MULTILINE,
        ),
    ),
    Runner("unittest", re.compile(r"-m unittest\b"), re.compile(r"^Ran \d{1,7} tests? in ", re.MULTILINE)),
    Runner("go test", re.compile(r"\bgo test\b"), re.compile(r"^(?:ok|FAIL)[ \t]+\S", re.MULTILINE)),
    Runner("cargo test", re.compile(r"\bcargo test\b"), re.compile(r"^test result: ", re.MULTILINE)),
    Runner(
        "jest", re.compile(r"\bjest\b"), re.compile(r"^Tests:[ \t]{1,20}[^\n]{0,200}\btotal\b", re.MULTILINE)
    ),
    Runner("mocha", re.compile(r"\bmocha\b"), re.compile(r"^[ \t]{0,20}\d{1,7} passing\b", re.MULTILINE)),
)
_PREPARES = re.compile(r"(?:which|command|echo|export|printf)\b|[^\n]{0,300}\b(?:install|add)\b")
"""Lines that only make a runner available."""
_HIDES = re.compile(
    r"(?<![0-9&>])>(?![&>])|1>|&>|>>|(?<!\|)\|(?!\|)"
    r"|\s(?:-qq|-q -q|--no-summary|--silent|--reporters?|-p no:terminal|--json)\b"
)
"""Ways of a call to send its output elsewhere, or to shorten it."""
_COLORS = re.compile(r"\x1b\[[0-9;]{0,20}m")


def check_closing_line(script: str, verdict: Verdict) -> Verdict:
    """Mark a score above 0 if the script calls a known runner, whose closing line its output does not have.

    A program that is under test can end the runner with status 0 before it reports. Calls whose output goes
    elsewhere, or is shortened, are left out: what they print shows nothing.
    """
    if verdict.score <= 0 or verdict.suspect:
        return verdict
    text = script[:_MOST_SCRIPT].replace("\\\n", " ")
    for runner in _RUNNERS:
        if any(_reports_itself(text, call.start()) for call in runner.call.finditer(text)):
            if runner.closing.search(_COLORS.sub("", verdict.output)):
                return verdict
            told = f"the output has no closing line of {runner.name}: nothing shows that its tests ended"
            return replace(verdict, suspect=told)
    return verdict


def _reports_itself(script: str, place: int) -> bool:
    """Tell whether the line at a place calls a runner whose output is the script's."""
    begin, end = script.rfind("\n", 0, place) + 1, script.find("\n", place)
    line = script[begin : begin + _MOST_LINE if end < 0 else min(end, begin + _MOST_LINE)].strip()
    return not (line.startswith("#") or _PREPARES.match(line) or _HIDES.search(line))


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
