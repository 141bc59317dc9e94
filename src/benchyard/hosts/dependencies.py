"""Programs and packages of the server that a plain install may lack: their users, and how to get them."""

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_FROM_PIP = ("uv", "ast-grep")


@dataclass(frozen=True)
class Dependency:
    """A program or a Python package that some features need."""

    name: str
    needed_for: str
    remedy: str
    is_program: bool = True
    """A program, not a Python package."""

    @property
    def is_here(self) -> bool:
        """Tell whether this machine has it."""
        if self.is_program:
            return find_program(self.name) is not None
        return importlib.util.find_spec(self.name) is not None

    @property
    def complaint(self) -> str:
        """Return the missing dependency and the command to install it, for the end of an error message."""
        kind = "program" if self.is_program else "Python package"
        return f"this server lacks the {kind} `{self.name}`: {self.remedy}"


def find_program(name: str) -> Path | None:
    """Find a program of PATH; one that pip installs is looked for beside the running Python first."""
    folders = os.get_exec_path()
    if name in _FROM_PIP:
        # Where pip puts programs for this Python: in its environment, or in the user's folder.
        user = sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user"))
        folders = [sysconfig.get_path("scripts"), str(Path(sys.executable).parent), user, *folders]
    program = shutil.which(name, path=os.pathsep.join(folders))
    return Path(program).resolve() if program else None


def missing(needed: Iterable[Dependency]) -> list[Dependency]:
    """Return the dependencies that are not here."""
    return [each for each in needed if not each.is_here]


UV = Dependency("uv", "agents from pip, and Python packages of scorers", "pip install uv")
NODE = Dependency(
    "node",
    "agents from npm: claude-code, codex, gemini-cli, goose, opencode",
    "install Node.js, such as with `sudo apt install nodejs npm`",
)
NPM = Dependency("npm", NODE.needed_for, "install it, such as with `sudo apt install nodejs npm`")
GIT = Dependency(
    "git", "agents, repositories and benchmarks from git", "install it, such as with `sudo apt install git`"
)
AST_GREP = Dependency("ast-grep", "scorers of type ast_grep_scorer", "pip install 'benchyard[scorers]'")
PYARROW = Dependency("pyarrow", "parquet files of datasets", "pip install 'benchyard[benchmarks]'", False)
SWEBENCH = Dependency(
    "swebench", "the official grading of SWE-bench Verified", "pip install 'benchyard[benchmarks]'", False
)
ASYNCSSH = Dependency("asyncssh", "ssh into devboxes", "pip install 'benchyard[ssh]'", False)
DEBOOTSTRAP = Dependency(
    "mmdebstrap",
    "stand-ins for images of a registry (`benchyard image stand-in`)",
    "install it, such as with `sudo apt install mmdebstrap`",
)

ALL = (UV, NODE, NPM, GIT, AST_GREP, PYARROW, SWEBENCH, ASYNCSSH, DEBOOTSTRAP)
BY_NAME = {each.name: each for each in ALL}
