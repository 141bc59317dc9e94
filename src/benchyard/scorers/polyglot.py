"""An exercise of Aider's Polyglot benchmark: its own tests over the sources that were left in its folder."""

import importlib
import marshal
import pkgutil
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from benchyard.errors import ScorerFailed, UsageError
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.attachments import MOST_PACKED_BYTES, PackedFile
from benchyard.models.base import Model
from benchyard.scorers import fields, polyglot_languages, polyglot_parsers, score
from benchyard.scorers.base import Context, How, Ran, Room, Scorer, Verdict
from benchyard.scorers.polyglot_languages.base import PRUNED_ANYWHERE, PRUNED_AT_THE_TOP, Language
from benchyard.workers import archives
from benchyard.workers.workers import SMALL_BYTES, Limits

ATTACHMENT = "exercise"
TIMED_OUT = "Tests timed out!"
_PLACE = "/tmp/polyglot"  # noqa: S108  it is the room's, made anew
_HOME = f"{_PLACE}/.home"
_NOBODY = "65534"
MOST_FILES = 500
MOST_BYTES = 16 * 1024**2
"""Of all files of an answer together: more earns nothing."""
_MOST_LISTED_BYTES = 1024**2
_MOST_EXERCISE_FILES = 2000
_NOT_SHOWN = re.compile(r"[^ -~]")
_MOST_OUTPUT = 1024**2
_NOT_FOUND = 127
_PARSERS = "benchyard.scorers.polyglot_parsers"
_LISTED, _TESTS, _OUTCOME = f"{_PARSERS}:listed", f"{_PARSERS}:tests_in", f"{_PARSERS}:outcome"
_UNTOLD, _REPLACED = f"{_PARSERS}:untold", f"{_PARSERS}:replaced"
_LIMITS = Limits(output_bytes=4 * 1024**2)
_REPLACED_LIMITS = Limits(output_bytes=MOST_PACKED_BYTES)
_TIMES = re.compile(r"\bin \d+\.\d+s\b")
_LOOK = 'for each; do command -v "$each" > /dev/null || { echo "$each"; exit 1; }; done'


_THERE = 'cd -- "$1" 2> /dev/null || exit 0; shift; exec "$@"'
"""A folder that was removed has no files."""
FIND = (
    "find",
    *(".", "-mindepth", "1", "("),
    *" -o ".join(
        [f"-name {name}" for name in PRUNED_ANYWHERE] + [f"-path ./{name}" for name in PRUNED_AT_THE_TOP]
    ).split(),
    *(")", "-prune"),
)
"""The files of an answer, up to what is done with each: what tools made is told by its folder's name."""


def languages() -> list[str]:
    """The languages there are."""
    found = (module.name for module in pkgutil.iter_modules(polyglot_languages.__path__))
    return sorted(name for name in found if name != "base")


def language(name: str) -> Language:
    """The language of that name."""
    module = importlib.import_module(f"benchyard.scorers.polyglot_languages.{name}")
    made: Language = getattr(module, f"{name.capitalize()}Language")()
    return made


def _known(value: str) -> str:
    if value not in languages():
        raise PydanticCustomError("language", "must be one of: {names}", {"names": ", ".join(languages())})
    return value


Inner = Annotated[fields.FilePlace, AfterValidator(lambda value: value.removeprefix("./"))]
Folder = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,99}$")]


class PolyglotConfig(Model):
    """What a `polyglot_scorer` is made of."""

    language: Annotated[str, AfterValidator(_known)]
    exercise: Folder
    """The folder that tests run in has its name: CMake makes names of files from it."""
    solution: list[Inner] = Field(min_length=1, max_length=100)
    """The files that were to be changed, from the working directory."""
    tests: list[Inner] = Field(default=[], max_length=500)
    """Files of the exercise that an answer never replaces, beside those that its language knows."""
    tools: Literal["image", "server"] = "image"
    """Whose compilers and test runners: the image's, or those that the server can bring."""


class TooLarge(Exception):
    """An answer that is larger than any solution is."""


@dataclass(frozen=True)
class Answer:
    """What is graded, and the files of the folder that are not."""

    files: Mapping[str, bytes]
    left_out: tuple[str, ...] = ()
    """The first of them."""
    left_out_total: int = 0


@dataclass(frozen=True)
class KnownTests:
    """What the test files of an exercise say."""

    names: tuple[str, ...] = ()
    """What they call their tests; none where that cannot be told in their language."""
    skips: int = 0
    """How often they speak of skipping."""


