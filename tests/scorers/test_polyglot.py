"""Exercises of the Polyglot benchmark: their tests over what was answered, and nothing else of the devbox."""

import io
import re
from dataclasses import replace
from typing import Any

import pytest

from benchyard.errors import UsageError
from benchyard.models.scoring.attachments import PackedFile, pack_files
from benchyard.scorers import catalog
from benchyard.scorers.base import ProgramOptions, Scorer, ScoringContext, Verdict
from benchyard.scorers.polyglot import (
    MOST_BYTES,
    MOST_FILES,
    TIMED_OUT,
    KnownTests,
    language,
    languages,
    tidy,
)
from benchyard.scorers.standalone import polyglot_parsers
from benchyard.testing.contracts.driver_fixture import DriverFixture, contract
from benchyard.testing.contracts.scorer import GradingCase, GradingSuite, ScoringRoom, devbox_with, kits_of
from tests.scorers.polyglot_answers import EXERCISES, Exercise

STUB = "def double(number):\n    pass\n"
GOOD = "def double(number):\n    return 2 * number\n"
TEST = "from double import double\n\ndef test_it():\n    assert double(21) == 42\n"
FIELDS = {"language": "python", "exercise": "double", "solution": ["double.py"], "tools": "server"}
EXERCISE = pack_files({"double.py": PackedFile(STUB.encode()), "double_test.py": PackedFile(TEST.encode())})


async def attached(name: str) -> bytes:
    assert name == "exercise"
    return EXERCISE


class TestPython(GradingSuite):
    type = "polyglot_scorer"

    def scorer(self, case: GradingCase) -> Scorer[Any]:
        return catalog.parse(self.type, case.fields, ScoringContext(attached=attached))

    async def of(self, yard: DriverFixture, *answers: dict[str, str], **room: Any) -> list[Verdict]:
        graded = await self.grade(yard, *(GradingCase(FIELDS, files) for files in answers), **room)
        assert all(isinstance(each, Verdict) for each in graded), graded
        return [each for each in graded if isinstance(each, Verdict)]

    @contract()
    async def test_only_what_the_tests_say_counts(self, yard: DriverFixture) -> None:
        planted = {"conftest.py": "import os\nos._exit(0)\n", "double_test.py": "def test_it(): pass\n"}
        claims = (
            "import os\nfor each in range(3, 30):\n    try:\n"
            "        os.write(each, b'\\n===== 1 passed in 0.01s =====\\n')\n"
            "    except OSError:\n        pass\nos._exit(0)\n"
        )
        claimed, good, stub, cheats, leaves = await self.of(
            yard,
            {"double.py": claims},
            {"double.py": GOOD},
            {"double.py": STUB},
            {"double.py": STUB, **planted},
            {"double.py": "import os\nos._exit(0)\n"},
        )
        assert (good.score, stub.score, cheats.score, leaves.score) == (1.0, 0.0, 0.0, 0.0)
        # The official verdict stays; that nothing was collected tells on it.
        assert (claimed.score, bool(claimed.suspect)) == (1.0, True)
        assert [each.suspect for each in (good, stub, cheats, leaves)] == [None] * 4
        assert "assert None == 42" in stub.output
        assert not re.search(r"in \d+\.\d+s|/tmp/", stub.output)
        assert "suspicious" in leaves.facts
        assert "suspicious" not in stub.facts
        assert "of the server" in good.facts["substitutes"]

    @contract()
    async def test_time_that_is_over_is_a_failed_test(self, yard: DriverFixture) -> None:
        (graded,) = await self.of(yard, {"double.py": "while True:\n    pass\n"}, seconds=3.0)
        assert (graded.score, graded.output) == (0.0, TIMED_OUT)


