"""The six types of scorers keep the scorer contract."""

from typing import ClassVar

from benchyard.testing.contracts.scorer import (
    BASH,
    PYTHON,
    GradingCase,
    PassingContract,
    PrintingContract,
    ScorerContract,
)

PATTERN = {"pattern": "measure($A)", "search_directory": ".", "lang": "python"}


class TestBashScript(PrintingContract):
    type = "bash_script_scorer"
    scripts = BASH

    def script(self, text: str) -> GradingCase:
        return GradingCase({"bash_script": text})


class TestCustom(PrintingContract):
    type = "custom_scorer"
    scripts = BASH

    def script(self, text: str) -> GradingCase:
        return GradingCase({"custom_scorer_type": "mine"}, scripts={"mine": text})


class TestPythonScript(PrintingContract):
    type = "python_script_scorer"
    scripts = PYTHON

    def script(self, text: str) -> GradingCase:
        return GradingCase({"python_script": text})


class TestCommand(PassingContract):
    type = "command_scorer"

    def command(self, text: str) -> GradingCase:
        return GradingCase({"command": text})


class TestTestBased(PassingContract):
    type = "test_based_scorer"
    wrong_kinds: ClassVar[dict[str, str]] = {"report_tests": "many"}

    def command(self, text: str) -> GradingCase:
        files = [{"file_path": "tests/check.sh", "file_contents": text}]
        return GradingCase({"test_command": "source tests/check.sh", "test_files": files})


class TestAstGrep(ScorerContract):
    type = "ast_grep_scorer"

    def passes(self) -> GradingCase:
        return GradingCase(PATTERN, {"src/main.py": "def main():\n    measure('x')\n"})

    def fails(self) -> GradingCase:
        return GradingCase(
            PATTERN, {"src/main.py": "def main():\n    measures('x')\n", "a.txt": "measure(1)\n"}, 0.0
        )
