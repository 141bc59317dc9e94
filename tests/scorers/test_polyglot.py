"""Exercises of the Polyglot benchmark: their tests over what was answered, and nothing else of the devbox."""

import re
from typing import Any

import pytest

from benchyard.errors import UsageError
from benchyard.models.attachments import PackedFile, packed
from benchyard.scorers import catalog
from benchyard.scorers.base import Context, Scorer, Verdict
from benchyard.scorers.polyglot import TIMED_OUT, language, languages, tidied
from benchyard.testing.scorer_contract import Case, Grading
from benchyard.testing.yard import Yard, contract

STUB = "def double(number):\n    pass\n"
GOOD = "def double(number):\n    return 2 * number\n"
TEST = "from double import double\n\ndef test_it():\n    assert double(21) == 42\n"
FIELDS = {"language": "python", "exercise": "double", "solution": ["double.py"], "tools": "server"}
EXERCISE = packed({"double.py": PackedFile(STUB.encode()), "double_test.py": PackedFile(TEST.encode())})


async def attached(name: str) -> bytes:
    assert name == "exercise"
    return EXERCISE


class TestPython(Grading):
    type = "polyglot_scorer"

    def scorer(self, case: Case) -> Scorer[Any]:
        return catalog.parse(self.type, case.fields, Context(attached=attached))

    async def of(self, yard: Yard, *answers: dict[str, str], **room: Any) -> list[Verdict]:
        graded = await self.grade(yard, *(Case(FIELDS, files) for files in answers), **room)
        assert all(isinstance(each, Verdict) for each in graded), graded
        return [each for each in graded if isinstance(each, Verdict)]

    @contract()
    async def test_only_what_the_tests_say_counts(self, yard: Yard) -> None:
        planted = {"conftest.py": "import os\nos._exit(0)\n", "double_test.py": "def test_it(): pass\n"}
        good, stub, cheats, leaves = await self.of(
            yard,
            {"double.py": GOOD},
            {"double.py": STUB},
            {"double.py": STUB, **planted},
            {"double.py": "import os\nos._exit(0)\n"},
        )
        assert (good.score, stub.score, cheats.score, leaves.score) == (1.0, 0.0, 0.0, 0.0)
        assert "assert None == 42" in stub.output
        assert not re.search(r"in \d+\.\d+s|/tmp/", stub.output)
        assert "suspicious" in leaves.facts
        assert "suspicious" not in stub.facts
        assert "of the server" in good.facts["substitutes"]

    @contract()
    async def test_time_that_is_over_is_a_failed_test(self, yard: Yard) -> None:
        (graded,) = await self.of(yard, {"double.py": "while True:\n    pass\n"}, seconds=3.0)
        assert (graded.score, graded.output) == (0.0, TIMED_OUT)


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
    assert (
        tidied("3 passed in 0.12s at /tmp/polyglot/x/y.py", "/tmp/polyglot/x", "x") == "3 passed  at x/y.py"
    )


@pytest.mark.parametrize(
    "wrong",
    [{"language": "cobol"}, {"exercise": "../x"}, {"solution": []}, {"solution": ["../x"]}, {"tools": "x"}],
)
def test_what_cannot_be_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        catalog.parse("polyglot_scorer", {**FIELDS, **wrong}, Context())
