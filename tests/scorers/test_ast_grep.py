"""ast-grep: what it finds, what it must not listen to, and what it says of mistakes."""

from typing import Any

from benchyard.devboxes.base import Capability
from benchyard.errors import ScorerFailed
from benchyard.scorers.base import Verdict
from benchyard.testing.contracts.driver_fixture import DriverFixture, contract
from benchyard.testing.contracts.scorer import GradingCase, GradingSuite
from tests.scorers.bare import InBareImage

FILES = {"src/main.py": "def main():\n    measure(1)\n", "src/page.js": "measure(2);\n"}


def search(
    pattern: str, directory: str = ".", files: dict[str, str] | None = None, **fields: Any
) -> GradingCase:
    return GradingCase(
        {"pattern": pattern, "search_directory": directory, **fields}, FILES if files is None else files
    )


class TestSearching(InBareImage):
    type = "ast_grep_scorer"

    @contract(Capability.IMAGES)
    async def test_it_searches_where_there_is_nothing_but_files(self, yard: DriverFixture) -> None:
        graded = await self.grade(
            yard,
            search("measure($A)"),
            search("measure(1)", "src", lang="python"),
            search("measure(1)", "/tmp/task/src/main.py"),
            search("measure(2)", lang="python"),
            search("measure(3)"),
            search("-measure(1)", lang="python"),
        )
        assert [each.score for each in graded if isinstance(each, Verdict)] == [1, 1, 1, 0, 0, 0], graded
        assert isinstance(graded[1], Verdict)
        assert graded[1].output == "src/main.py\n"

    @contract(Capability.IMAGES)
    async def test_mistakes_are_errors_in_its_own_words(self, yard: DriverFixture) -> None:
        told = {
            "is not supported": search("measure($A)", lang="klingon"),
            "Multiple AST nodes": search("a; b; c", lang="python"),
            "ERROR node": search("def (((", lang="python"),
            "No such file": search("measure($A)", "no/such/folder"),
            "No such file or directory (os error 2)": search("measure($A)", "-x"),
        }
        for words, graded in zip(told, await self.grade(yard, *told.values()), strict=True):
            assert isinstance(graded, ScorerFailed), (words, graded)
            assert words in graded.message

    @contract(Capability.IMAGES)
    async def test_a_configuration_among_the_files_is_not_honoured(self, yard: DriverFixture) -> None:
        config = "ruleDirs: []\nlanguageGlobs:\n  python: ['*.txt']\n"
        files = {"sgconfig.yml": config, "notes.txt": "measure(1)\n"}
        assert await self.scores(yard, search("measure(1)", files=files, lang="python")) == [0.0]

    @contract(Capability.IMAGES)
    async def test_many_matches_are_few_lines(self, yard: DriverFixture) -> None:
        (graded,) = await self.grade(yard, search("measure($A)", files={"a.py": "measure(1)\n" * 100_000}))
        assert isinstance(graded, Verdict)
        assert (graded.score, graded.output) == (1.0, "a.py\n")


class TestNoShell(InBareImage):
    type = "command_scorer"

    @contract(Capability.IMAGES)
    async def test_commands_need_a_shell_and_say_so(self, yard: DriverFixture) -> None:
        (graded,) = await self.grade(yard, GradingCase({"command": "true"}))
        assert isinstance(graded, ScorerFailed)
        assert "neither /bin/bash nor /bin/sh" in graded.message


class TestCustomMissing(GradingSuite):
    type = "custom_scorer"

    @contract()
    async def test_a_type_that_is_not_registered_is_named(self, yard: DriverFixture) -> None:
        (graded,) = await self.grade(yard, GradingCase({"custom_scorer_type": "mine"}))
        assert isinstance(graded, ScorerFailed)
        assert "'mine'" in graded.message
