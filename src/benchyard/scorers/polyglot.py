"""Exercises of Aider's Polyglot benchmark: their own tests, run on sources and data from the folder."""

import marshal
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from benchyard.errors import ScorerFailed, UsageError
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import Model
from benchyard.models.scoring.attachments import MOST_PACKED_BYTES, PackedFile
from benchyard.models.scoring.exports import Attachments, ScorerExport
from benchyard.scorers import base, score
from benchyard.scorers.base import ProgramOptions, Room, RoomResult, Scorer, ScoringContext, Verdict
from benchyard.scorers.polyglot_toolchains import LANGUAGES, PRUNED_ANYWHERE, PRUNED_AT_THE_TOP, Language
from benchyard.scorers.standalone import polyglot_parsers
from benchyard.workers import foreign_files
from benchyard.workers.workers import SMALL_BYTES, WorkerLimits

ATTACHMENT = "exercise"
TIMED_OUT = "Tests timed out!"
_PLACE = "/tmp/polyglot"  # noqa: S108  it is the room's, made anew
_HOME = f"{_PLACE}/.home"
_NOBODY = "65534"
MOST_FILES = 500
MOST_BYTES = 16 * 1024**2
"""Most bytes of all files of an answer together; a larger answer earns nothing."""
_MOST_LISTED_BYTES = 1024**2
_MOST_EXERCISE_FILES = 2000
_NOT_SHOWN = re.compile(r"[^ -~]")
_MOST_OUTPUT = 1024**2
_NOT_FOUND = 127
_PARSERS = "benchyard.scorers.standalone.polyglot_parsers"
_LISTED, _TESTS, _OUTCOME = f"{_PARSERS}:listed", f"{_PARSERS}:tests_in", f"{_PARSERS}:outcome"
_UNTOLD, _REPLACED = f"{_PARSERS}:untold", f"{_PARSERS}:replaced"
_LIMITS = WorkerLimits(output_bytes=4 * 1024**2)
_REPLACED_LIMITS = WorkerLimits(output_bytes=MOST_PACKED_BYTES)
_TIMES = re.compile(r"\bin \d+\.\d+s\b")
_LOOK = 'for each; do command -v "$each" > /dev/null || { echo "$each"; exit 1; }; done'


_THERE = 'cd -- "$1" 2> /dev/null || exit 0; shift; exec "$@"'
"""Lists no files if the folder was removed."""
FIND = (
    "find",
    *(".", "-mindepth", "1", "("),
    *" -o ".join(
        [f"-name {name}" for name in PRUNED_ANYWHERE] + [f"-path ./{name}" for name in PRUNED_AT_THE_TOP]
    ).split(),
    *(")", "-prune"),
)
"""`find` command for the files of an answer, without actions; prunes folders of generated files by name."""


def languages() -> list[str]:
    """Return the names of the languages."""
    return sorted(LANGUAGES)


def language(name: str) -> Language:
    """Return the language of that name."""
    return LANGUAGES[name]()


def _known(value: str) -> str:
    if value not in languages():
        raise PydanticCustomError("language", "must be one of: {names}", {"names": ", ".join(languages())})
    return value


Inner = Annotated[base.FilePath, AfterValidator(lambda value: value.removeprefix("./"))]
Folder = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,99}$")]


class PolyglotConfig(Model):
    """Fields of a `polyglot_scorer`."""

    language: Annotated[str, AfterValidator(_known)]
    exercise: Folder
    """Name of the folder that tests run in: CMake derives names of files from it."""
    solution: list[Inner] = Field(min_length=1, max_length=100)
    """Files that the answer was to change, relative to the working directory."""
    tests: list[Inner] = Field(default=[], max_length=500)
    """Files of the exercise that an answer never replaces, in addition to those reserved by its language."""
    tools: Literal["image", "server"] = "image"
    """Origin of compilers and test runners: the image, or kits of the server."""


class AnswerTooLarge(Exception):
    """Raised for an answer that is larger than any solution is."""


@dataclass(frozen=True)
class ExerciseAnswer:
    """Files that are graded, and paths of the folder that are not."""

    files: Mapping[str, bytes]
    left_out: tuple[str, ...] = ()
    """First of the paths that are not graded."""
    left_out_total: int = 0


@dataclass(frozen=True)
class KnownTests:
    """Facts read from the test files of an exercise."""

    names: tuple[str, ...] = ()
    """Names of the tests; empty if the language's test files do not show them."""
    skips: int = 0
    """Occurrences of the word "skip"."""


