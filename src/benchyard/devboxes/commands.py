"""What a driver is asked to run, to act on and to open in a devbox, and how a command ended."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Command:
    """One process to start in a devbox; `folder` exists and receives stdout, stderr and status.json."""

    id: str
    argv: tuple[str, ...]
    folder: Path
    user: str = "root"
    """A name of the devbox's own /etc/passwd, or a number."""
    cwd: str | None = None
    """None is the user's home; a missing directory fails the command with status 126."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the user's basic environment (HOME, USER, LOGNAME, SHELL, PATH, LANG, TERM)."""
    attach_stdin: bool = False
    """Else standard input is /dev/null."""
    pty: tuple[int, int] | None = None
    """Columns and rows: run on a terminal; everything it prints goes to `stdout`, input is attached."""
    timeout_seconds: float | None = None
    """After this the command and all its descendants are killed and `timed_out` is set."""
    extra_files: tuple[tuple[Path, str], ...] = ()
    output_bytes: int | None = None
    """What each of its streams may say; None is what the devbox's limits grant."""
    spare_bytes: int = 0
    """How much of the disk that its output lies on is left to others: where there is less, it is cut."""
    """Files of the host handed over as descriptors 8, 9, ...: (path, "r" | "w")."""
    strict: bool = False
    """Output counts only up to the end of the command's own process; what it leaves behind is killed then.

    Not for commands on a terminal.
    """


@dataclass(frozen=True)
class Status:
    """How a command ended: the content of `status.json`."""

    exit_status: int
    """0 to 255; 128 + n when signal n ended it; 126 or 127 when it could not be started."""
    timed_out: bool = False
    killed: bool = False
    """True when `Kill` was asked for."""
    stdout_truncated: bool = False
    stderr_truncated: bool = False
    ended_ms: int = 0
    error: str | None = None
    """Why it could not be started, or why it was cut short (for example out of memory)."""
    signal: int | None = None
    """The signal that ended it, if one did."""


def read_status(folder: Path) -> Status | None:
    """How the command of this execution folder ended; None while it runs."""
    try:
        with open(f"{folder}/status.json", "rb", buffering=0) as file:  # noqa: PTH123  (for every command)
            text = file.read()
    except FileNotFoundError:
        return None
    return Status(**json.loads(text)) if text else None


@dataclass(frozen=True)
class Signal:
    """Send a signal to the command's process group (or its terminal's foreground group)."""

    number: int


@dataclass(frozen=True)
class Kill:
    """Kill the command; with `tree` also every descendant, wherever it forked to."""

    tree: bool = True


@dataclass(frozen=True)
class Stdin:
    """Bytes for the command's standard input; `close` after them is end of file."""

    data: bytes = b""
    close: bool = False


@dataclass(frozen=True)
class Resize:
    """A new size for the command's terminal."""

    columns: int
    rows: int


Control = Signal | Kill | Stdin | Resize


@dataclass(frozen=True)
class OpenFile:
    """A file to open inside the devbox, as one of its users; relative paths and `~` start at its home."""

    path: str
    user: str = "root"
    write: bool = False
    """Create or truncate, making missing parent directories; else read."""
    mode: int = 0o644
    truncate: bool = True
    """Whether what a file that is written held before is gone as soon as it is open."""
    fresh: bool = False
    """Of a file to write: it is made anew, and what had its name is gone, unless that is a directory."""
    emptied_for: str = ""
    """Of a fresh file: its folder is made anew first, for this user; whatever had its name is gone."""
    group_of: str = ""
    """Of a fresh file: the user whose group it belongs to, so that a mode can tell that user from others."""
