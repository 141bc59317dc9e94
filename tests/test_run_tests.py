"""`scripts/run-tests.sh` on a project of a few tests: which runs pass, which fail, and what the list gets."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.tree import ROOT

SCRIPT = ROOT / "scripts/run-tests.sh"
RUN_SECONDS = 300
LIST = "tests/passed-alone.txt"
COMMENT = "# Names.\n"
PARITY = "print('parity was looked at')\n"
TOOLS = """
import os
import signal
import time


def fail_beside_others():
    assert "PYTEST_XDIST_WORKER" not in os.environ


def interrupt():
    os.kill(int(os.environ["PYTEST_PID"]), signal.SIGINT)
    time.sleep(60)
"""
CONFTEST = """
import os

os.environ.setdefault("PYTEST_PID", str(os.getpid()))
"""
QUICK = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": "-p xdist.plugin"}
"""No other plugins: some of them take seconds to import."""

GOOD = "def test_good(): pass\n"
BAD = "def test_bad(): assert False\n"
LATE = "from tools import fail_beside_others\ndef test_late(): fail_beside_others()\n"
LATE_ID = "tests/test_late.py::test_late"
HANGS_UP = "from tools import interrupt\ndef test_interrupted(): interrupt()\n"


@dataclass(frozen=True)
class Ended:
    """How a run of the script ended."""

    status: int
    output: str
    listed: str


class Project:
    """A folder with tests, in which the script is run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write("pytest.ini", "[pytest]\npythonpath = .\n")
        self.write("tools.py", TOOLS)
        self.write("conftest.py", CONFTEST)
        self.write("tests/__init__.py", "")
        self.write("tests/parity.py", PARITY)
        self.write(LIST, COMMENT)

    def write(self, name: str, text: str) -> None:
        """Write a file of the project."""
        file = self.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def run(self, *arguments: str, **variables: str) -> Ended:
        """Run the script as `make test` does."""
        # This test may run in a worker of pytest-xdist itself.
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PART_"))}
        ended = subprocess.run(
            [SCRIPT, sys.executable, "1", *arguments],
            cwd=self.folder,
            env={**kept, **QUICK, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=RUN_SECONDS,
            text=True,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout, (self.folder / LIST).read_text())


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project with one test that passes."""
    made = Project(tmp_path)
    made.write("tests/test_good.py", GOOD)
    return made


def test_a_run_in_which_all_pass_passes(project: Project) -> None:
    ended = project.run()
    assert ended.status == 0, ended.output
    assert "1 passed" in ended.output
    assert "parity was looked at" in ended.output
    assert ended.listed == COMMENT
    part = project.run("tests/test_good.py", PART_OF_THE_TESTS="tests/test_good.py")
    assert (part.status, "parity" in part.output) == (0, False)


def test_parity_that_fails_fails_the_run(project: Project) -> None:
    project.write("tests/parity.py", "raise SystemExit(3)\n")
    assert project.run().status == 3


def test_a_test_that_fails_alone_too_fails_the_run(project: Project) -> None:
    project.write("tests/test_bad.py", BAD)
    project.write("tests/test_late.py", LATE)
    ended = project.run()
    assert ended.status == 1
    assert "2 failed beside others; once more, alone" in ended.output
    assert "1 failed, 1 passed" in ended.output
    assert ended.listed == COMMENT


def test_a_test_that_passes_alone_is_added_to_the_list(project: Project) -> None:
    project.write("tests/test_late.py", LATE)
    ended = project.run()
    assert ended.status == 0, ended.output
    assert ended.listed == f"{COMMENT}{LATE_ID}\n"
    assert f"passed alone:\n    {LATE_ID}\n" in ended.output
    assert f"git commit {LIST}" in ended.output
    assert "parity was looked at" in ended.output


def test_a_name_gets_a_line_of_its_own(project: Project) -> None:
    project.write("tests/test_late.py", LATE)
    project.write(LIST, f"{COMMENT}\ntests/test_other.py::test_other")
    ended = project.run()
    assert ended.status == 0, ended.output
    assert ended.listed == f"{COMMENT}\ntests/test_other.py::test_other\n{LATE_ID}\n"


def test_a_listed_test_that_fails_again_fails_the_run(project: Project) -> None:
    project.write("tests/test_late.py", LATE)
    assert project.run().status == 0
    again = project.run()
    assert again.status == 1
    assert "so it is no matter of chance:\n    " + LATE_ID in again.output
    assert "once more, alone" not in again.output
    assert again.listed == f"{COMMENT}{LATE_ID}\n"


def test_more_than_three_failures_fail_the_run(project: Project) -> None:
    for number in range(4):
        project.write(f"tests/test_late{number}.py", LATE)
    ended = project.run()
    assert ended.status == 1
    assert "4 failed; not run again" in ended.output
    assert ended.listed == COMMENT
    (project.folder / "tests/test_late3.py").unlink()
    ended = project.run()
    assert ended.status == 0, ended.output
    assert ended.listed.count("::test_late\n") == 3


def test_an_interrupted_run_ends_with_its_own_status(project: Project) -> None:
    project.write("tests/test_interrupted.py", HANGS_UP)
    ended = project.run()
    assert ended.status == 2, ended.output
    assert "KeyboardInterrupt" in ended.output
    assert "once more, alone" not in ended.output
    assert ended.listed == COMMENT


def test_a_mistaken_option_ends_with_its_own_status(project: Project) -> None:
    assert project.run("--no-such-option").status == 4
