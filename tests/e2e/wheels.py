"""The wheel of this tree in a clean environment, as somebody has it who never saw the repository."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchyard.hosts.dependencies import find_program
from tests.house.tree import ROOT

_BUILD_SECONDS = 120.0
_COMMAND_SECONDS = 300.0
_OURS = ("BENCHYARD_", "RUNLOOP_", "PYTHON", "VIRTUAL_ENV", "XDG_")
"""What variables begin with that would lead back to the repository, or to somebody's own server."""
_KEYS = "_API_KEY"


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it printed."""

    status: int
    out: str
    err: str


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel and what it asks for, a home, and nothing of the repository."""

    python: Path
    home: Path

    @property
    def data(self) -> Path:
        """Where its server keeps everything, as nothing says otherwise."""
        return self.home / ".local/share/benchyard"

    def run(self, *command: str | Path, env: Mapping[str, str] | None = None) -> Ended:
        """Run a command in the home, with the environment of somebody who has just logged in."""
        variables = {**surroundings(self.home), **(env or {})}
        done = subprocess.run(
            command,
            cwd=self.home,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def benchyard(self, *arguments: str, env: Mapping[str, str] | None = None) -> Ended:
        """Run the command that the wheel brought."""
        return self.run(self.python.with_name("benchyard"), *arguments, env=env)

    def told(self, *arguments: str, env: Mapping[str, str] | None = None) -> dict[str, Any]:
        """What a command that must succeed tells as JSON."""
        ended = self.benchyard(*arguments, "-o", "json", env=env)
        assert ended.status == 0, ended
        found: dict[str, Any] = json.loads(ended.out)
        return found


def uv(*arguments: str | Path, cwd: Path) -> None:
    """Run uv, which came with us."""
    program = find_program("uv")
    assert program is not None, "uv is a dependency and must be beside this Python"
    done = subprocess.run(
        [program, *arguments],
        cwd=cwd,
        env=outside(),
        capture_output=True,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def built(folder: Path) -> Path:
    """Build the wheel of this tree into a folder."""
    uv("build", "--wheel", "--quiet", "--out-dir", folder, ROOT, cwd=folder.parent)
    (wheel,) = folder.glob("benchyard-*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """Make an environment of the wheel and of what it asks for; returns its Python."""
    uv("venv", "--quiet", "--python", sys.executable, folder, cwd=folder.parent)
    python = folder / "bin/python"
    uv("pip", "install", "--quiet", "--python", python, wheel, cwd=folder.parent)
    return python


@contextmanager
def served(installed: Installed) -> Iterator[Installed]:
    """Stop the server that its commands started, whatever became of them."""
    try:
        yield installed
    finally:
        stopped = installed.benchyard("server", "stop", "--yes")
    assert stopped.status == 0, stopped


def surroundings(home: Path) -> dict[str, str]:
    """Variables as after a login: none of ours, none of Python's, and no program of the repository."""
    folders = [each for each in os.get_exec_path() if not Path(each).is_relative_to(ROOT)]
    return {**outside(), "HOME": str(home), "PATH": os.pathsep.join(folders)}


def outside() -> dict[str, str]:
    """Our environment, which says how packages are fetched here, without what is only ours."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_OURS) and not name.endswith(_KEYS)
    }
