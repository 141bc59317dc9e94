"""The scorer contract: what a scorer must implement, its fields, and the room it grades in."""

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
"""Most bytes of one scorer's output that are kept with the result, taken from its end."""


@dataclass(frozen=True)
class RoomResult:
    """Result of a command in the room."""

    exit_status: int
    """0 to 255; 128 + n when signal n ended it; 126 or 127 when it could not be started."""
    stdout: bytes
    """End of the output, at most `ProgramOptions.most_output` bytes.

    Only output written before the command's own process ended is in it.
    """
    stderr: bytes
    timed_out: bool = False
    signal: int | None = None
    """Signal that ended the command; None if none did."""
    truncated: bool = False
    """True if more was written to stdout than the host keeps, so that its end is unknown."""


@dataclass(frozen=True)
class ProgramOptions:
    """Options for running a program in the room."""

    env: Mapping[str, str] = field(default_factory=dict)
    """Variables added to the devbox's own environment."""
    cwd: str | None = None
    """Directory the program starts in; None is the working directory."""
    user: str | None = None
    """User the program runs as; None is the user who grades."""
    most_output: int = MOST_OUTPUT_BYTES
    """Most bytes of output that are returned, taken from its end; the host keeps more."""


AS_USUAL = ProgramOptions()


class GraderConfig(Model):
    """Fields shared by scorers that run a script or a command."""

    user: Literal["root"] | None = None
    """User who grades (an extension); None is the scenario's user.

    With `root`, the scenario's user can neither read the scripts and tests nor touch the processes; the
    command named by the variable `BENCHYARD_GRADED` runs what is graded, as the scenario's user.
    """


class Room(ABC):
    """The devbox a scorer grades in, as the scorer sees it."""

    tools: str | None = None
    """Folder of the shell and plain tools of the image the devbox began from.

    None if the devbox still has its own unchanged, or no such kit can be shown.
    """

    guarded: Sequence[str] = ()
    """Paths of files put into the room that only the grading user may replace."""

    working_directory: str
    """Directory where commands run and relative paths begin."""

    @abstractmethod
    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> str:
        """Write a file, replacing anything of that name; return its absolute path.

        If another user than the scenario's grades, only that user may read it. Relative paths begin at the
        working directory. Raises ScorerFailed if the file cannot be written.
        """

    @abstractmethod
    async def keep(self, name: str, content: bytes) -> str:
        """Write a file in a folder that the graded work could not prepare; return its path.

        Only root can change it; only root and the grading user may read it. A name that a scorer uses again
        replaces the file with a new one.
        """

    @abstractmethod
    async def clear(self, folder: str, user: str | None = None) -> None:
        """Create an empty folder, replacing anything that has its name or blocks its path.

        It belongs to `user`, or to root if none is given. Raises ScorerFailed if it cannot be created.
        """

    @abstractmethod
    async def fetch(self, path: str, limit: int) -> bytes | None:
        """Return the content of a file, read by the host as root; None if there is none.

        Raises ScorerFailed if it is larger than `limit`.
        """

    @abstractmethod
    async def run(self, argv: Sequence[str], how: ProgramOptions = AS_USUAL) -> RoomResult:
        """Run a program to its end, without a login shell.

        A missing directory ends it with 126. All commands of a scorer share the time that the scenario gives
        it: when it is over, the running command is killed with all its descendants, and `timed_out` is set.
        """


async def _nothing_attached(name: str) -> bytes:
    raise ScorerFailed(f"the scenario has no attachment {name!r}, which its scorer needs; import it again")


async def _nothing_counted() -> Sequence[CountedTests]:
    return ()


@dataclass(frozen=True)
class ScoringContext:
    """Facts and services that a scorer gets about the run it grades."""

    facts: Mapping[str, object] = field(default_factory=dict)
    """Problem statement, duration, usage and cost when known, path of the trajectory."""
    scripts: Mapping[str, str] = field(default_factory=dict)
    """Type -> bash script of the registered custom scorers that the contract names."""
    attached: Callable[[str], Awaitable[bytes]] = _nothing_attached
    """Returns the content of an attachment of the scenario; raises ScorerFailed if it is missing."""
    call: WorkerCall = call_once
    """Runs a function in a worker; content that came out of a devbox is parsed and graded only there."""
    counted: Callable[[], Awaitable[Sequence[CountedTests]]] = _nothing_counted
    """Returns the test counts in the reference's reports; empty if they are unknown."""
    official: bool = False
    """True if the scenario belongs to a public benchmark, whose official verdict is never changed."""