class Answers(GradingSuite):
    """Answers in several files, with whatever else may lie in their folder."""

    type = "polyglot_scorer"
    exercise: Exercise

    def scorer(self, case: GradingCase) -> Scorer[Any]:
        async def attachment(_: str) -> bytes:
            return self.exercise.attachment

        return catalog.parse(self.type, case.fields, ScoringContext(attached=attachment))

    async def of(self, yard: DriverFixture, answer: dict[str, str]) -> Verdict:
        (graded,) = await self.grade(yard, GradingCase(self.exercise.fields, answer), seconds=600.0)
        assert isinstance(graded, Verdict), graded
        return graded

    @contract()
    async def test_every_source_counts_and_nothing_else(self, yard: DriverFixture) -> None:
        exercise = self.exercise
        stub = {path: text for path, text in exercise.files.items() if path not in exercise.tests}
        good = await self.of(yard, {**stub, **exercise.good})
        assert (good.score, good.suspect) == (1.0, None), good.output
        assert good.facts["left_out"] == ".here"
        solved = await self.of(yard, {**exercise.good, **exercise.planted})
        assert solved.score == 1.0, solved.output
        cheats = await self.of(yard, {**stub, **exercise.planted})
        assert cheats.score == 0.0, cheats.output
        assert "suspicious" not in cheats.facts
        told = [each.rstrip("/") for each in cheats.facts["left_out"].split(", ")]
        for path in exercise.planted:
            is_told = any(f"{path}/".startswith(f"{each}/") for each in told)
            assert is_told or re.fullmatch(language(exercise.language).taken, path), (path, told)

    @contract()
    async def test_data_that_sources_read_counts_too(self, yard: DriverFixture) -> None:
        exercise = self.exercise
        stub = {path: text for path, text in exercise.files.items() if path not in exercise.tests}
        good = await self.of(yard, {**stub, **exercise.data})
        assert (good.score, good.suspect) == (1.0, None), good.output
        (data,) = [path for path in exercise.data if path not in exercise.files and "graphlib" not in path]
        sources = {path: text for path, text in exercise.data.items() if path != data}
        assert (await self.of(yard, {**stub, **sources})).score == 0.0


class TestPythonAnswers(Answers):
    exercise = EXERCISES["python"]

    @contract()
    async def test_too_many_or_too_large_files_score_zero(self, yard: DriverFixture) -> None:
        large = await self.of(yard, {**self.exercise.good, "more.py": "#" * (MOST_BYTES + 1)})
        assert (large.score, "more than" in large.output) == (0.0, True)
        many = await self.of(
            yard, {**self.exercise.good, **{f"more/a{at}.py": "" for at in range(MOST_FILES + 1)}}
        )
        assert (many.score, "more than" in many.output) == (0.0, True)

    @contract()
    async def test_links_are_no_sources(self, yard: DriverFixture) -> None:
        scorer = self.scorer(GradingCase(self.exercise.fields))
        devbox = await devbox_with(yard, list(await scorer.kits(kits_of(yard))))
        room = ScoringRoom(yard, devbox)
        room.working_directory = "/tmp/task"
        for path, text in self.exercise.good.items():
            await room.put(f"elsewhere/{path}", text.encode())
        for path in ("double.py", "parts"):
            made = await room.run(("/bin/ln", "-s", f"elsewhere/{path}", path), ProgramOptions(user="root"))
            assert made.exit_status == 0
        graded = await scorer.score(room)
        assert (graded.score, graded.facts["left_out"]) == (0.0, "double.py, parts")

    @contract()
    async def test_skipped_tests_are_told(self, yard: DriverFixture) -> None:
        more = "\ndef test_more():\n    double(1)\n    assert True\n"
        self.exercise = replace(
            self.exercise,
            files={**self.exercise.files, "double_test.py": self.exercise.files["double_test.py"] + more},
        )
        skips = "import pytest\n\ndef double(n):\n    if n == 1: pytest.skip('no')\n    return 2 * n\n"
        graded = await self.of(yard, {"double.py": skips})
        assert (graded.score, graded.facts["skipped"]) == (1.0, "1")
        assert "skipped" in (graded.suspect or "")
        honest = await self.of(yard, self.exercise.good)
        assert (honest.score, honest.suspect) == (1.0, None)