class PolyglotScorer(Scorer[PolyglotConfig]):
    """1.0 if the tests pass; they come from the scenario, and of the devbox only sources of its language.

    The official harness keeps every file that was made and puts the tests back. Here nothing of what the
    tools take for their settings is kept either, nor other tests. Tests that are not done when the scorer's
    time is over have failed: that is the official rule.
    """

    Config = PolyglotConfig

    def __init__(self, config: PolyglotConfig, context: Context) -> None:
        super().__init__(config, context)
        self._language = language(config.language)
        self._tools = self._language.image

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        if self.config.tools == "server":
            self._tools = await self._language.of_server(kits)
        return self._tools.kits

    async def score(self, room: Room) -> Verdict:
        try:
            files = await archives.files_of(await self.context.attached(ATTACHMENT), self.context.call)
        except UsageError as error:
            raise ScorerFailed(error.message, cause="scorer") from error
        if len(files) > _MOST_EXERCISE_FILES:
            told = f"an exercise has at most {_MOST_EXERCISE_FILES} files; this one has {len(files)}"
            raise ScorerFailed(told, cause="scorer")
        folder = f"{_PLACE}/{self.config.exercise}"
        await self._check_programs(room)
        try:
            answer = await self._answer(room, files)
        except TooLarge as error:
            return Verdict(0.0, str(error), self._facts(Answer({})))
        await self._lay_out(room, folder, files, answer)
        ran = await self._test(room, folder, self._language.command)
        return await self._judged(ran, folder, answer, await self._tests(files), room)

    async def _check_programs(self, room: Room) -> None:
        needed = ("find", *(() if self._tools.kits else self._language.programs))
        ran = await room.run(("/bin/sh", "-c", _LOOK, "sh", *needed), How(cwd="/"))
        if ran.exit_status:
            missing = ran.stdout.decode(errors="replace").strip()[:100] or "/bin/sh"
            raise score.failed(
                f"the image has no {missing}, which tests in {self.config.language} need; import with "
                "`--variant images`, or install it on the server",
                ran,
            )

    async def _answer(self, room: Room, files: Mapping[str, PackedFile]) -> Answer:
        """The sources in the working directory; raises TooLarge."""
        told = ("-printf", "%y %s %P\\0")
        find = (*FIND, *told, "-o", "!", "-type", "d", *told)
        how = How(cwd="/", user="root", most_output=_MOST_LISTED_BYTES)
        ran = await room.run(("/bin/sh", "-c", _THERE, "sh", room.working_directory, *find), how)
        if ran.timed_out or ran.exit_status:
            raise score.failed("the files of the answer could not be listed", ran)
        if len(ran.stdout) >= _MOST_LISTED_BYTES:
            raise TooLarge("the answer has more files than any solution has")
        rules = {
            "taken": self._language.taken,
            "solution": self.config.solution,
            "tests": self.config.tests,
            "sizes": {path: len(file.content) for path, file in files.items()},
            "most_files": MOST_FILES,
        }
        # What a worker handed on, a process of our own: nobody else can write this form.
        found = marshal.loads(await self.context.call(_LISTED, ran.stdout, rules, _LIMITS))  # noqa: S302
        chosen: dict[str, int] = found["chosen"]
        if len(chosen) > MOST_FILES or sum(chosen.values()) > MOST_BYTES:
            raise TooLarge(
                f"the answer has more than {MOST_FILES} source files or {MOST_BYTES} bytes of them"
            )
        changed = [path for path in found["same"] if not await self._is_untouched(room, path, files[path])]
        fetched = {path: await room.fetch(path, MOST_BYTES) for path in sorted(chosen)}
        return Answer(
            {path: content for path, content in fetched.items() if content is not None},
            tuple(sorted([*found["left_out"], *changed])),
            found["total"] + len(changed),
        )

    async def _is_untouched(self, room: Room, path: str, file: PackedFile) -> bool:
        """Whether it is a file of the exercise as the devbox had it at the start."""
        return len(file.content) <= MOST_BYTES and await room.fetch(path, MOST_BYTES) == file.content

    async def _tests(self, files: Mapping[str, PackedFile]) -> KnownTests:
        """The tests of the exercise, as their files call them."""
        contents = [files[path].content for path in self.config.tests if path in files]
        told = {"pattern": _text(self._language.test_names)}
        found = await self.context.call(_TESTS, polyglot_parsers.joined(contents), told)
        return KnownTests(tuple(found["names"]), found["skips"])

    async def _lay_out(
        self, room: Room, folder: str, files: Mapping[str, PackedFile], answer: Answer
    ) -> None:
        """Make a pristine exercise, with what was answered in its place."""
        await room.clear(_PLACE)
        for made in (folder, _HOME):
            await room.clear(made, _NOBODY)
        for path, file in files.items():
            if path not in answer.files and path not in self.config.solution:
                content = await self._prepared(path, file.content)
                await room.put(f"{folder}/{path}", content, mode=file.mode)
        for path, content in answer.files.items():
            await room.put(f"{folder}/{path}", content)

    async def _prepared(self, path: str, content: bytes) -> bytes:
        """A file of the exercise as the official harness runs it; large ones are for workers."""
        if self._language.replaced is None or len(content) <= SMALL_BYTES:
            return self._language.prepared(path, content)
        ending, pattern, by = self._language.replaced
        if not path.endswith(ending):
            return content
        told = {"pattern": _text(pattern), "by": by.decode()}
        made: bytes = await self.context.call(_REPLACED, content, told, _REPLACED_LIMITS)
        return made

    async def _test(self, room: Room, folder: str, command: str) -> Ran:
        script = f"exec 2>&1\n{command}\n"
        environment = {"HOME": _HOME, "LC_ALL": "C.UTF-8", **self._tools.values}
        how = How(env=environment, cwd=folder, user=_NOBODY, most_output=_MOST_OUTPUT)
        return await room.run(("/bin/sh", "-c", script), how)

    def _facts(self, answer: Answer) -> dict[str, str]:
        facts = {"language": self.config.language, "tools": self.config.tools}
        if self._tools.substitutes:
            facts["substitutes"] = "; ".join(self._tools.substitutes)
        if answer.left_out:
            named = answer.left_out[: polyglot_parsers.MOST_LEFT_OUT]
            shown = [_NOT_SHOWN.sub("?", path[:200]) for path in named]
            more = answer.left_out_total - len(shown)
            facts["left_out"] = ", ".join([*shown, *([f"and {more} more"] if more else [])])
        return facts

    async def _judged(self, ran: Ran, folder: str, answer: Answer, tests: KnownTests, room: Room) -> Verdict:
        facts = self._facts(answer)
        if ran.timed_out:
            return Verdict(0.0, TIMED_OUT, facts)
        output = tidied(score.output(ran), folder, self.config.exercise)
        if ran.exit_status == _NOT_FOUND:
            raise ScorerFailed(f"tests in {self.config.language} cannot run in this room", output=output)
        found = await self.context.call(_OUTCOME, ran.stdout, self._patterns(tests))
        if ran.exit_status == 0 and not found["passed"]:
            facts["suspicious"] = "the tests exited with 0 and did not say that they passed"
        passed = ran.exit_status == 0 and found["passed"]
        suspect = None
        if passed and not found["complete"]:
            suspect = "the tests are told as passed, and their runner did not print that it ran them"
        elif passed and self._language.list_command and tests.names:
            suspect = await self._untold(room, folder, tests)
        if skipped := found["skipped"]:
            facts["skipped"] = str(skipped)
            if skipped > tests.skips:
                suspect = f"{skipped} of the tests were skipped, which they do not ask for"
        return Verdict(1.0 if passed else 0.0, output, facts, suspect=suspect)

    def _patterns(self, tests: KnownTests) -> dict[str, object]:
        """What is looked for in the output of the official command."""
        own = self._language
        return {
            "passed": _text(own.passed),
            "complete": [_text(each) for each in own.complete],
            "outcomes": _text(own.outcomes),
            "skipped": _text(own.skipped),
            "tests": len(tests.names) if tests.names and own.list_command is None else None,
        }

    async def _untold(self, room: Room, folder: str, tests: KnownTests) -> str | None:
        """Run tests that passed once more, so that the runner tells of each; why that does not show them."""
        ran = await self._test(room, folder, self._language.list_command or "")
        if ran.timed_out:
            return "the tests are told as passed, and did not end when they were run again to be listed"
        told = {"pattern": _text(self._language.list_names), "names": tests.names}
        missing = await self.context.call(_UNTOLD, ran.stdout, told)
        if not missing:
            return None
        return f"the tests are told as passed, and their runner does not tell of {', '.join(missing)[:200]}"


def _text(pattern: re.Pattern[bytes] | None) -> str | None:
    """A pattern as workers get it."""
    return pattern.pattern.decode() if pattern else None


def tidied(output: str, folder: str, exercise: str) -> str:
    """Output as the official harness shows it: without times, and without where it ran."""
    return _TIMES.sub("", output).replace(folder, exercise)
