"""The scorer contract: what a way of grading owes, and the room it grades in.

A scorer is made from the `scorer` part of a scenario's scoring function, which its `Config` checks. It sees
the devbox only through a `Room`: scripts and tests come in by it, and the score goes out by what the host
kept of a command's output. Nothing that lies in the devbox before can speak for the scorer.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import Model

C = TypeVar("C", bound=Model)

MOST_OUTPUT_BYTES = 64 * 1024
"""Of one scorer's output are kept with the result: its end."""


@dataclass(frozen=True)
class Ran:
    """How a command in the room ended."""

    exit_status: int
    """0 to 255; 128 + n when signal n ended it; 126 or 127 when it could not be started."""
    stdout: bytes
    """Its end (`MOST_OUTPUT_BYTES` at most), of what was written before the command's own process ended."""
    stderr: bytes
    timed_out: bool = False
    signal: int | None = None
    """What ended it, when a signal did."""
    truncated: bool = False
    """More was written to stdout than the host keeps: its end is not known."""


class Room(ABC):
    """The devbox a scorer grades in, as it sees it."""

    working_directory: str
    """Where commands run, and where relative paths begin."""

    @abstractmethod
    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> str:
        """Write a file in the place of whatever has its name; returns its whole path.

        Relative paths begin at the working directory. Raises ScorerFailed where that cannot be.
        """

    @abstractmethod
    async def keep(self, name: str, content: bytes) -> str:
        """Write a file where nobody could have prepared anything, and only root can change it; its path.

        The scenario's user may read it, others but root may not. A name that a scorer uses again is a new
        file in the old one's place.
        """

    @abstractmethod
    async def run(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str | None = None
    ) -> Ran:
        """Run a program to its end, as the scenario's user, without a login shell.

        `env` comes on top of the devbox's own environment. A directory that is missing ends it with 126.
        The time that the scenario gives each scorer is over for all its commands together: what runs then is
        killed with all its descendants, and `timed_out` is set.
        """


@dataclass(frozen=True)
class Context:
    """What a scorer is told about the run it grades."""

    facts: Mapping[str, object] = field(default_factory=dict)
    """Problem statement, duration, usage and cost when known, path of the trajectory."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """Type -> bash script of the registered custom scorers that the contract names."""


@dataclass(frozen=True)
class Verdict:
    """A score from 0.0 to 1.0, and the output that led to it."""

    score: float
    output: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Worth recording: the Python that was used, the revision of a script."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """Finite numbers that were counted beside the score, each under a name."""


class Scorer(ABC, Generic[C]):
    """One way of grading. `type` on the wire is the module's name followed by `_scorer`.

    Each grading has its own: `kits` is awaited first, then `score`, once each. What a ScorerFailed has in
    `details["output"]` is kept with the result, as the output of a Verdict is.
    """

    Config: ClassVar[type[Model]]

    def __init__(self, config: C, context: Context) -> None:
        self.config = config
        self.context = context

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        """What must be shown in the room before it opens; raises ScorerFailed with what to do."""
        return ()

    @abstractmethod
    async def score(self, room: Room) -> Verdict:
        """Grade; raises ScorerFailed when there is no score to tell, with the reason."""
