"""An exercise of Aider's Polyglot benchmark: its own tests over the files that were to be changed."""

import importlib
import pkgutil
import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.attachments import PackedFile, unpacked
from benchyard.models.base import Model
from benchyard.scorers import fields, polyglot_languages, score
from benchyard.scorers.base import Context, How, Ran, Room, Scorer, Verdict
from benchyard.scorers.polyglot_languages.base import Language

ATTACHMENT = "exercise"
TIMED_OUT = "Tests timed out!"
_PLACE = "/tmp/polyglot"  # noqa: S108  it is the room's, made anew
_HOME = f"{_PLACE}/.home"
_NOBODY = "65534"
_MOST_FILE_BYTES = 4 * 1024**2
_MOST_OUTPUT = 1024**2
_NOT_FOUND = 127
_TIMES = re.compile(r"\bin \d+\.\d+s\b")
_LOOK = 'for each; do command -v "$each" > /dev/null || { echo "$each"; exit 1; }; done'


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
    tools: Literal["image", "server"] = "image"
    """Whose compilers and test runners: the image's, or those that the server can bring."""


class PolyglotScorer(Scorer[PolyglotConfig]):
    """1.0 if the tests pass; they come from the scenario, and of the devbox only the solution's files.

    Tests that are not done when the scorer's time is over have failed: that is the official rule.
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
        files = dict(unpacked(await self.context.attached(ATTACHMENT)))
        folder = f"{_PLACE}/{self.config.exercise}"
        await self._check_programs(room)
        await self._lay_out(room, folder, files)
        ran = await self._test(room, folder)
        return self._judged(ran, folder)

    async def _check_programs(self, room: Room) -> None:
        if self._tools.kits:
            return
        ran = await room.run(("/bin/sh", "-c", _LOOK, "sh", *self._language.programs), How(cwd="/"))
        if ran.exit_status:
            missing = ran.stdout.decode(errors="replace").strip()[:100] or "/bin/sh"
            raise score.failed(
                f"the image has no {missing}, which tests in {self.config.language} need; import with "
                "`--variant images`, or install it on the server",
                ran,
            )

    async def _lay_out(self, room: Room, folder: str, files: dict[str, PackedFile]) -> None:
        """A pristine exercise, with what was answered in its place."""
        answers = {path: await room.fetch(path, _MOST_FILE_BYTES) for path in self.config.solution}
        await room.clear(_PLACE)
        for made in (folder, _HOME):
            await room.clear(made, _NOBODY)
        for path, file in files.items():
            if path not in answers:
                content = self._language.prepared(path, file.content)
                await room.put(f"{folder}/{path}", content, mode=file.mode)
        for path, answer in answers.items():
            if answer is not None:
                await room.put(f"{folder}/{path}", answer)

    async def _test(self, room: Room, folder: str) -> Ran:
        script = f"exec 2>&1\n{self._language.command}\n"
        environment = {"HOME": _HOME, "LC_ALL": "C.UTF-8", **self._tools.values}
        how = How(env=environment, cwd=folder, user=_NOBODY, most_output=_MOST_OUTPUT)
        return await room.run(("/bin/sh", "-c", script), how)

    def _judged(self, ran: Ran, folder: str) -> Verdict:
        facts = {"language": self.config.language, "tools": self.config.tools}
        if self._tools.substitutes:
            facts["substitutes"] = "; ".join(self._tools.substitutes)
        if ran.timed_out:
            return Verdict(0.0, TIMED_OUT, facts)
        output = tidied(score.output(ran), folder, self.config.exercise)
        if ran.exit_status == _NOT_FOUND:
            raise ScorerFailed(f"tests in {self.config.language} cannot run in this room", output=output)
        ended = bool(self._language.passed.search(ran.stdout))
        if ran.exit_status == 0 and not ended:
            facts["suspicious"] = "the tests exited with 0 and did not say that they passed"
        return Verdict(1.0 if ran.exit_status == 0 and ended else 0.0, output, facts)


def tidied(output: str, folder: str, exercise: str) -> str:
    """Output as the official harness shows it: without times, and without where it ran."""
    return _TIMES.sub("", output).replace(folder, exercise)
