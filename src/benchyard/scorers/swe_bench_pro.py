"""SWE-Bench Pro: the answer's patch on a pristine checkout, the item's own script and parser."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from benchyard.errors import UsageError
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import Model
from benchyard.models.scoring.attachments import PackedFile
from benchyard.models.scoring.exports import Attachments, PythonNeeds, ScorerExport
from benchyard.models.scoring.swe_bench import (
    PARSER,
    RUN_SCRIPT,
    SPEC,
    SWE_BENCH_ATTACHMENT,
    TESTS_PATCH,
    SweBenchProTests,
)
from benchyard.scorers import git_answers, score
from benchyard.scorers.base import ProgramOptions, Room, RoomResult, Scorer, ScoringContext, Verdict
from benchyard.scorers.kits import python_kit, pythons
from benchyard.scorers.standalone import swe_pro_results
from benchyard.scorers.swe_bench import (
    Grade,
    PatchAnswer,
    answer_from_diff,
    attachment_error,
    flag_test_changes,
    require_results,
)
from benchyard.workers import foreign_files
from benchyard.workers.workers import WorkerLimits

_MOST_LOG_BYTES = 64 * 1024**2
_MOST_RESULT_BYTES = 32 * 1024**2
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\b")
_TEXT = "benchyard.scorers.standalone.swe_pro_results:text_of"
_GRADED = "benchyard.scorers.standalone.swe_pro_results:graded"
_PATCH_LIMITS = WorkerLimits(output_bytes=git_answers.MOST_PATCH_BYTES)
_PARSE = 'exec 3>&1 1>&2; exec "$0" -I -X utf8 "$1" "$2" "$3" /dev/fd/3'
"""Sends the result to the output that the host keeps, not to a file that tests could have written."""


class SweBenchProConfig(Model):
    """Fields of a `swe_bench_pro_scorer`: none, since the scenario's attachment has all that is needed."""