class PolyglotScorer(Scorer[PolyglotConfig]):
    """Gives 1.0 if the tests pass, which come from the scenario; only sources and data are the answer.

    The official harness keeps every file that was made and puts the tests back. Here neither files that
    configure the tools nor additional tests are kept. As in the official rule, tests that do not end within
    the scorer's time have failed.
    """

    Config = PolyglotConfig

    def __init__(self, config: PolyglotConfig, context: ScoringContext) -> None:
        super().__init__(config, context)
        self._language = language(config.language)
        self._tools = self._language.image

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        if self.config.tools == "server":
            self._tools = await self._language.of_server(kits)
        return self._tools.kits

    async def score(self, room: Room) -> Verdict:
        try:
            files = await foreign_files.archive_files(
                await self.context.attached(ATTACHMENT), self.context.call
            )
        except UsageError as error:
            raise ScorerFailed(error.message, cause="scorer") from error
        if len(files) > _MOST_EXERCISE_FILES:
            text = f"an exercise has at most {_MOST_EXERCISE_FILES} files; this one has {len(files)}"
            raise ScorerFailed(text, cause="scorer")
        folder = f"{_PLACE}/{self.config.exercise}"
        await self._check_programs(room)
        try:
            answer = await self._answer(room, files)
        except AnswerTooLarge as error:
            return Verdict(0.0, str(error), self._facts(ExerciseAnswer({})))
        await self._lay_out(room, folder, files, answer)
        ran = await self._test(room, folder, self._language.command)
        return await self._judged(ran, folder, answer, await self._tests(files), room)

    async def _check_programs(self, room: Room) -> None:
        needed = ("find", *(() if self._tools.kits else self._language.programs))
        ran = await room.run(("/bin/sh", "-c", _LOOK, "sh", *needed), ProgramOptions(cwd="/"))
        if ran.exit_status:
            missing = ran.stdout.decode(errors="replace").strip()[:100] or "/bin/sh"
            raise score.failure(
                f"the image has no {missing}, which tests in {self.config.language} need; import with "
                "`--variant images`, or install it on the server",
                ran,
            )

    async def _answer(self, room: Room, files: Mapping[str, PackedFile]) -> ExerciseAnswer:
        """Return the sources and data in the working directory; raises AnswerTooLarge."""
        format = ("-printf", "%y %s %P\\0")
        find = (*FIND, *format, "-o", "!", "-type", "d", *format)
        how = ProgramOptions(cwd="/", user="root", most_output=_MOST_LISTED_BYTES)
        ran = await room.run(("/bin/sh", "-c", _THERE, "sh", room.working_directory, *find), how)
        if ran.timed_out or ran.exit_status:
            raise score.failure("the files of the answer could not be listed", ran)
        if len(ran.stdout) >= _MOST_LISTED_BYTES:
            raise AnswerTooLarge("the answer has more files than any solution has")
        rules = {
            "taken": self._language.taken,
            "solution": self.config.solution,
            "tests": self.config.tests,
            "sizes": {path: len(file.content) for path, file in files.items()},
            "most_files": MOST_FILES,
        }
        # Safe to unmarshal: the bytes were written by our own worker process, not by the answer.
        listing = marshal.loads(await self.context.call(_LISTED, ran.stdout, rules, _LIMITS))  # noqa: S302
        chosen: dict[str, int] = listing["chosen"]
        if len(chosen) > MOST_FILES or sum(chosen.values()) > MOST_BYTES:
            raise AnswerTooLarge(
                f"the answer has more than {MOST_FILES} files or {MOST_BYTES} bytes of sources and data"
            )
        changed = [path for path in listing["same"] if not await self._is_untouched(room, path, files[path])]
        fetched = {path: await room.fetch(path, MOST_BYTES) for path in sorted(chosen)}
        return ExerciseAnswer(
            {path: content for path, content in fetched.items() if content is not None},
            tuple(sorted([*listing["left_out"], *changed])),
            listing["total"] + len(changed),
        )

    async def _is_untouched(self, room: Room, path: str, file: PackedFile) -> bool:
        """Tell whether a file of the exercise still has the content it had at the start."""
        return len(file.content) <= MOST_BYTES and await room.fetch(path, MOST_BYTES) == file.content

    async def _tests(self, files: Mapping[str, PackedFile]) -> KnownTests:
        """Return the names of the exercise's tests and how often its test files say "skip"."""
        contents = [files[path].content for path in self.config.tests if path in files]
        parameters = {"pattern": _text(self._language.test_names)}
        names = await self.context.call(_TESTS, polyglot_parsers.joined(contents), parameters)
        return KnownTests(tuple(names["names"]), names["skips"])

    async def _lay_out(
        self, room: Room, folder: str, files: Mapping[str, PackedFile], answer: ExerciseAnswer
    ) -> None:
        """Lay out a pristine exercise with the answer's files in it."""
        await room.clear(_PLACE)
        for folder_made in (folder, _HOME):
            await room.clear(folder_made, _NOBODY)
        for path, file in files.items():
            if path not in answer.files and path not in self.config.solution:
                content = await self._prepared(path, file.content)
                await room.put(f"{folder}/{path}", content, mode=file.mode)
        for path, content in answer.files.items():
            await room.put(f"{folder}/{path}", content)

    async def _prepared(self, path: str, content: bytes) -> bytes:
        """Return a file of the exercise as the official harness runs it; a worker changes large files."""
        if self._language.replaced is None or len(content) <= SMALL_BYTES:
            return self._language.prepared(path, content)
        ending, pattern, by = self._language.replaced
        if not path.endswith(ending):
            return content
        parameters = {"pattern": _text(pattern), "by": by.decode()}
        prepared: bytes = await self.context.call(_REPLACED, content, parameters, _REPLACED_LIMITS)
        return prepared

    async def _test(self, room: Room, folder: str, command: str) -> RoomResult:
        script = f"exec 2>&1\n{command}\n"
        environment = {"HOME": _HOME, "LC_ALL": "C.UTF-8", **self._tools.values}
        how = ProgramOptions(env=environment, cwd=folder, user=_NOBODY, most_output=_MOST_OUTPUT)
        return await room.run(("/bin/sh", "-c", script), how)

    def _facts(self, answer: ExerciseAnswer) -> dict[str, str]:
        facts = {"language": self.config.language, "tools": self.config.tools}
        if self._tools.substitutes:
            facts["substitutes"] = "; ".join(self._tools.substitutes)
        if answer.left_out:
            named = answer.left_out[: polyglot_parsers.MOST_LEFT_OUT]
            shown = [_NOT_SHOWN.sub("?", path[:200]) for path in named]
            more = answer.left_out_total - len(shown)
            facts["left_out"] = ", ".join([*shown, *([f"and {more} more"] if more else [])])
        return facts

    async def _judged(
        self, ran: RoomResult, folder: str, answer: ExerciseAnswer, tests: KnownTests, room: Room
    ) -> Verdict:
        facts = self._facts(answer)
        if ran.timed_out:
            return Verdict(0.0, TIMED_OUT, facts)
        output = tidy(score.output(ran), folder, self.config.exercise)
        if ran.exit_status == _NOT_FOUND:
            raise ScorerFailed(f"tests in {self.config.language} cannot run in this room", output=output)
        outcome = await self.context.call(_OUTCOME, ran.stdout, self._patterns(tests))
        if ran.exit_status == 0 and not outcome["passed"]:
            facts["suspicious"] = "the tests exited with 0 and did not say that they passed"
        passed = ran.exit_status == 0 and outcome["passed"]
        suspect = None
        if passed and not outcome["complete"]:
            suspect = "the tests are reported as passed, and their runner did not print that it ran them"
        elif passed and self._language.list_command and tests.names:
            suspect = await self._untold(room, folder, tests)
        if skipped := outcome["skipped"]:
            facts["skipped"] = str(skipped)
            if skipped > tests.skips:
                suspect = f"{skipped} of the tests were skipped, which they do not ask for"
        return Verdict(1.0 if passed else 0.0, output, facts, suspect=suspect)

    def _patterns(self, tests: KnownTests) -> dict[str, object]:
        """Return the patterns to look for in the output of the official command."""
        own = self._language
        return {
            "passed": _text(own.passed),
            "complete": [_text(pattern) for pattern in own.complete],
            "outcomes": _text(own.outcomes),
            "skipped": _text(own.skipped),
            "tests": len(tests.names) if tests.names and own.list_command is None else None,
        }

    async def _untold(self, room: Room, folder: str, tests: KnownTests) -> str | None:
        """Run passed tests once more to have each listed; return a reason for suspicion, or None."""
        ran = await self._test(room, folder, self._language.list_command or "")
        if ran.timed_out:
            return "the tests are reported as passed, and did not end when they were run again to be listed"
        parameters = {"pattern": _text(self._language.list_names), "names": tests.names}
        missing = await self.context.call(_UNTOLD, ran.stdout, parameters)
        if not missing:
            return None
        return f"the tests are reported as passed, and their runner does not list {', '.join(missing)[:200]}"


