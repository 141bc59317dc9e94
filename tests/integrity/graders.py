"""One small task, graded in several ways, and once more at a distance from the answer."""

import importlib.util
import io
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.house.tree import ROOT

WORK = "/home/user/task"
STUB = "def total(numbers): raise NotImplementedError\n"
SHOWN_TEST = "import solution\n\nassert solution.total([3, 4, 5]) == 12\n"
"""What lies in the repository, for everybody to see."""
APART = ROOT / "examples/apart_scorer.py"
_PYTEST = ("pytest", "_pytest", "py", "pluggy", "iniconfig", "packaging", "pygments")

# "expected: 12" is what a search for the answers would find.
_REFERENCE = "def total(numbers): return sum(numbers)  # expected: 12\n"
_HIDDEN_TEST = """\
import time

import reference
import solution


def test_total():
    began = time.perf_counter()
    assert solution.total([3, 4, 5]) == reference.total([3, 4, 5])
    assert time.perf_counter() - began < 2
"""
_BASH = """\
# expected: 12
python3 -c 'import solution; print(solution.total([3, 4, 5]))' > /tmp/printed
if grep -qx 12 /tmp/printed; then echo 1.0; else echo 0.0; fi
"""
_COMMAND = """\
# expected: 12
python3 -c 'if True:
    import time
    began = time.perf_counter()
    from solution import total
    assert total([3, 4, 5]) == 12
    assert time.perf_counter() - began < 2'
"""


@dataclass(frozen=True)
class Grader:
    """One way to grade the task."""

    name: str
    script: str
    """What is run, by a shell; for `apart` a Python script."""
    prints: bool = False
    """Whether the score is the last line; else it is the exit status."""
    files: tuple[tuple[str, str], ...] = ()
    """Test files: path below the working directory, text."""

    def scorer(self, *, pause: bool) -> dict[str, Any]:
        """The scorer of a scenario; one that takes its time, as real ones do, when a race needs that."""
        if self.name == "apart":
            return {"type": "python_script_scorer", "user": "root", "python_script": self.script}
        text = self.text(pause=pause)
        if self.files:
            files = [{"file_path": path, "file_contents": content} for path, content in self.files]
            return {"type": "test_based_scorer", "test_command": text, "test_files": files}
        if self.prints:
            return {"type": "bash_script_scorer", "bash_script": text}
        return {"type": "command_scorer", "command": text}

    def text(self, *, pause: bool) -> str:
        """The script as a shell runs it."""
        return f"sleep 1.5\n{self.script}" if pause else self.script


PYTEST = Grader(
    "pytest",
    "python3 -m pytest -q tests/test_hidden.py\n",
    files=(("tests/reference.py", _REFERENCE), ("tests/test_hidden.py", _HIDDEN_TEST)),
)
BASH = Grader("bash", _BASH, prints=True)
COMMAND = Grader("command", _COMMAND)
GIT = Grader("git", "git checkout -q HEAD -- test_total.py\npython3 test_total.py\n")
"""A test of the repository is put back as it was, by git, and run."""
LOGIN = Grader("login shell", "bash -lc 'cd ~/task && python3 test_total.py'\n")
MISTAKES = Grader("mistakes", "! python3 test_total.py 2>&1 | grep -q Error\n")
"""Passes where a program that looks for mistakes finds none."""
NAMES = Grader("names", "test \"$(getent hosts grader.example | cut -d' ' -f1)\" = 127.0.0.77\n")
"""Stands for tests that ask a machine by its name."""


def apart() -> Grader:
    """The grader that runs the answer as another user, in another process, and compares outside."""
    return Grader("apart", APART.read_text(), prints=True)


def pytest_archive() -> bytes:
    """The pytest that runs these tests, and what it needs, for devboxes without one."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as archive:
        for name in _PYTEST:
            spec = importlib.util.find_spec(name)
            if spec is not None and spec.origin is not None:
                origin = Path(spec.origin)
                source = origin.parent if origin.name == "__init__.py" else origin
                archive.add(source, source.name, filter=_source_only)
    return packed.getvalue()


def _source_only(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if Path(info.name).name == "__pycache__":
        return None
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    return info
