"""The start of one command as one of the devbox's users.

A spawn costs a fraction of a fork, so the supervisor takes on the user's ids, directory and limits for the
moment of the spawn and puts them off again; its saved user id stays root all the while. Only a command on a
terminal is forked: it must take the terminal over before it runs.
"""

import fcntl
import os
import resource
import signal
import termios
from typing import Any, NamedTuple, NoReturn

from benchyard.devboxes.guest import users

NOT_STARTED = 126
NOT_FOUND = 127
FIRST_EXTRA_DESCRIPTOR = 8
_ABOVE_TARGETS = 64
_SIGNALS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
"""Signals to reset to their default and unblock for a command, whatever the server was started with: after
`nohup` or in the background of a script, some are ignored by all descendants.
"""


class CannotStart(Exception):
    """A command did not start: the reason, and the exit status that stands for it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Streams(NamedTuple):
    """The command's ends of its standard streams, and its other descriptors."""

    stdin: int
    stdout: int
    stderr: int
    extra: list[int]


def start(request: dict[str, Any], streams: Streams) -> int:
    """Start the command and return its pid; raise CannotStart."""
    try:
        user = users.find(request["user"])
        environment = {**user.environment(), "TERM": "xterm-256color" if request.get("pty") else "dumb"}
        environment.update(request["env"])
        folder = users.expand(request["cwd"], user) if request["cwd"] else _home(user)
        if request.get("pty"):
            return _fork(request, (user, folder, environment), streams)
        return _spawn(request, (user, folder, environment), streams)
    except FileNotFoundError as error:
        raise CannotStart(NOT_FOUND, f"{error.filename}: {error.strerror}") from error
    except (OSError, LookupError, ValueError) as error:
        raise CannotStart(NOT_STARTED, str(error)) from error


Login = tuple[users.User, str, dict[str, str]]


def _home(user: users.User) -> str:
    return user.home if os.path.isdir(user.home) else "/"


def _spawn(request: dict[str, Any], login: Login, streams: Streams) -> int:
    user, folder, environment = login
    sources = [
        fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, _ABOVE_TARGETS)
        for number in (*streams[:3], *streams.extra)
    ]
    targets = [*range(3), *range(FIRST_EXTRA_DESCRIPTOR, FIRST_EXTRA_DESCRIPTOR + len(streams.extra))]
    actions = [(os.POSIX_SPAWN_DUP2, source, target) for source, target in zip(sources, targets, strict=True)]
    _limit_files(request["max_file_bytes"])
    try:
        user.wear(can_change=request["can_change_user"])
        _enter(folder)
        program = _find(request["argv"][0], environment["PATH"])
        return os.posix_spawn(
            program,
            request["argv"],
            environment,
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=_SIGNALS,
        )
    finally:
        for number in sources:
            os.close(number)
        user.take_off(can_change=request["can_change_user"])
        os.chdir("/")


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        # Not "command not found": the command is there, the directory is not.
        raise CannotStart(NOT_STARTED, f"cannot enter {folder}: {error.strerror}") from error


def _find(program: str, path: str) -> str:
    """Search PATH by hand: the library's search imports modules, which are out of reach here."""
    if "/" in program:
        return program
    for folder in path.split(":"):
        if os.access(f"{folder}/{program}", os.X_OK):
            return f"{folder}/{program}"
    raise FileNotFoundError(2, "command not found", program)


def _limit_files(size: int) -> None:
    """Limit the size of single files; the supervisor itself runs with this soft limit."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = size if hard == resource.RLIM_INFINITY else min(size, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))


def _fork(request: dict[str, Any], login: Login, streams: Streams) -> int:
    pid = os.fork()
    if pid == 0:
        _run_on_terminal(request, login, streams)
    return pid


def _run_on_terminal(request: dict[str, Any], login: Login, streams: Streams) -> NoReturn:
    user, folder, environment = login
    for target, source in enumerate(streams[:3]):
        os.dup2(source, target)
    os.closerange(3, 4096)
    status = NOT_STARTED
    try:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        if request["can_change_user"]:
            os.fchown(0, user.uid, user.gid)
        user.become(can_change=request["can_change_user"])
        os.chdir(folder)
        signal.set_wakeup_fd(-1)
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        status = NOT_FOUND
        os.execve(_find(request["argv"][0], environment["PATH"]), request["argv"], environment)
    except OSError as error:
        os.write(2, f"benchyard: cannot start: {error}\r\n".encode(errors="replace"))
    os._exit(status)