def _text(pattern: re.Pattern[bytes] | None) -> str | None:
    """Return a pattern as the text that workers take."""
    return pattern.pattern.decode() if pattern else None


def tidy(output: str, folder: str, exercise: str) -> str:
    """Return output as the official harness shows it: without times, and without the folder it ran in."""
    return _TIMES.sub("", output).replace(folder, exercise)


_AROUND_SECONDS = 60
_SCRIPT = """\
top=$(mktemp -d) && place=$top/{exercise} || exit 1
mkdir "$top/.home" && cp "$own/test.sh" "$top" && cp -R -- "$own/exercise" "$place" ||
    fail "$name: the exercise cannot be laid out"
# Of the answer only sources and data count: no tests, and nothing that tools take for their settings.
{find} -o -type f -printf '%P\\n' > "$top/.listed"
{{
    LC_ALL=C grep -aPx {taken} "$top/.listed" | grep -avxF {tests}
    grep -axF {solution} "$top/.listed"
}} | sort -u > "$top/.taken"
large=
[ "$(wc -l < "$top/.taken")" -le {most_files} ] || large=1
left={most_bytes}
while [ -z "$large" ] && IFS= read -r path; do
    left=$((left - $(stat -c %s -- "$path")))
    [ "$left" -ge 0 ] || {{ large=1; break; }}
    mkdir -p -- "$(dirname -- "$place/$path")" && cp -- "$path" "$place/$path" || fail "$path"
done < "$top/.taken"
as=
if [ "$(id -u)" -eq 0 ]; then
    chown -R 65534:65534 "$top" && as="setpriv --reuid=65534 --regid=65534 --clear-groups"
fi
if [ -n "$large" ]; then
    echo "the answer has more than {most_files} files or {most_bytes} bytes of them" > "$logs/$name.out"
    status=1
else
    (cd -- "$place" && exec $as env HOME="$top/.home" LC_ALL=C.UTF-8 {values} \\
        timeout -k 5 {seconds} /bin/sh ../test.sh) > "$logs/$name.out" 2>&1
    status=$?
fi
told "$name"
[ "$status" -ne 127 ] || fail "$name: tests in {language} cannot run in this image"
[ "$status" -ne 124 ] && [ "$status" -ne 137 ] || echo {timed_out}
# Who only leaves with 0 has not passed: the runner of the tests must have said so.
[ "$status" -ne 0 ] || grep -aPq {passed} "$logs/$name.out" || status=1
passed "$name" "$weight" "$status"
"""


