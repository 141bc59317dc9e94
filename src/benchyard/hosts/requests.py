"""What the server asks of a host, and what it is told about an execution."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchyard.devboxes.base import DevboxLimits, HostFolder, Network


@dataclass(frozen=True)
class StartRequest:
    """A devbox to find or start, as the server asks for it; kept in the host's journal."""

    id: str
    image: str
    """An image id or name of the image store; a snapshot is an image too (its id is the snapshot's)."""
    network: Network = Network.NONE
    limits: DevboxLimits = field(default_factory=DevboxLimits)
    user: str = "user"
    """Who runs commands unless a request says otherwise."""
    uid: int | None = None
    """When given, that user is made inside the devbox if it is not there."""
    env: Mapping[str, str] = field(default_factory=dict)
    network_of: str | None = None
    """A devbox whose network this one shares: it has to run first."""
    mounts: tuple[HostFolder, ...] = ()
    """Folders of the host that it sees and cannot change."""
    tracing: bool = True
    """Whether its processes may trace each other, as debuggers do."""
    tracing_switch: bool = False
    """Whether that can be refused, and allowed again, while it runs; see `DevboxGrading.set_tracing`."""


@dataclass(frozen=True)
class ExecRequest:
    """A command to run in a devbox: a login shell's `-c`, from the user's home, unless a shell is named.

    With `argv` a program is run as it is, and no shell: nothing that lies in the devbox for shells to read
    comes before it.
    """

    id: str
    command: str = ""
    shell_name: str | None = None
    attach_stdin: bool = False
    user: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    pty: tuple[int, int] | None = None
    """Columns and rows: an interactive login shell when `command` is empty."""
    timeout_seconds: float | None = None
    request_hash: str | None = None
    """What identifies the caller's request; the same id with another hash is refused."""
    argv: tuple[str, ...] | None = None
    """The program and its arguments, instead of `command`; without a `/` it is looked for in PATH."""
    cwd: str | None = None
    """Where it begins; None is the user's home."""
    strict: bool = False
    """Output counts only up to the end of the command's own process; what it leaves behind is killed then."""


@dataclass(frozen=True)
class ExecutionState:
    """One execution, read from its folder."""

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
    """What to do about it, when that can be told: out of memory, no network, output cut, timed out."""
    signal: int | None = None
    """What ended it, when a signal did."""
    timed_out: bool = False


@dataclass(frozen=True)
class HostActivity:
    """The commands of all devboxes of a host, in numbers."""

    running: int
    queued: int
    """Those behind others in their named shells."""
    started: int
    """All since the host was opened."""