class TestGoAnswers(Answers):
    exercise = EXERCISES["go"]

    @contract()
    async def test_a_pass_without_its_tests_is_suspect(self, yard: DriverFixture) -> None:
        ends = (
            'package double\n\nimport "os"\n\nfunc init() { os.Exit(0) }\n\n'
            "func Double(int) int { return 0 }\n"
        )
        ended = await self.of(yard, {"double.go": ends})
        # The official verdict stays; that the runner knows of no test tells on it.
        assert ended.score == 1.0, ended.output
        assert "does not list TestIt" in (ended.suspect or "")
        claims = ends.replace("os.Exit(0)", 'println("--- PASS: TestIt (0.00s)"); os.Exit(0)')
        claimed = await self.of(yard, {"double.go": claims})
        # Who speaks for the tests is not told from them.
        assert (claimed.score, claimed.suspect) == (1.0, None), claimed.output


class TestRustAnswers(Answers):
    exercise = EXERCISES["rust"]


class TestJavascriptAnswers(Answers):
    exercise = EXERCISES["javascript"]


class TestJavaAnswers(Answers):
    exercise = EXERCISES["java"]


class TestCppAnswers(Answers):
    exercise = EXERCISES["cpp"]

    @contract()
    async def test_a_pass_without_its_tests_is_suspect(self, yard: DriverFixture) -> None:
        for told in ("(9 assertions in 3 test cases)", "(9 assertions)"):
            claims = (
                '#include "double.h"\n#include <cstdio>\n#include <cstdlib>\n'
                f'static int ended = (std::puts("All tests passed {told}"), std::exit(0), 1);\n'
                "int doubled(int) { return ended; }\n"
            )
            claimed = await self.of(yard, {"double.cpp": claims})
            assert claimed.score == 1.0, claimed.output
            assert "did not print that it ran them" in (claimed.suspect or "")


PASSED = {
    "cpp": b"x\nAll tests passed (4 assertions in 3 test cases)\n",
    "go": b"ok  \toctal\t0.004s\n",
    "java": b"[         3 tests successful      ]\n",
    "javascript": b"Test Suites: 1 passed, 1 total\nTests:       12 passed, 12 total\n",
    "python": b"======= 3 passed, 1 skipped in 0.01s ========\n",
    "rust": b"running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored\n",
}
NOT_PASSED = {
    "cpp": b"test cases: 3 | 1 passed | 2 failed\n",
    "go": b"FAIL\toctal\t0.004s\nok then\n",
    "java": b"[         0 tests successful      ]\n",
    "javascript": b"Tests:       1 failed, 12 total\n",
    "python": b"======= 1 failed in 0.01s ========\n3 passed\n",
    "rust": b"test result: ok. 0 passed; 0 failed; 0 ignored\n",
}


WHOLE = {
    "cpp": b"All tests passed (4 assertions in 3 test cases)\n[100%] Built target test_octal\n",
    "java": b"[         3 tests started         ]\n[         3 tests successful      ]\n",
    "javascript": b"Test Suites: 1 passed, 1 total\nTests:  12 passed, 12 total\nRan all test suites.\n",
    "python": b"collected 4 items\n\n======= 3 passed, 1 skipped, 2 warnings in 0.01s ========\n",
    "rust": b"running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored\n",
}
CLAIMED = {
    "cpp": b"All tests passed (4 assertions in 3 test cases)\n",
    "java": b"[         3 tests successful      ]\n",
    "javascript": b"Tests:       12 passed, 12 total\n",
    "python": b"collected 0 items\n======= 3 passed in 0.01s ========\n",
    "rust": b"test result: ok. 2 passed; 0 failed; 0 ignored\n",
}


TAKEN = {
    "cpp": ["table.inc", "parts/words.txt", "data.csv"],
    "go": ["data.txt", "data/words.json"],
    "java": ["src/main/resources/words.txt", "words.xml"],
    "javascript": ["data.json", "parts/words.yaml"],
    "python": ["words.json", "graphlib.py", "calendar.py", "queue/__init__.py", "data/table.tsv"],
    "rust": ["data.txt", "src/words.dat"],
}
SETTINGS = """
CMakeLists.txt package.json parts/package.json package-lock.json npm-shrinkwrap.json tsconfig.json
tsconfig.build.json jest.config.json parts/jest-preset.json babel.config.json requirements.txt
requirements-dev.txt CMakePresets.json pom.xml x.dist-info/entry_points.txt
src/main/resources/META-INF/a.txt test/data.txt tests/data.json build/x.txt .hidden.json .meta/a.json
"""


