"""SWE-bench: the answer's patch on a pristine checkout, the official script, graded by `swebench`."""

import importlib.metadata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from benchyard.errors import ScorerFailed, UsageError, WorkerFailed
from benchyard.hosts.dependencies import SWEBENCH
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import Model
from benchyard.models.scoring.attachments import PackedFile
from benchyard.models.scoring.exports import Attachments, PythonNeeds, ScorerExport
from benchyard.models.scoring.swe_bench import (
    EVAL_SCRIPT,
    SPEC,
    SWE_BENCH_ATTACHMENT,
    Commit,
    SweBenchSpec,
    SweBenchTests,
)
from benchyard.scorers import git_answers, score
from benchyard.scorers.base import (
    MOST_OUTPUT_BYTES,
    ProgramOptions,
    Room,
    RoomResult,
    Scorer,
    ScoringContext,
    Verdict,
)
from benchyard.scorers.standalone import swebench_grader
from benchyard.workers import foreign_files
from benchyard.workers.workers import WorkerCall, WorkerLimits

END = ">>>>> End Test Output"
EXIT_CODE = ">>>>> Test Exit Code"
_GRADED = "benchyard.scorers.standalone.swebench_grader:graded"
_LIMITS = WorkerLimits(seconds=300, memory_bytes=4 * 1024**3, output_bytes=512 * 1024**2)


@dataclass(frozen=True)
class Grade:
    """Grades that the `swebench` package gave a log."""

    is_resolved: bool
    has_results: bool
    """True if the log is one of tests that ran."""
    fail_to_pass: float = 0.0
    pass_to_pass: float = 0.0
    failed: tuple[str, ...] = field(default=())
    """First of the tests that should have passed and did not."""
    more_failed: int = 0
    has_tests: bool = True
    """True if the log names any test."""
    reason: str = ""
    """Fault of the environment that the package reports; empty if none."""


def swebench_version() -> str:
    """Return the version of the `swebench` package; raises ScorerFailed if it is not installed."""
    try:
        return importlib.metadata.version("swebench")
    except importlib.metadata.PackageNotFoundError as error:
        raise ScorerFailed(f"SWE-bench cannot be graded: {SWEBENCH.complaint}") from error


def script_with_status(text: str) -> str:
    """Make an evaluation script exit with the status of its tests, whatever commands follow them."""
    if (at := text.find(END)) >= 0:
        begin, line = text.rfind("\n", 0, at) + 1, text[text.rfind("\n", 0, at) + 1 :].split("\n", 1)[0]
        return f'{text[:begin]}BENCHYARD_STATUS=$?\n{line}\nexit "$BENCHYARD_STATUS"\n'
    raise ScorerFailed(f"the evaluation script has no line with {END!r}; import the scenario again")


async def grade_log(spec: SweBenchSpec, output: bytes, exit_status: int, call: WorkerCall) -> Grade:
    """Grade the output and exit status of a script; raises ScorerFailed if the package cannot grade them."""
    parameters = {"spec": spec.model_dump(), "exit_status": exit_status}
    try:
        rewards = await call(_GRADED, output, parameters, _LIMITS)
    except WorkerFailed as error:
        if error.details.get("limit") in ("time", "memory"):
            # A log that takes too much to grade is the fault of the answer that printed it.
            return Grade(is_resolved=False, has_results=False, reason=f"the log could not be graded: {error}")
        raise ScorerFailed(f"the package `swebench` could not grade the log: {error}") from error
    return Grade(**{**rewards, "failed": tuple(rewards["failed"])})


_MOST_LOG_BYTES = 64 * 1024**2
_NOT_FOUND = 127
_SHOWN_TESTS = 50
_MOST_FACT = 4000
_RUN = 'exec /bin/bash "$0" 2>&1'
"""Merges both streams, as in the official log: the markers come on standard error."""


class SweBenchConfig(Model):
    """Fields of a `swe_bench_scorer`, in addition to the scenario's attachment."""

    base_commit: Commit