class SweBenchProScorer(Scorer[SweBenchProConfig]):
    """Gives 1.0 if all tests pass that should, else 0.0."""

    Config = SweBenchProConfig
    draws = True

    def __init__(self, config: SweBenchProConfig, context: ScoringContext) -> None:
        super().__init__(config, context)
        self._drawn = git_answers.DrawnDiff(None, "nothing was drawn")
        self._python = ""

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        kit = await python_kit.make(await pythons.choose(None), kits)
        self._python = kit.target
        return (kit,)

    async def draw(self, room: Room) -> bytes:
        self._drawn = await git_answers.draw(room)
        return self._drawn.diff or b""

    async def score(self, room: Room) -> Verdict:
        files, spec = await self._load_tests()
        await git_answers.check(room, spec.base_commit)
        answer = await answer_from_diff(room, self._drawn)
        if not answer.patch:
            return answer.verdict()
        await _prepare(room, spec.base_commit)
        await self._apply(room, answer, spec)
        await _restore_tests(room, answer, spec, files[TESTS_PATCH])
        ran = await _run_tests(room, spec, files[RUN_SCRIPT])
        if ran.timed_out:
            answer.facts["tests"] = "timed out"
            answer.notes.append("the tests timed out")
            return answer.verdict(ran=ran)
        parsed = await self._parse(room, files[PARSER], ran)
        grade = await self._grade(spec, parsed)
        answer.facts["tests"] = "graded" if grade.has_results else "no result"
        answer.facts["tests_exit_status"] = str(ran.exit_status)
        verdict = answer.verdict(grade, ran)
        require_results(verdict, ran, has_results=grade.has_results)
        return verdict

    async def _load_tests(self) -> tuple[dict[str, bytes], SweBenchProTests]:
        try:
            archive = await self.context.attached(SWE_BENCH_ATTACHMENT)
            packed = await foreign_files.archive_files(archive, self.context.call)
            files = {name: packed[name].content for name in (RUN_SCRIPT, PARSER, TESTS_PATCH)}
            spec = await foreign_files.json_value(packed[SPEC].content, self.context.call)
            return files, SweBenchProTests.model_validate(spec)
        except (UsageError, KeyError, ValidationError) as error:
            raise attachment_error(error) from error

    async def _apply(self, room: Room, answer: PatchAnswer, spec: SweBenchProTests) -> None:
        """Apply the text parts of the patch; as in the official harness, tests run even if that fails."""
        text: bytes = await self.context.call(_TEXT, answer.patch, limits=_PATCH_LIMITS)
        if text != answer.patch:
            answer.facts["binary_parts"] = "left out"
        path = await room.keep("patch.diff", text)
        await flag_test_changes(room, answer, path, spec.test_files, self.context.call)
        tried = await git_answers.run(room, ("git", "apply", "-v", path))
        answer.facts["applied"] = "git apply -v" if tried.exit_status == 0 else "failed"
        if tried.exit_status != 0:
            answer.notes += ["the patch does not apply:", score.output(tried)[-4000:]]

    async def _parse(self, room: Room, parser: bytes, ran: RoomResult) -> RoomResult:
        """Run the item's parser on the output of its tests."""
        paths = [
            await room.keep(name, content)
            for name, content in (
                ("parser.py", parser),
                ("stdout.log", ran.stdout),
                ("stderr.log", ran.stderr),
            )
        ]
        how = ProgramOptions(
            env=python_kit.environment(self._python), user=git_answers.ROOT, most_output=_MOST_RESULT_BYTES
        )
        program = python_kit.program(self._python)
        argv = ("/bin/bash", "--noprofile", "--norc", "-c", _PARSE, program, *paths)
        return await room.run(argv, how)

    async def _grade(self, spec: SweBenchProTests, parsed: RoomResult) -> Grade:
        """Grade the results that the parser printed."""
        plain = {"fail_to_pass": spec.fail_to_pass, "pass_to_pass": spec.pass_to_pass}
        # Empty output counts as no result too.
        printed = b"" if parsed.exit_status != 0 or parsed.truncated else parsed.stdout
        found = await self.context.call(_GRADED, printed, {"spec": plain})
        rewards = found["rewards"] if found else swe_pro_results.rewards(plain, None)
        return Grade(
            is_resolved=bool(rewards["resolved"]),
            has_results=found is not None,
            fail_to_pass=rewards["fail_to_pass"],
            pass_to_pass=rewards["pass_to_pass"],
            failed=tuple(found["missing"] if found else swe_pro_results.missing(plain, ())),
            more_failed=found["more"] if found else 0,
        )


async def _prepare(room: Room, commit: str) -> None:
    for command in (("git", "reset", "--hard", commit), ("git", "checkout", commit)):
        ran = await git_answers.run(room, command)
        if ran.exit_status != 0:
            raise score.failure(f"{' '.join(command)} failed", ran)


async def _restore_tests(room: Room, answer: PatchAnswer, spec: SweBenchProTests, tests: bytes) -> None:
    """Put the solution's tests in place: from its commit, else from the patch of the tests."""
    if spec.restore:
        ran = await git_answers.run(room, ("/bin/bash", "--noprofile", "--norc", "-c", spec.restore))
        if ran.exit_status == 0:
            answer.facts["tests_from"] = "the solution's commit"
            return
    for name in spec.test_files:
        # Test files that the base commit lacks are new in the patch.
        taken = await git_answers.run(room, ("git", "checkout", spec.base_commit, "--", name))
        if taken.exit_status != 0:
            await git_answers.run(room, ("rm", "-rf", "--", name))
    path = await room.keep("tests.patch", tests)
    ran = await git_answers.run(room, ("git", "apply", "-v", path))
    if ran.exit_status != 0:
        raise score.failure("the patch of the tests does not apply; is it the scenario's image?", ran)
    answer.facts["tests_from"] = "the patch of the tests"


