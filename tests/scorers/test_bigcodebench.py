"""Answers of BigCodeBench: what passes, what does not, and what only looks as if it did."""

import pytest

from benchyard.devboxes.base import Capability
from benchyard.errors import ScorerFailed
from benchyard.scorers import bigcodebench as listed
from benchyard.scorers.base import Verdict
from benchyard.scorers.standalone.bigcodebench_input import clean, expected_tests
from benchyard.testing.contracts.driver_fixture import DriverFixture, contract
from benchyard.testing.contracts.scorer import GradingCase, GradingSuite, ScorerContract

PROMPT = "import os\ndef task_func(numbers):"
GOOD = "def task_func(numbers):\n    return sum(numbers)\n"
BAD = "def task_func(numbers):\n    return 0\n"
TEST = """
import unittest

class TestCases(unittest.TestCase):
    def test_some(self):
        self.assertEqual(task_func([1, 2]), 3)

    def test_none(self):
        self.assertEqual(task_func([]), 0)

    @unittest.skip("not here")
    def test_skipped(self):
        self.fail()
"""
TRICKS = {
    "leaves with 0": "import os\ndef task_func(numbers):\n    os._exit(0)\n",
    "leaves at once": "import os\nos._exit(0)\n",
    "exits": "import sys\nsys.exit(0)\n",
    "prints a result": "import os\nprint('{\"passed\": true}')\nos.write(1, b'{\"passed\": true}\\n')\n"
    + BAD,
    "patches assertions": "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n" + BAD,
    "patches results": "import unittest\nunittest.TestResult.addFailure = lambda *a: None\n" + BAD,
    "patches json": "import json\njson.dumps = lambda *a, **k: '{\"passed\": true}'\n" + BAD,
    "patches while it runs": (
        "import unittest\ndef task_func(numbers):\n"
        "    unittest.TestCase.run = lambda *a: None\n    return 0\n"
    ),
    "another unittest": (
        "import sys, types\nfake = types.ModuleType('unittest')\nfake.skip = lambda r: lambda f: f\n"
        "class TestCase:\n    pass\nfake.TestCase = TestCase\nsys.modules['unittest'] = fake\n" + BAD
    ),
    "classes without tests": (
        "import builtins\nmade = builtins.__build_class__\n"
        "def build(body, name, *bases):\n    found = made(body, name, *bases)\n"
        "    [delattr(found, each) for each in list(vars(found)) if each.startswith('test_')]\n"
        "    return found\n"
        "builtins.__build_class__ = build\n" + BAD
    ),
    "forks": "import os\ndef task_func(numbers):\n    return 0 if os.fork() else 3\n",
    "writes into every pipe": (
        "import os\nfor each in os.listdir('/proc/self/fd'):\n    try:\n"
        "        os.write(int(each), b'x test_some,test_none \\n')\n"
        "    except OSError:\n        pass\nos._exit(0)\n"
    ),
    "walks the frames for what to tell": (
        "import os, sys\nframe, found = sys._getframe(), {}\n"
        "while frame:\n    found.update(frame.f_locals)\n    frame = frame.f_back\n"
        "told = [found.get('token', ''), 'test_some,test_none,test_skipped', '']\n"
        "os.write(found.get('writing', 2), (' '.join(told) + '\\n').encode())\n"
        "os.write(found.get('telling', 2), b'good test_some \\ngood test_none \\ndone - \\n')\nos._exit(0)\n"
    ),
    "looks at its parent": (
        "import os\nopen(f'/proc/{os.getppid()}/fd/1', 'w').write('{\"passed\": true}')\n" + GOOD
    ),
    "is root": "import os\nassert os.getuid() == 0\n" + GOOD,
    "no code": "I would sum them up.",
    "empty": "",
}


def case(answer: str, score: float = 1.0, **fields: object) -> GradingCase:
    given = {"code_prompt": PROMPT, "test": TEST, "modules": [], **fields}
    return GradingCase(given, {"solution.py": answer}, score)


class TestContract(ScorerContract):
    type = "bigcodebench_scorer"

    def passes(self) -> GradingCase:
        return case(GOOD)

    def fails(self) -> GradingCase:
        return case(BAD, 0.0)

    @pytest.mark.skip(reason="numbers are right for one of its fields, the time limit")
    def test_fields_of_a_wrong_kind_are_refused_by_name(self) -> None:
        raise NotImplementedError


