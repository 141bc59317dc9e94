"""Starting one command as one of the devbox's users: what happens between fork and exec."""

import fcntl
import os
import resource
import signal
import termios
from typing import Any, NoReturn

from benchyard.devboxes.box import users

NOT_STARTED = 126
NOT_FOUND = 127
FIRST_EXTRA_DESCRIPTOR = 8


class Streams:
    """The command's ends of its standard streams, and what else it is given."""

    def __init__(self, stdin: int, stdout: int, stderr: int, extra: list[int]) -> None:
        self.standard = (stdin, stdout, stderr)
        self.extra = extra


def run(request: dict[str, Any], streams: Streams) -> NoReturn:
    """Become the command (in a forked child); says why on its stderr when that fails."""
    _arrange(streams)
    status = NOT_STARTED
    try:
        os.setsid()
        if request.get("pty"):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        user = users.find(request["user"])
        if request.get("pty") and request["can_change_user"]:
            os.fchown(0, user.uid, user.gid)
        user.become(can_change=request["can_change_user"])
        environment = {**user.environment(), "TERM": "xterm-256color" if request.get("pty") else "dumb"}
        environment.update(request["env"])
        os.chdir(users.expand(request["cwd"], user) if request["cwd"] else _home(user))
        _reset(request)
        status = NOT_FOUND
        _execute(request["argv"], environment)
    except (OSError, LookupError, ValueError) as error:
        text = f"benchyard: cannot start {request['argv'][:1]}: {error}\n"
        os.write(2, text.encode(errors="replace"))
    os._exit(status)


def _home(user: users.User) -> str:
    return user.home if os.path.isdir(user.home) else "/"


def _arrange(streams: Streams) -> None:
    """Put every descriptor at its number, first moving all out of the way of each other."""
    high = 64
    targets = [*range(3), *range(FIRST_EXTRA_DESCRIPTOR, FIRST_EXTRA_DESCRIPTOR + len(streams.extra))]
    moved = [
        fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, high) for number in (*streams.standard, *streams.extra)
    ]
    for source, target in zip(moved, targets, strict=True):
        os.dup2(source, target)
    os.closerange(3, FIRST_EXTRA_DESCRIPTOR)
    os.closerange(FIRST_EXTRA_DESCRIPTOR + len(streams.extra), 4096)


def _reset(request: dict[str, Any]) -> None:
    signal.set_wakeup_fd(-1)
    # Python ignores these two; handlers of others end with exec by themselves.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, request["max_file_bytes"])
    os.umask(0o022)


def _limit(kind: int, value: int) -> None:
    """Set a limit, never above what we may have."""
    _soft, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def _execute(argv: list[str], environment: dict[str, str]) -> None:
    """execve by our own search of PATH: the library's imports modules, and they are out of reach here."""
    program = argv[0]
    if "/" in program:
        os.execve(program, argv, environment)
    for folder in environment["PATH"].split(":"):
        try:
            os.execve(f"{folder}/{program}", argv, environment)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            continue
    raise FileNotFoundError(2, "command not found", program)