@dataclass
class PatchAnswer:
    """Patch of an answer, with the facts and messages collected for its verdict."""

    patch: bytes = b""
    facts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def verdict(self, grade: Grade | None = None, ran: RoomResult | None = None) -> Verdict:
        """Return the verdict, resolved or not, with the facts and the output to keep."""
        rewards = {"resolved": 0.0, "fail_to_pass": 0.0, "pass_to_pass": 0.0}
        if grade is not None:
            rewards = {"resolved": float(grade.is_resolved)}
            rewards |= {"fail_to_pass": grade.fail_to_pass, "pass_to_pass": grade.pass_to_pass}
            shown = grade.failed[:_SHOWN_TESTS]
            more = len(grade.failed) - len(shown) + grade.more_failed
            self.notes += [f"not passed: {name}" for name in shown] + [f"... and {more} more"] * bool(more)
        head = "\n".join([f"resolved: {'yes' if rewards['resolved'] else 'no'}", *self.notes]) + "\n"
        head = head.encode(errors="replace")[: MOST_OUTPUT_BYTES // 2].decode(errors="replace")
        end = score.output(ran)[-(MOST_OUTPUT_BYTES - len(head.encode()) - 1000) // 4 :] if ran else ""
        facts = {name: value[:_MOST_FACT] for name, value in self.facts.items()}
        return Verdict(rewards["resolved"], head + end, facts, rewards)


class SweBenchScorer(Scorer[SweBenchConfig]):
    """Gives 1.0 to an answer that resolves the issue by the official rule, else 0.0."""

    Config = SweBenchConfig
    dependencies = (SWEBENCH,)
    draws = True

    def __init__(self, config: SweBenchConfig, context: ScoringContext) -> None:
        super().__init__(config, context)
        self._drawn = git_answers.DrawnDiff(None, "nothing was drawn")

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        swebench_version()
        return ()

    async def draw(self, room: Room) -> bytes:
        self._drawn = await git_answers.draw(room)
        return self._drawn.diff or b""

    async def score(self, room: Room) -> Verdict:
        script, tests = await self._load_tests()
        await git_answers.check(room, self.config.base_commit)
        answer = await answer_from_diff(room, self._drawn)
        answer.facts["grader"] = f"swebench {swebench_version()}"
        if not answer.patch:
            return answer.verdict()
        way = await self._apply(room, answer, tests)
        if not way:
            return answer.verdict()
        ran = await _evaluate(room, script)
        if ran.timed_out or ran.truncated:
            why = "timed out" if ran.timed_out else "printed more than is kept"
            answer.facts["tests"] = why
            answer.notes.append(f"the tests {why}")
            return answer.verdict(ran=ran)
        grade = await grade_log(tests.spec, ran.stdout, ran.exit_status, self.context.call)
        answer.facts["tests"] = "graded" if grade.has_results else "no result"
        answer.facts["tests_exit_status"] = str(ran.exit_status)
        if not grade.has_results:
            answer.notes.append("the log has no credible results")
        if grade.reason:
            answer.facts["environment"] = grade.reason
        verdict = answer.verdict(grade, ran)
        require_results(verdict, ran, has_results=grade.has_results and grade.has_tests)
        return verdict

    async def _load_tests(self) -> tuple[str, SweBenchTests]:
        try:
            archive = await self.context.attached(SWE_BENCH_ATTACHMENT)
            files = await foreign_files.archive_files(archive, self.context.call)
            spec = await foreign_files.json_value(files[SPEC].content, self.context.call)
            script = script_with_status(files[EVAL_SCRIPT].content.decode())
            return script, SweBenchTests.model_validate(spec)
        except (UsageError, KeyError, UnicodeDecodeError, ValidationError) as error:
            raise attachment_error(error) from error

    async def _apply(self, room: Room, answer: PatchAnswer, tests: SweBenchTests) -> str:
        path = await room.keep("patch.diff", answer.patch)
        await flag_test_changes(room, answer, path, tests.test_files, self.context.call)
        way, tried = await git_answers.apply_patch(room, path)
        answer.facts["applied"] = way or "failed"
        if not way:
            answer.notes += ["the patch does not apply:", score.output(tried)[-4000:]]
        return way


def attachment_error(error: Exception) -> ScorerFailed:
    """Return the error for an attachment that cannot be read."""
    why: object = error
    if isinstance(error, ValidationError):
        # Leave out the invalid value, which may be long.
        errors = error.errors(include_url=False, include_context=False, include_input=False)[0]
        why = f"{'.'.join(map(str, errors['loc']))}: {errors['msg']}"[:_MOST_FACT]
    return ScorerFailed(
        f"attachment {SWE_BENCH_ATTACHMENT!r} of the scenario is not as it should be: {why}; import it again"
    )


def require_results(verdict: Verdict, ran: RoomResult, *, has_results: bool) -> None:
    """Raise ScorerFailed if no test ran: either the answer or the environment may be the cause."""
    is_missing = ran.exit_status == _NOT_FOUND and not verdict.score
    if is_missing or not has_results:
        why = "the test command was not found" if is_missing else "the tests gave no result"
        reason = f"{why} (exit status {ran.exit_status})"
        raise ScorerFailed(reason, output=verdict.output, facts=verdict.facts, rewards=verdict.rewards)


async def answer_from_diff(room: Room, drawn: git_answers.DrawnDiff) -> PatchAnswer:
    """Turn a drawn diff into the patch to apply, with the facts and messages about it."""
    answer = PatchAnswer()
    if drawn.trouble:
        answer.facts["drawing"] = drawn.trouble
        answer.notes.append(f"drawing the answer: {drawn.trouble}")
    if drawn.diff is None:
        answer.facts["patch"] = "too large"
        return answer
    answer.patch = await git_answers.patch_of(room, drawn.diff)
    answer.facts["patch_bytes"] = str(len(answer.patch))
    if not answer.patch:
        answer.facts["patch"] = "empty"
        answer.notes.append("the answer changes nothing")
    return answer


async def flag_test_changes(
    room: Room, answer: PatchAnswer, patch_file: str, tests: list[str], call: WorkerCall
) -> None:
    """Note which changes of an answer are to the configuration of tests, or to the tests that grade it."""
    total, odd = await git_answers.changed_paths(room, patch_file, tests, call)
    answer.facts["files_changed"] = str(total)
    if odd:
        answer.facts["flagged"] = ", ".join(odd)
        answer.notes += [f"flagged: {path} is changed" for path in odd[:_SHOWN_TESTS]]


async def _evaluate(room: Room, script: str) -> RoomResult:
    path = await room.keep("eval.sh", script.encode())
    how = ProgramOptions(env={"BASH_ENV": "", "ENV": ""}, user=git_answers.ROOT, most_output=_MOST_LOG_BYTES)
    return await room.run(("/bin/bash", "--noprofile", "--norc", "-c", _RUN, path), how)


_GRADING_LINES = """\
{applied}
if [ -z "$applied" ]; then
    nothing "the patch does not apply"
else
    timeout -k 5 {seconds} bash --noprofile --norc "$own/eval.sh" > "$logs/$name.log" 2>&1
    status=$?
    tail -c 20000 "$logs/$name.log"
    sed 's/{code}/>>>>> Printed Exit Code/' "$logs/$name.log" > "$work/log"
    printf '\\n{code}: %s\\n' "$status" >> "$work/log"
    "$python" -I -X utf8 "$own/grade.py" "$own/spec.json" "$work/log" rewards \\
        > "$logs/$name.out" 2>> "$logs/$name.err" || fail "$name: the log could not be graded"
fi
"""


def export(scorer: Mapping[str, Any], attachments: Attachments, seconds: float) -> ScorerExport:
    """Export the tests of one item as a script."""
    config = SweBenchConfig.model_validate(dict(scorer))
    try:
        files = attachments[SWE_BENCH_ATTACHMENT]
        tests = SweBenchTests.model_validate_json(files[SPEC].content)
        script = script_with_status(files[EVAL_SCRIPT].content.decode())
        version = swebench_version()
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"its attachment {SWE_BENCH_ATTACHMENT!r} is not as it should be: import it again"
        ) from error
    except ScorerFailed as error:
        raise UsageError(error.message) from error
    made = {
        "eval.sh": PackedFile(script.encode()),
        "spec.json": PackedFile(tests.spec.model_dump_json().encode()),
        "grade.py": PackedFile(Path(swebench_grader.__file__).read_bytes()),
    }
    graded = _GRADING_LINES.format(
        applied=git_answers.apply_lines(),
        seconds=git_answers.seconds_for_tests(seconds),
        code=EXIT_CODE,
    )
    text = git_answers.export_lines(config.base_commit, graded)
    return ScorerExport(text, made, PythonNeeds(None, (f"swebench=={version}",)), user="root")
