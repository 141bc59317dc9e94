"""Runs what is graded as a user of its own, out of reach of who grades: `graded [--seconds N] COMMAND...`.

A program for rooms, of the standard library alone, that old Pythons of images can run too. The command is in
a session of its own, has no descriptor but its standard streams, and gains no rights by any program. What it
prints is copied as long as it runs, so that it never holds a descriptor of who grades; when it has ended,
everything it left running is killed. The exit status is the command's, 128 + n for signal n, 124 when its
time was over, 126 or 127 when it could not be started.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator  # and nothing of `typing`, which takes longer to import than all else

USER = "nobody"
"""Who it is run as; written here by who puts this program in its place, as is what follows."""
WITHHELD: list[str] = []
"""Variables of who grades that are not passed on."""
_NOBODY = 65534
_TIME_OVER, _NOT_STARTED, _NOT_FOUND = 124, 126, 127
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
_PIECE = 65536
_MOST_DESCRIPTORS = 65536
_MOST_FILE_BYTES = 1024 * 1024
_LAST_SECONDS = 5.0


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _rows(path: str) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return [line.split(":") for line in file.read(_MOST_FILE_BYTES).splitlines()]
    except OSError:
        return []


def _account(name: str) -> tuple[int, list[int], str]:
    """The user's number, groups and home; never root, whatever the work made of the list of users."""
    for row in _rows("/etc/passwd"):
        if len(row) >= 7 and name in (row[0], row[2]) and row[2].isdigit() and row[3].isdigit():
            others = [
                each[2] for each in _rows("/etc/group") if len(each) > 3 and row[0] in each[3].split(",")
            ]
            groups = [int(each) for each in (row[3], *others) if each.isdigit() and int(each)]
            if int(row[2]):
                return int(row[2]), groups[:32] or [_NOBODY], row[5] or "/"
    return _NOBODY, [_NOBODY], "/"


def _has_several_users() -> bool:
    with open("/proc/self/uid_map", encoding="ascii") as file:  # noqa: PTH123
        return sum(int(line.split()[2]) for line in file) > 1


def _become(name: str) -> None:
    """Turn into the user, with no way back, and none to other rights; where there is but one user, stay."""
    if os.geteuid() == 0 and _has_several_users():
        uid, groups, home = _account(name)
        os.setgroups(groups)
        os.setresgid(groups[0], groups[0], groups[0])
        os.setresuid(uid, uid, uid)
        os.environ.update(HOME=home, USER=name, LOGNAME=name)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _run_command(command: list[str], outputs: list[int]) -> None:
    """Become the command, in a forked child; `outputs` are what it prints to."""
    status = _NOT_STARTED
    try:
        os.setsid()
        for number, descriptor in enumerate(outputs, 1):
            os.dup2(descriptor, number)
        os.closerange(3, _MOST_DESCRIPTORS)
        # Python ignores these two for itself.
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        for variable in WITHHELD:
            os.environ.pop(variable, None)
        _become(USER)
        status = _NOT_FOUND
        os.execvp(command[0], command)
    except (OSError, ValueError, OverflowError) as error:
        os.write(2, f"graded: cannot run {command[0][:200]}: {error}\n".encode(errors="replace"))
    finally:
        # Whatever it was: nothing goes on as who grades.
        os._exit(status)


def _copy(sources: dict[int, int], source: int, most: int) -> None:
    """Take what a stream has to its place; forget one that has ended."""
    piece = os.read(source, most)
    if not piece:
        del sources[source]
        return
    try:
        while piece:
            piece = piece[os.write(sources[source], piece) :]
    except OSError:
        # Nobody reads it any more: the command learns of it as it would without this process between.
        del sources[source]
        os.close(source)


def _copy_rest(sources: dict[int, int]) -> None:
    """Take what streams had when the command ended, not what others write on."""
    for source in list(sources):
        (left,) = struct.unpack("i", fcntl.ioctl(source, termios.FIONREAD, bytes(4)))
        while left > 0 and source in sources:
            size = min(left, _PIECE)
            _copy(sources, source, size)
            left -= size


def _children() -> Iterator[int]:
    own = str(os.getpid()).encode()
    for name in os.listdir("/proc"):  # noqa: PTH208
        try:
            with open(f"/proc/{int(name)}/stat", "rb") as file:  # noqa: PTH123
                if file.read().rpartition(b")")[2].split()[1] == own:
                    yield int(name)
        except (OSError, ValueError):
            continue


def _end_all() -> None:
    """Kill what the command left, which is below this process wherever it went; not for ever."""
    deadline = time.monotonic() + _LAST_SECONDS
    while time.monotonic() < deadline:
        for pid in _children():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.001)


def run(command: list[str], seconds: float | None) -> int:
    """Run the command to its end, and tell its exit status."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_DUMPABLE, 0)
    pipes = [os.pipe(), os.pipe()]
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    child = os.fork()
    if child == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _run_command(command, [writing for _reading, writing in pipes])
    for _reading, writing in pipes:
        os.close(writing)
    sources: dict[int, int] = {reading: number for number, (reading, _writing) in enumerate(pipes, 1)}
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            _end_all()
            return _TIME_OVER
        for ready in select.select([woken, *sources], [], [], left)[0]:
            if ready == woken:
                os.read(woken, _PIECE)
            else:
                _copy(sources, ready, _PIECE)
    _copy_rest(sources)
    _end_all()
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def main(words: list[str]) -> None:
    """Take the command from the arguments."""
    seconds = None
    if words[:1] == ["--seconds"] and len(words) > 1:
        seconds, words = float(words[1]), words[2:]
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        sys.exit("usage: graded [--seconds N] COMMAND...")
    os._exit(run(words, seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