def export(scorer: Mapping[str, Any], attachments: Attachments, seconds: float) -> ScorerExport:
    """Export the tests of one exercise as a script."""
    config = PolyglotConfig.model_validate(dict(scorer))
    if config.tools != "image":
        raise UsageError(
            "its tests run with the tools of this server, which no image has; import the benchmark with "
            "`--variant images`, and export that"
        )
    if ATTACHMENT not in attachments:
        raise UsageError(f"its attachment {ATTACHMENT!r} is missing; import it again")
    spoken = language(config.language)
    exercise = {
        f"exercise/{path}": PackedFile(spoken.prepared(path, file.content), file.mode)
        for path, file in attachments[ATTACHMENT].items()
        if path not in config.solution
    }
    find = " ".join(word if word == "-o" else shlex.quote(word) for word in FIND)
    script = _SCRIPT.format(
        find=find,
        taken=shlex.quote(spoken.taken),
        tests=" ".join(f"-e {shlex.quote(path)}" for path in config.tests or [""]),
        most_files=MOST_FILES,
        most_bytes=MOST_BYTES,
        exercise=config.exercise,
        solution=" ".join(f"-e {shlex.quote(path)}" for path in config.solution),
        values=" ".join(f"{name}={shlex.quote(value)}" for name, value in spoken.image.values.items()),
        seconds=round(seconds),
        language=config.language,
        timed_out=shlex.quote(TIMED_OUT),
        passed=shlex.quote(spoken.passed.pattern.decode()),
    )
    files = {**exercise, "test.sh": PackedFile(f"{spoken.command}\n".encode())}
    return ScorerExport(script, files, user="root", around_sec=_AROUND_SECONDS)