@dataclass(frozen=True)
class Verdict:
    """A score from 0.0 to 1.0, and the output that led to it."""

    score: float
    output: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Facts kept with the result, such as the Python that was used or the revision of a script."""
    rewards: Mapping[str, float] = field(default_factory=dict)
    """All rewards by name; empty if the score is the only one and has no name."""
    suspect: str | None = None
    """Reason, in one line, why a score above 0 may not be earned, such as a missing test report."""
    counted: CountedTests | None = None
    """Test counts of the test runner's report, if it left one."""


class Scorer(ABC, Generic[C]):
    """Base class of scorers; `type` on the wire is the module's name followed by `_scorer`.

    Each grading has a new instance: `kits` is awaited first, then `score`, once each. `output`,
    `facts` and `rewards` in the details of a ScorerFailed are kept with the result, like those of a Verdict.
    A scorer that fails is tried again in a new room; a second failure counts against the answer, unless the
    scorer fails on the reference too.
    """

    Config: ClassVar[type[Model]]
    uses_shell: ClassVar[bool] = False
    """True if it runs a script by the room's shell."""
    dependencies: ClassVar[tuple[Dependency, ...]] = ()
    """Programs and packages that the server must have; a job is refused where one is missing."""
    draws: ClassVar[bool] = False
    """True if the answer is drawn first (`draw`), to be graded in a devbox in the state of the start.

    Only for scenarios whose isolation is `answer`: the room it draws from has their answer paths, nothing
    else.
    """

    def __init__(self, config: C, context: ScoringContext) -> None:
        self.config = config
        self.context = context
        self.answer = b""
        """The drawn answer."""

    @property
    def user(self) -> str | None:
        """User who grades; None is the scenario's user."""
        return self.config.user if isinstance(self.config, GraderConfig) else None

    async def kits(self, kits: Kits) -> tuple[Kit, ...]:
        """Return the kits the room must show before it opens; raises ScorerFailed with the remedy."""
        return ()

    async def draw(self, room: Room) -> bytes:
        """Return the answer as the room shows it; raises ScorerFailed if it cannot be read."""
        return b""

    @abstractmethod
    async def score(self, room: Room) -> Verdict:
        """Grade; raises ScorerFailed with the reason if there is no score."""


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
        raise PydanticCustomError("not_json", "must be valid JSON values, and not nested deeply") from error
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
"""An argument of a program, of at most 64 KiB in any encoding."""

Params = Annotated[dict[str, Any], AfterValidator(_params)]
"""JSON that is passed on to a script."""


FILE_VARIABLE = "BENCHYARD_SCORER_CONTEXT_FILE"

_TEXTS = "benchyard.scorers.standalone.context_texts:texts_of"
_LIMITS = WorkerLimits(output_bytes=256 * 1024**2)
_SHUTS_OUT = {"BASH_ENV": "", "ENV": ""}
"""Variables that keep shells from reading files before a script."""


async def scorer_environment(
    room: Room, context: ScoringContext, params: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return the variables for a scorer's commands, and write the whole context to a file in the room."""
    try:
        # Small contexts are encoded here; large ones are only copied, and encoded in a worker.
        given = marshal.dumps([dict(context.facts), dict(params or {})])
        if len(given) <= SMALL_BYTES:
            whole, shown = context_texts.texts(context.facts, params or {})
            content = whole.encode()
        else:
            texts = await context.call(_TEXTS, given, limits=_LIMITS)
            shown, content = context_texts.split(texts)
    except (ValueError, WorkerFailed) as error:
        raise ScorerFailed(f"the facts of this run cannot be passed to a scorer: {error}") from error
    path = await room.keep("context.json", content)
    return {**_SHUTS_OUT, **dict.fromkeys(VARIABLES, shown), FILE_VARIABLE: path}
