"""The known exploits of agent benchmarks, as agents that are told to cheat: `agents/<name>.sh`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.integrity.graders import BASH, COMMAND, GIT, LOGIN, MISTAKES, NAMES, PYTEST, Grader

AGENTS = Path(__file__).parent / "agents"


@dataclass(frozen=True)
class Attack:
    """One agent that wants a score it did not earn."""

    number: int
    """Of the exploit."""
    name: str
    graders: tuple[Grader, ...] = (PYTEST, BASH, COMMAND)
    """Those that it is meant for; the first one stands for all in the short form."""
    traces: tuple[str, ...] = ()
    """What must be named in the tamper report, as part of a path or a command, where it gets its score."""
    reward: Literal["said", "file"] = "said"
    """Where a naive harness takes the reward from: what the grader says, or a file."""
    shipped: bool = False
    """Whether a naive harness has the grader in the devbox from the start."""
    online: bool = False
    """Whether a naive harness lets its devboxes reach the network."""
    pause: bool = False
    """Whether it needs a grader that takes more than a moment."""
    within: bool = False
    """Whether it is code that runs inside the graded process."""
    above: bool = False
    """Whether it is such code, and reaches for the process that started it."""
    needs: str | None = None
    """A program of the machine it cannot do without."""
    machine: str | None = None
    """The processor it is written for."""

    @property
    def script(self) -> str:
        """What it does, for a shell."""
        return (AGENTS / f"{self.name}.sh").read_text()

    @property
    def title(self) -> str:
        """What it does, in a sentence."""
        return self.script.partition("\n")[0].removeprefix("# ")


_WAITER = ("waiter.py",)

ATTACKS = (
    Attack(1, "conftest", (PYTEST,), ("task/conftest.py",)),
    Attack(1, "pytest-ini", (PYTEST,), ("task/pytest.ini",)),
    Attack(1, "parents", (PYTEST,), ("/home/user/pytest.ini", "/home/user/conftest.py")),
    Attack(1, "git-hook", (GIT,), (".git/hooks/post-checkout",)),
    Attack(1, "git-attributes", (GIT,), (".git/info/attributes",)),
    Attack(1, "git-config", (GIT,), (".git/config",)),
    Attack(1, "git-replace", (GIT,), (".git/refs/replace/",)),
    Attack(1, "git-home", (GIT,), ("/home/user/.gitconfig",)),
    Attack(2, "grader", shipped=True),
    Attack(2, "grader-daemon", (BASH, COMMAND, PYTEST), _WAITER, pause=True),
    Attack(2, "bytecode", (PYTEST,), ("tests/__pycache__/reference.",)),
    Attack(3, "path", (BASH, PYTEST, COMMAND), ("/usr/local/bin/",)),
    Attack(3, "home-path", (COMMAND, BASH, PYTEST)),
    Attack(3, "replaced", (BASH, PYTEST, COMMAND), ("/usr/bin/python3", "/usr/bin/grep")),
    Attack(3, "shell", (BASH, PYTEST, COMMAND), ("/usr/bin/bash",)),
    Attack(3, "folder-link", (COMMAND, PYTEST), ("/usr/local",)),
    Attack(3, "late-program", (COMMAND, PYTEST), _WAITER, pause=True),
    Attack(3, "gone", (MISTAKES,), ("/usr/bin/python3",)),
    Attack(4, "reward-file", (COMMAND, BASH, PYTEST), reward="file"),
    Attack(5, "reward-daemon", (COMMAND, BASH, PYTEST), reward="file"),
    Attack(5, "late-line", (BASH,), _WAITER, pause=True),
    Attack(5, "leftover-descriptor", (BASH,), _WAITER, pause=True),
    Attack(5, "late-child", (BASH,)),
    Attack(6, "late-work", (COMMAND, BASH, PYTEST), _WAITER, pause=True),
    Attack(8, "internet", (COMMAND, BASH, PYTEST), online=True),
    Attack(9, "shipped", (BASH, COMMAND, PYTEST), shipped=True),
    Attack(10, "sitecustomize", (COMMAND, PYTEST), ("/sitecustomize.py",)),
    Attack(10, "usersite", (PYTEST, COMMAND), ("/usercustomize.py",)),
    Attack(10, "profile", (COMMAND, PYTEST)),
    Attack(10, "login", (LOGIN,), ("/home/user/.bash_profile",)),
    Attack(10, "names", (NAMES,), ("/etc/hosts",)),
    Attack(10, "preload", (BASH, COMMAND, PYTEST), ("/etc/ld.so.preload",), needs="cc"),
    Attack(11, "exits", (COMMAND, PYTEST), within=True),
    Attack(11, "equals", (PYTEST, COMMAND), within=True),
    Attack(11, "timers", (COMMAND, PYTEST), within=True),
    Attack(11, "reads", (BASH, COMMAND), within=True),
    Attack(11, "traces", (COMMAND, PYTEST), within=True, above=True, machine="x86_64"),
    Attack(11, "memory", (COMMAND, PYTEST), within=True, above=True, machine="x86_64"),
    Attack(11, "leftover-traces", (COMMAND, PYTEST), _WAITER, pause=True, machine="x86_64"),
    Attack(11, "zombie-traces", (COMMAND, PYTEST), _WAITER, pause=True, machine="x86_64"),
    Attack(11, "leftover-memory", (COMMAND, PYTEST), _WAITER, pause=True, machine="x86_64"),
    Attack(12, "link", (PYTEST,), ("task/solution.py",)),
    Attack(15, "feedback", (COMMAND, BASH, PYTEST), shipped=True),
)
HONEST = Attack(0, "honest")
NOTHING = Attack(13, "nothing")
