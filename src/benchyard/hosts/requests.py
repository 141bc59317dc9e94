"""Requests of the server to a host, and the reported state of an execution."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchyard.devboxes.base import DevboxLimits, HostFolder, Network


@dataclass(frozen=True)
class StartRequest:
    """A request of the server for a devbox to find or start; kept in the host's journal."""

    id: str
    image: str
    """An image id or name of the image store; a snapshot is an image too (its id is the snapshot's)."""
    network: Network = Network.NONE
    limits: DevboxLimits = field(default_factory=DevboxLimits)
    user: str = "user"
    """The user who runs commands unless a request names another."""
    uid: int | None = None
    """Number of the user, who is made inside the devbox if missing."""
    env: Mapping[str, str] = field(default_factory=dict)
    network_of: str | None = None
    """A devbox whose network this one shares: it has to run first."""
    mounts: tuple[HostFolder, ...] = ()
    """Folders of the host to show read-only."""
    tracing: bool = True
    """Let its processes trace each other, as debuggers do."""
    tracing_switch: bool = False
    """Tracing can be refused and allowed again while it runs; see `DevboxGrading.set_tracing`."""


@dataclass(frozen=True)
class ExecRequest:
    """A command to run in a devbox: a login shell's `-c`, from the user's home, unless a shell is named.

    With `argv` a program is run directly, without a shell: no startup file of a shell in the devbox runs
    before it.
    """

    id: str
    command: str = ""
    shell_name: str | None = None
    attach_stdin: bool = False
    user: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    pty: tuple[int, int] | None = None
    """Columns and rows: an interactive login shell if `command` is empty."""
    timeout_seconds: float | None = None
    request_hash: str | None = None
    """Identifies the caller's request; the same id with another hash is refused."""
    argv: tuple[str, ...] | None = None
    """The program and its arguments, instead of `command`; without a `/` it is looked for in PATH."""
    cwd: str | None = None
    """Working directory; None is the user's home."""
    strict: bool = False
    """Count output only up to the end of the command's own process, and kill its remaining children then."""


@dataclass(frozen=True)
class ExecutionState:
    """The state of an execution, read from its folder."""

    id: str
    devbox_id: str
    command: str
    status: str
    """`queued` (behind others in a named shell), `running` or `completed`."""
    shell_name: str | None = None
    exit_status: int | None = None
    start_ms: int = 0
    end_ms: int | None = None
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    hint: str | None = None
    """Advice, if the cause is known: out of memory, no network, output cut, timed out."""
    signal: int | None = None
    """The signal that ended it, if one did."""
    timed_out: bool = False


@dataclass(frozen=True)
class HostActivity:
    """The commands of all devboxes of a host, in numbers."""

    running: int
    queued: int
    """Commands behind others in their named shells."""
    started: int
    """All commands since the host was opened."""