class TestGrading(GradingSuite):
    type = "bigcodebench_scorer"

    @contract(Capability.USERS)
    async def test_no_trick_earns_anything(self, yard: DriverFixture) -> None:
        graded = await self.grade(yard, *(case(answer) for answer in TRICKS.values()))
        told = {name: getattr(each, "score", each) for name, each in zip(TRICKS, graded, strict=True)}
        assert told == dict.fromkeys(TRICKS, 0.0)

    @contract(Capability.USERS)
    async def test_endless_answer_is_ended_with_its_processes(self, yard: DriverFixture) -> None:
        forever = "import os\nif os.fork() == 0:\n    os.setsid()\nwhile True:\n    pass\n"
        (graded, after) = await self.grade(yard, case(forever, time_limit_sec=0.5), case(GOOD))
        assert isinstance(graded, Verdict), graded
        assert (graded.score, graded.output) == (0.0, "not done after 2 seconds")
        assert isinstance(after, Verdict)
        assert after.score == 1.0

    @contract(Capability.USERS)
    async def test_skipped_tests_are_not_reported_as_passed(self, yard: DriverFixture) -> None:
        skips = "import unittest\ndef task_func(numbers):\n    raise unittest.SkipTest('no')\n"
        plain = TEST.replace(
            '    @unittest.skip("not here")\n    def test_skipped(self):\n        self.fail()\n', ""
        )
        good, honest, cheats = await self.grade(
            yard, case(GOOD), case(GOOD, test=plain), case(skips, test=plain)
        )
        assert isinstance(good, Verdict), good
        assert (good.score, good.output, good.suspect) == (1.0, "2 tests passed, 1 skipped", None)
        assert isinstance(honest, Verdict), honest
        assert (honest.output, honest.suspect, "skipped" in honest.facts) == ("2 tests passed", None, False)
        assert isinstance(cheats, Verdict), cheats
        assert (cheats.score, cheats.output, cheats.facts["skipped"]) == (
            1.0,
            "0 tests passed, 2 skipped",
            "2",
        )
        assert "skipped" in (cheats.suspect or "")

    @contract(Capability.USERS)
    async def test_a_markdown_block_is_an_answer_too(self, yard: DriverFixture) -> None:
        said = f"It sums:\n```python\n{GOOD}```\nand that is all.\n"
        assert await self.scores(yard, case(said)) == [1.0]

    @contract(Capability.USERS)
    async def test_the_prompt_before_the_answer_counts(self, yard: DriverFixture) -> None:
        uses_it = "def task_func(numbers):\n    return sum(numbers) if os.sep else None\n"
        assert await self.scores(yard, case(uses_it)) == [1.0]

    @contract(Capability.USERS)
    async def test_missing_official_package_is_a_failure_and_not_a_zero(self, yard: DriverFixture) -> None:
        (known, unknown) = await self.grade(
            yard, case(f"import numpy\n{GOOD}"), case(f"import nosuch\n{GOOD}")
        )
        assert isinstance(known, ScorerFailed)
        assert "numpy" in known.message
        assert isinstance(unknown, Verdict)
        assert unknown.score == 0.0

    @contract(Capability.USERS)
    async def test_the_environment_is_reported_with_the_result(self, yard: DriverFixture) -> None:
        (graded,) = await self.grade(yard, case(GOOD))
        assert isinstance(graded, Verdict), graded
        assert graded.facts["environment"] == "unofficial environment"
        assert "that the item does not need" in graded.facts["differences"]


def test_answers_are_cleaned_as_little_as_possible() -> None:
    assert clean(GOOD, "task_func") == GOOD
    assert clean(f"a\n```\nx = 1\n```\nb\n```python\n{GOOD}```\n", "task_func") == GOOD
    assert clean("a\n```\nx = 1\n```\nb c\n", "task_func") == "x = 1\n"
    assert clean("just words", "task_func") == "just words"


def test_all_tests_of_the_class_must_run() -> None:
    assert expected_tests(TEST) == ["test_none", "test_skipped", "test_some"]
    assert expected_tests("class Other: pass") == []
    assert expected_tests("not python") == []


def test_packages_come_with_the_official_versions_of_what_they_need() -> None:
    wanted = listed.index_requirements(
        listed.packages_of_modules(["sklearn", "os", "nobody_knows"]), official_python=True
    )
    assert wanted == ("numpy==1.21.2", "scikit-learn==1.3.1", "scipy==1.7.2")
    other = listed.index_requirements(("numpy",), official_python=False)
    assert other == ("numpy>=1.21.2,<2",)


def test_environment_differences_are_named() -> None:
    everything = tuple(listed.PINS)
    have = " ".join(f"{name}=={version}" for name, version in listed.PINS.items())
    assert (
        listed.environment_differences(
            everything, have.replace("selenium==4.15", "selenium==4.15.2"), "3.10.13"
        )
        == ()
    )
    other = have.replace("numpy==1.21.2", "numpy==1.26.4").replace("wordninja==2.0.0", "")
    assert listed.environment_differences(everything, other, "3.12.1") == (
        "Python 3.12.1 instead of 3.10",
        "numpy 1.26.4 instead of 1.21.2",
        "without wordninja",
    )
