"""The six types of scorers keep the scorer contract."""

from typing import ClassVar

from benchyard.testing.scorer_contract import Case, PassingContract, PrintingContract, ScorerContract
from benchyard.testing.scorer_scripts import BASH, PYTHON

PATTERN = {"pattern": "measure($A)", "search_directory": ".", "lang": "python"}


class TestBashScript(PrintingContract):
    type = "bash_script_scorer"
    scripts = BASH

    def script(self, text: str) -> Case:
        return Case({"bash_script": text})


class TestCustom(PrintingContract):
    type = "custom_scorer"
    scripts = BASH

    def script(self, text: str) -> Case:
        return Case({"custom_scorer_type": "mine"}, scripts={"mine": text})


class TestPythonScript(PrintingContract):
    type = "python_script_scorer"
    scripts = PYTHON

    def script(self, text: str) -> Case:
        return Case({"python_script": text})


class TestCommand(PassingContract):
    type = "command_scorer"

    def command(self, text: str) -> Case:
        return Case({"command": text})


class TestTestBased(PassingContract):
    type = "test_based_scorer"
    wrong_kinds: ClassVar[dict[str, str]] = {"report_tests": "many"}

    def command(self, text: str) -> Case:
        files = [{"file_path": "tests/check.sh", "file_contents": text}]
        return Case({"test_command": "source tests/check.sh", "test_files": files})


class TestAstGrep(ScorerContract):
    type = "ast_grep_scorer"

    def passes(self) -> Case:
        return Case(PATTERN, {"src/main.py": "def main():\n    measure('x')\n"})

    def fails(self) -> Case:
        return Case(
            PATTERN, {"src/main.py": "def main():\n    measures('x')\n", "a.txt": "measure(1)\n"}, 0.0
        )
