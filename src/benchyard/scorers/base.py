"""The scorer contract: what a way of grading owes, its fields, and the room it grades in."""

import marshal
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from benchyard.errors import ScorerFailed, WorkerFailed
from benchyard.hosts.dependencies import Dependency
from benchyard.hosts.kits import Kit, Kits
from benchyard.models.base import Model
from benchyard.models.runs import CountedTests
from benchyard.scorers.standalone import context_texts
from benchyard.scorers.standalone.context_texts import VARIABLES
from benchyard.workers.workers import SMALL_BYTES, WorkerCall, WorkerLimits, call_once

C = TypeVar("C", bound=Model)

MOST_OUTPUT_BYTES = 64 * 1024
"""Of one scorer's output are kept with the result: its end."""


@dataclass(frozen=True)
class RoomResult:
    """How a command in the room ended."""

    exit_status: int
    """0 to 255; 128 + n when signal n ended it; 126 or 127 when it could not be started."""
    stdout: bytes
    """Its end (`How.most_output` at most), of what was written before the command's own process ended."""
    stderr: bytes
    timed_out: bool = False
    signal: int | None = None
    """What ended it, when a signal did."""
    truncated: bool = False
    """More was written to stdout than the host keeps: its end is not known."""


@dataclass(frozen=True)
class ProgramOptions:
    """How a program is run in the room."""

    env: Mapping[str, str] = field(default_factory=dict)
    """On top of the devbox's own environment."""
    cwd: str | None = None
    """None is the working directory."""
    user: str | None = None
    """None is who grades."""
    most_output: int = MOST_OUTPUT_BYTES
    """So much of the end of its output is told; the host keeps more."""


AS_USUAL = ProgramOptions()


class GraderConfig(Model):
    """What scorers that run a script or a command have in common."""

    user: Literal["root"] | None = None
    """Who grades (an extension); None is the scenario's user.

    Of `root`, the scenario's user can neither read the scripts and tests nor touch the processes; what is
    graded is run by the command that the variable `BENCHYARD_GRADED` names, as the scenario's user.
    """


class Room(ABC):
    """The devbox a scorer grades in, as it sees it."""

    tools: str | None = None
    """Where the start's own shell and plain tools are; None where those of the devbox are the start's, or
    nothing can be shown."""

    guarded: Sequence[str] = ()
    """Files that were put here, which nobody but who grades is to exchange."""

    working_directory: str
    """Where commands run, and where relative paths begin."""

    @abstractmethod
    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> str:
        """Write a file in the place of whatever has its name; returns its whole path.

        Where another than the scenario's user grades, it is for nobody else.
        Relative paths begin at the working directory. Raises ScorerFailed where that cannot be.
        """

    @abstractmethod
    async def keep(self, name: str, content: bytes) -> str:
        """Write a file where nobody could have prepared anything, and only root can change it; its path.

        Who grades may read it, others but root may not. A name that a scorer uses again is a new
        file in the old one's place.
        """

    @abstractmethod
    async def clear(self, folder: str, user: str | None = None) -> None:
        """Make a folder anew, empty, in the place of whatever has its name or is in the way to it.

        It belongs to this user, to root unless one is named. Raises ScorerFailed where that cannot be.
        """

    @abstractmethod
    async def fetch(self, path: str, limit: int) -> bytes | None:
        """What is in a file, read by the host as root; None if there is none. ScorerFailed over the limit."""

    @abstractmethod
    async def run(self, argv: Sequence[str], how: ProgramOptions = AS_USUAL) -> RoomResult:
        """Run a program to its end, without a login shell.

        A directory that is missing ends it with 126.
        The time that the scenario gives each scorer is over for all its commands together: what runs then is
        killed with all its descendants, and `timed_out` is set.
        """


async def _nothing_attached(name: str) -> bytes:
    raise ScorerFailed(f"the scenario has no attachment {name!r}, which its scorer needs; import it again")


async def _nothing_counted() -> Sequence[CountedTests]:
    return ()


@dataclass(frozen=True)
class ScoringContext:
    """What a scorer is told about the run it grades."""

    facts: Mapping[str, object] = field(default_factory=dict)
    """Problem statement, duration, usage and cost when known, path of the trajectory."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """Type -> bash script of the registered custom scorers that the contract names."""
    attached: Callable[[str], Awaitable[bytes]] = _nothing_attached
    """The content of an attachment of the scenario; raises ScorerFailed where it is gone."""
    call: WorkerCall = call_once
    """Runs a function in a worker: nothing that came out of a devbox is graded or parsed anywhere else."""
    counted: Callable[[], Awaitable[Sequence[CountedTests]]] = _nothing_counted
    """What the test runner's report counted for the reference; empty where that is not known."""
    official: bool = False
    """Whether the scenario is of a public benchmark, whose official verdict stays as it is."""


@dataclass(frozen=True)
class Verdict:
    """A score from 0.0 to 1.0, and the output that led to it."""

    score: float
    output: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Worth recording: the Python that was used, the revision of a script."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """Every number by its name, where there are several, or where the score has a name."""
    suspect: str | None = None
    """One line that says why a score above 0 may not be earned, such as a test report that is missing."""
    counted: CountedTests | None = None
    """What the test runner's report counted, where one was made."""