async def _run_tests(room: Room, spec: SweBenchProTests, script: bytes) -> RoomResult:
    path = await room.keep("run_script.sh", script)
    kept = await room.keep("entry.sh", entry(spec, shlex.quote(path)).encode())
    how = ProgramOptions(env={"BASH_ENV": "", "ENV": ""}, user=git_answers.ROOT, most_output=_MOST_LOG_BYTES)
    return await room.run(("/bin/bash", "--noprofile", "--norc", kept), how)


def entry(spec: SweBenchProTests, script: str) -> str:
    """Return the shell script that sets the item's variables and runs its script, found at `script`."""
    tests = shlex.quote(",".join(spec.tests_to_run))
    return "\n".join([*map(_export, spec.env_lines), f"exec bash {script} {tests}", ""])


def _export(line: str) -> str:
    """Turn an `ENV` line into a shell `export`; the old form has a blank instead of `=`."""
    rest = line.strip().removeprefix("ENV").strip()
    name = _NAME.match(rest)
    if name and not rest[name.end() :].startswith("="):
        return f"export {name[0]}={shlex.quote(rest[name.end() :].strip())}"
    return f"export {rest}"


_GRADING_LINES = """\
alone git reset --quiet --hard {commit} && alone git checkout --quiet {commit} || fail "$name: {commit}"
"$python" -I "$own/results.py" text "$work/drawn.diff" "$work/text.diff" || fail "$name: no patch"
alone git apply -v "$work/text.diff" 2>> "$logs/$name.err" || echo "the patch does not apply"
[ -s "$own/restore.sh" ] && alone bash --noprofile --norc "$own/restore.sh" 2>> "$logs/$name.err" || {{
    for path in {tests}; do
        alone git checkout --quiet {commit} -- "$path" 2>/dev/null || rm -rf -- "$path"
    done
    alone git apply -v "$own/{patch}" 2>> "$logs/$name.err" ||
        fail "$name: the patch of the tests does not apply"
}}
RUN_SCRIPT="$own/{run}" timeout -k 5 {seconds} bash --noprofile --norc "$own/entry.sh" \\
    > "$logs/$name.log" 2> "$work/stderr.log"
tail -c 20000 "$logs/$name.log"
"$python" -I -X utf8 "$own/{parser}" "$logs/$name.log" "$work/stderr.log" "$work/result.json" ||
    echo "the log has no results"
"$python" -I "$own/results.py" rewards "$own/{spec}" "$work/result.json" > "$logs/$name.out" ||
    fail "$name: it was not graded"
"""


def export(_scorer: Mapping[str, Any], attachments: Attachments, seconds: float) -> ScorerExport:
    """Export the tests of one item as a script."""
    try:
        files = {
            name: attachments[SWE_BENCH_ATTACHMENT][name] for name in (RUN_SCRIPT, PARSER, TESTS_PATCH, SPEC)
        }
        spec = SweBenchProTests.model_validate_json(files[SPEC].content)
    except (KeyError, ValueError) as error:
        raise UsageError(
            f"its attachment {SWE_BENCH_ATTACHMENT!r} is not as it should be: import it again"
        ) from error
    made = {
        **files,
        "restore.sh": PackedFile(spec.restore.encode()),
        "entry.sh": PackedFile(entry(spec, '"$RUN_SCRIPT"').encode()),
        "results.py": PackedFile(Path(swe_pro_results.__file__).read_bytes()),
    }
    graded = _GRADING_LINES.format(
        commit=spec.base_commit,
        tests=" ".join(map(shlex.quote, spec.test_files)),
        patch=TESTS_PATCH,
        run=RUN_SCRIPT,
        parser=PARSER,
        spec=SPEC,
        seconds=git_answers.seconds_for_tests(seconds),
    )
    text = git_answers.export_lines(spec.base_commit, graded)
    return ScorerExport(text, made, PythonNeeds(), user="root")
