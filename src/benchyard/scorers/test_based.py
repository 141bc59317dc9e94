"""Test files that are put into the devbox for grading, and a command that runs them."""

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from benchyard.models.base import Model
from benchyard.scorers import base, reports, script
from benchyard.scorers.base import GraderConfig, Room, Scorer, Verdict
from benchyard.scorers.standalone.report_counts import MOST_BYTES

MOST_FILES = 1000
MOST_FILE_BYTES = 16 * 1024**2


class TestFile(Model):
    """A file; its path begins at the working directory unless it is absolute."""

    __test__ = False
    file_path: base.FilePath
    file_contents: str | None = None

    @property
    def content(self) -> bytes:
        """Content to write."""
        return (self.file_contents or "").encode()


def _bounded(files: list[TestFile]) -> list[TestFile]:
    if sum(len(file.content) for file in files) > MOST_FILE_BYTES:
        raise PydanticCustomError("too_large", "must be at most 16 MiB together")
    return files


TestFiles = Annotated[list[TestFile], Field(max_length=MOST_FILES), AfterValidator(_bounded)]


class TestBasedConfig(GraderConfig):
    """Fields of a `test_based_scorer`."""

    __test__ = False
    test_command: base.Script
    test_files: TestFiles | None = None
    report_tests: Annotated[int, Field(ge=0)] | None = None
    """Number of tests the runner's report must list (an extension), if the command makes it leave one.

    0 allows any number; None requires as many as the reference's report lists, if that is known.
    """


class TestBasedScorer(Scorer[TestBasedConfig]):
    """Gives 1.0 if the command exits with 0; the test files replace files of the same name."""

    __test__ = False
    Config = TestBasedConfig
    uses_shell = True

    async def score(self, room: Room) -> Verdict:
        for file in self.config.test_files or ():
            await room.put(file.file_path, file.content)
        place = reports.place_of(self.config.test_command)
        before = await room.fetch(place, MOST_BYTES) if place else None
        verdict = await script.status_verdict(room, self.config.test_command, self.context)
        if place is None:
            return reports.check_closing_line(self.config.test_command, verdict)
        count = self.config.report_tests
        return await reports.check(room, place, verdict, self.context, before=before, wanted=count)