class Scorer(ABC, Generic[C]):
    """One way of grading. `type` on the wire is the module's name followed by `_scorer`.

    Each grading has its own: `kits` is awaited first, then `score`, once each. What a ScorerFailed has in its
    details under `output`, `facts` and `rewards` is kept with the result, as that of a Verdict is. A scorer
    that fails is tried again in a new room; failing twice is the answer's, unless the reference has it too.
    """

    Config: ClassVar[type[Model]]
    uses_shell: ClassVar[bool] = False
    """Whether it runs a script by the room's shell."""
    dependencies: ClassVar[tuple[Dependency, ...]] = ()
    """Programs and packages that the server must have; a job is refused where one is missing."""
    draws: ClassVar[bool] = False
    """Whether it draws its answer first (`draw`), to grade that in a devbox that is as it was at the start.

    Only for scenarios whose isolation is `answer`: what it draws from has their answer paths, nothing else.
    """

    def __init__(self, config: C, context: ScoringContext) -> None:
        self.config = config
        self.context = context
        self.answer = b""
        """What was drawn."""

    @property
    def user(self) -> str | None:
        """Who grades; None is the scenario's user."""
        return self.config.user if isinstance(self.config, GraderConfig) else None

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        """What must be shown in the room before it opens; raises ScorerFailed with what to do."""
        return ()

    async def draw(self, room: Room) -> bytes:
        """What was answered, as the room shows it; raises ScorerFailed where that cannot be told."""
        return b""

    @abstractmethod
    async def score(self, room: Room) -> Verdict:
        """Grade; raises ScorerFailed when there is no score to tell, with the reason."""


MOST_SCRIPT_BYTES = 1024**2
MOST_PARAMS_BYTES = 64 * 1024


def _script(value: str) -> str:
    if not value.strip():
        raise PydanticCustomError("empty", "must not be empty")
    if len(value.encode()) > MOST_SCRIPT_BYTES:
        raise PydanticCustomError("too_large", "must be at most 1 MiB")
    return value


def _path(value: str) -> str:
    if "\0" in value or not value:
        raise PydanticCustomError("bad_path", "must be a path: not empty, and without zero bytes")
    value.encode()
    if posixpath.normpath(value).split("/")[0] == "..":
        raise PydanticCustomError("bad_path", "must not lead out of the working directory by `..`")
    return value


def _file(value: str) -> str:
    if value.endswith("/") or posixpath.basename(value) in (".", ".."):
        raise PydanticCustomError("bad_path", "must be the path of a file")
    return value


def _argument(value: str) -> str:
    if "\0" in value or not value:
        raise PydanticCustomError("bad_argument", "must not be empty, and must not have zero bytes")
    value.encode()
    return value


def _params(value: dict[str, Any]) -> dict[str, Any]:
    if context_texts.FACTS in value:
        raise PydanticCustomError("taken", "must not have the key `benchyard`: facts of the run stand there")
    try:
        is_small = context_texts.is_at_most(value, MOST_PARAMS_BYTES)
    except (ValueError, RecursionError) as error:
        raise PydanticCustomError("not_json", "must be what JSON can say, and not nested deeply") from error
    if not is_small:
        raise PydanticCustomError("too_large", "must be at most 64 KiB of JSON")
    return value


Script = Annotated[str, AfterValidator(_script)]
"""A program or a command line."""

DirectoryPath = Annotated[str, Field(max_length=4096), AfterValidator(_path)]
"""A path in the devbox, from its working directory unless it is absolute."""

FilePath = Annotated[DirectoryPath, AfterValidator(_file)]
"""The path of a file in the devbox."""

Argument = Annotated[str, Field(max_length=MOST_PARAMS_BYTES // 4), AfterValidator(_argument)]
"""Something that is passed to a program as an argument, of at most 64 KiB however it is encoded."""

Params = Annotated[dict[str, Any], AfterValidator(_params)]
"""JSON that is passed on to a script."""


FILE_VARIABLE = "BENCHYARD_SCORER_CONTEXT_FILE"

_TEXTS = "benchyard.scorers.standalone.context_texts:texts_of"
_LIMITS = WorkerLimits(output_bytes=256 * 1024**2)
_SHUTS_OUT = {"BASH_ENV": "", "ENV": ""}
"""Files that shells would read before a script: none."""


async def scorer_environment(
    room: Room, context: ScoringContext, params: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """The variables for a scorer's commands; the whole context goes to the room as a file too."""
    try:
        # Of what is small, the work; of what is large, no more than a copy.
        given = marshal.dumps([dict(context.facts), dict(params or {})])
        if len(given) <= SMALL_BYTES:
            whole, shown = context_texts.texts(context.facts, params or {})
            content = whole.encode()
        else:
            made = await context.call(_TEXTS, given, limits=_LIMITS)
            shown, content = context_texts.split(made)
    except (ValueError, WorkerFailed) as error:
        raise ScorerFailed(f"the facts of this run cannot be told to a scorer: {error}") from error
    path = await room.keep("context.json", content)
    return {**_SHUTS_OUT, **dict.fromkeys(VARIABLES, shown), FILE_VARIABLE: path}