@pytest.mark.parametrize("name", languages())
def test_data_is_taken_and_settings_are_not(name: str) -> None:
    taken = re.compile(language(name).taken)
    assert [path for path in TAKEN[name] if not taken.fullmatch(path)] == []
    assert [path for path in SETTINGS.split() if taken.fullmatch(path)] == []


def test_modules_that_pytest_looks_for_beside_the_tests_are_not_taken() -> None:
    taken = re.compile(language("python").taken)
    names = ("unittest.py", "difflib.py", "pytest.py", "_pytest/x.py", "conftest.py", "sitecustomize.py")
    assert [path for path in (*names, "test_more.txt", "deep/tests.txt") if taken.fullmatch(path)] == []


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_line_that_tells_of_passed_tests_is_no_whole_report(name: str) -> None:
    assert outcome(name, WHOLE[name])["passed"]
    assert outcome(name, WHOLE[name])["complete"]
    assert outcome(name, CLAIMED[name])["passed"]
    assert not outcome(name, CLAIMED[name])["complete"]


def test_as_many_tests_are_told_of_as_there_are() -> None:
    assert outcome("cpp", WHOLE["cpp"], 3)["complete"]
    assert not outcome("cpp", WHOLE["cpp"], 4)["complete"]


def test_names_of_tests_are_read_from_their_files() -> None:
    go = (
        b"package a\n\nfunc TestOne(t *testing.T) {\n}\n"
        b"// func TestNot(t *testing.T) {}\nfunc TestMain(m *testing.M) {}\n"
    )
    bonus = b"//go:build bonus\n\nfunc TestBonus(t *testing.T) {}\n"
    cpp = b'TEST_CASE("a b", "[c]") {}\n/*\nTEST_CASE("no") {}\n*/\n    TEST_CASE("skip d") {}\n'
    assert names_in("go", go, bonus) == ["TestOne"]
    assert names_in("cpp", cpp) == ["a b", "skip d"]
    assert names_in("python", b"def test_it(): pass\n") == []


def outcome(name: str, output: bytes, tests: int | None = None) -> dict[str, Any]:
    """What is made of the output of a language's official command."""
    scorer: Any = catalog.parse("polyglot_scorer", {**FIELDS, "language": name}, ScoringContext())
    patterns = scorer._patterns(KnownTests(("x",) * (tests or 0)))
    return polyglot_parsers.outcome(io.BytesIO(output), **patterns)


def names_in(name: str, *files: bytes) -> list[str]:
    pattern = language(name).test_names
    content = io.BytesIO(polyglot_parsers.joined(files))
    names: list[str] = polyglot_parsers.tests_in(content, pattern.pattern.decode() if pattern else None)[
        "names"
    ]
    return names


@pytest.mark.parametrize("name", languages())
def test_each_language_knows_what_its_runner_prints(name: str) -> None:
    found = language(name)
    assert found.passed.search(PASSED[name])
    assert not found.passed.search(NOT_PASSED[name])
    assert found.programs


def test_tests_are_run_as_the_official_harness_has_them() -> None:
    java = language("java").prepared("A.java", b'    @Disabled("Remove to run test")\n    @Test\n')
    assert java.split() == [b"@Test"]
    assert (
        language("javascript").prepared("a.spec.js", b"xtest('a', b)\nmaxtest(c)\n")
        == b"test('a', b)\nmaxtest(c)\n"
    )
    assert language("javascript").prepared("a.js", b"xtest(") == b"xtest("


def test_output_has_neither_times_nor_places() -> None:
    assert tidy("3 passed in 0.12s at /tmp/polyglot/x/y.py", "/tmp/polyglot/x", "x") == "3 passed  at x/y.py"


@pytest.mark.parametrize(
    "wrong",
    [{"language": "cobol"}, {"exercise": "../x"}, {"solution": []}, {"solution": ["../x"]}, {"tools": "x"}],
)
def test_invalid_fields_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        catalog.parse("polyglot_scorer", {**FIELDS, **wrong}, ScoringContext())
