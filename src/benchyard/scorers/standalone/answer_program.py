"""Runs graded programs as another user than the grader, out of its reach: `graded [--seconds N] COMMAND...`.

A program for rooms, of the standard library alone, that old Pythons of images can run too. The command is in
a session of its own, has no descriptor but its standard streams, and gains no rights by any program. Its
output is copied as long as it runs, so that it never holds a descriptor of the grader; when it has ended,
everything it left running is killed. The exit status is the command's, 128 + n for signal n, 124 when its
time was over, 126 or 127 when it could not be started.

`graded --cases COMMAND...` runs the command once for each case, every time as if it were alone, and starts
Python once for all of them. The cases are a list in JSON on standard input, each with `arguments`, which are
added to the command, and `stdin`; the output is a list of `exit_status`, `stdout` and `stderr`.
"""

from __future__ import annotations

# Graders start this program often: `signal`, `ctypes`, `struct`, `typing` and `collections` take longer to
# import than the rest of its work takes.
import _ctypes
import _signal  # type: ignore[import-not-found]
import fcntl
import os
import select
import sys
import time

USER = "nobody"
"""User the command runs as; this value and `WITHHELD` are rewritten when the program is put into a room."""
WITHHELD: list[str] = []
"""Variables of the grader that are not passed on."""
_NOBODY = 65534
_TIME_OVER, _NOT_STARTED, _NOT_FOUND = 124, 126, 127
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
_FIONREAD = 0x541B
_PIECE = 65536
_MOST_DESCRIPTORS = 65536
_MOST_FILE_BYTES = 1024 * 1024
_MOST_KEPT_BYTES = 1024 * 1024
"""Most bytes kept of each stream of a case; the rest is dropped."""
_LAST_SECONDS = 5.0


def _prctl(option: int, value: int) -> None:
    own = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]
    _ctypes.call_function(_ctypes.dlsym(own, "prctl"), (option, value, 0, 0, 0))


def _rows(path: str) -> list[list[str]]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return [line.split(":") for line in file.read(_MOST_FILE_BYTES).splitlines()]
    except OSError:
        return []


def _account(name: str) -> tuple[int, list[int], str]:
    """Return a user's number, groups and home; never root, even if the work changed /etc/passwd."""
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
    """Become the user, for good and without a way to other rights; stay root if there is only one user."""
    if os.geteuid() == 0 and _has_several_users():
        uid, groups, home = _account(name)
        os.setgroups(groups)
        os.setresgid(groups[0], groups[0], groups[0])
        os.setresuid(uid, uid, uid)
        os.environ.update(HOME=home, USER=name, LOGNAME=name)
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    _prctl(_PR_SET_PDEATHSIG, _signal.SIGKILL)


def _execute(command: list[str]) -> None:
    """Replace this process by a program, searching PATH by hand: the library's search imports modules."""
    refused = OSError(2, "command not found")
    folders = [""] if "/" in command[0] else os.environ.get("PATH", os.defpath).split(":")
    for folder in folders:
        try:
            os.execv(f"{folder}/{command[0]}" if folder else command[0], command)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            refused = error
    raise refused


def _run_command(command: list[str], streams: list[int]) -> None:
    """Replace a forked child by the command; `streams` become its first descriptors."""
    status = _NOT_STARTED
    try:
        os.setsid()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        os.closerange(3, _MOST_DESCRIPTORS)
        # Python ignores these two signals for itself.
        for signal in (_signal.SIGPIPE, _signal.SIGXFSZ):
            _signal.signal(signal, _signal.SIG_DFL)
        for variable in WITHHELD:
            os.environ.pop(variable, None)
        _become(USER)
        status = _NOT_FOUND
        _execute(command)
    except (OSError, ValueError, OverflowError) as error:
        os.write(2, f"graded: cannot run {command[0][:200]}: {error}\n".encode(errors="replace"))
    finally:
        # Never continue with the rights of the grader, whatever the error.
        os._exit(status)


class _Passed:
    """Passes the command's output on to this program's own output while it runs."""

    def take(self, stream: int, piece: bytes) -> bool:
        """Pass a piece on; return False if its reader is gone."""
        try:
            while piece:
                piece = piece[os.write(stream, piece) :]
        except OSError:
            return False
        return True


class _Kept:
    """Keeps the command's output, up to a size."""

    def __init__(self) -> None:
        self.streams = {1: b"", 2: b""}

    def take(self, stream: int, piece: bytes) -> bool:
        """Keep a piece; the rest is read too, so that the command is not held up."""
        self.streams[stream] += piece[: _MOST_KEPT_BYTES - len(self.streams[stream])]
        return True


def _copy(sources: dict[int, int], source: int, most: int, printed: _Passed | _Kept) -> None:
    """Take the next piece of a stream; drop a stream that has ended."""
    piece = os.read(source, most)
    if not piece or not printed.take(sources[source], piece):
        # Closing the pipe lets the command notice a missing reader as it would without this process.
        del sources[source]
        os.close(source)


def _copy_rest(sources: dict[int, int], printed: _Passed | _Kept) -> None:
    """Take the output that was in the pipes when the command ended, but no later output."""
    for source in list(sources):
        left = int.from_bytes(fcntl.ioctl(source, _FIONREAD, bytes(4)), sys.byteorder)
        while left > 0 and source in sources:
            size = min(left, _PIECE)
            _copy(sources, source, size, printed)
            left -= size


class _Input:
    """Standard input of a case, written to a pipe as fast as the command reads."""

    def __init__(self, content: bytes) -> None:
        self.reading, self.writing = os.pipe()
        self._left = memoryview(content)
        os.set_blocking(self.writing, False)

    @property
    def waiting(self) -> list[int]:
        """The pipe, as long as input is left to write; else empty."""
        return [] if self.writing < 0 else [self.writing]

    def feed(self) -> None:
        """Write as much as the pipe takes."""
        try:
            self._left = self._left[os.write(self.writing, self._left[:_PIECE]) :]
        except BlockingIOError:
            return
        except OSError:
            self._left = self._left[:0]
        if not self._left:
            self.close()

    def close(self) -> None:
        """Close the pipe, so that the command sees the end of its input."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1


def _children() -> list[int]:
    own, children = str(os.getpid()).encode(), []
    for name in os.listdir("/proc"):  # noqa: PTH208
        try:
            with open(f"/proc/{int(name)}/stat", "rb") as file:  # noqa: PTH123
                if file.read().rpartition(b")")[2].split()[1] == own:
                    children.append(int(name))
        except (OSError, ValueError):
            continue
    return children


def _end_all() -> None:
    """Kill all processes the command left, which are descendants of this one; give up after some seconds."""
    deadline = time.monotonic() + _LAST_SECONDS
    while time.monotonic() < deadline:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        for pid in _children():
            try:
                os.kill(pid, _signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.001)


def _prepare() -> int:
    """Become the undumpable parent of orphans; return a pipe that is readable when a child ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_DUMPABLE, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    _signal.set_wakeup_fd(wake)
    return woken


def run(
    command: list[str],
    seconds: float | None,
    woken: int,
    printed: _Passed | _Kept,
    given: _Input | None = None,
) -> int:
    """Run the command to its end; return its exit status."""
    pipes = [os.pipe(), os.pipe()]
    child = os.fork()
    if child == 0:
        _signal.set_wakeup_fd(-1)
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        _run_command(command, [given.reading if given else 0, *(writing for _reading, writing in pipes)])
    for _reading, writing in pipes:
        os.close(writing)
    if given is not None:
        os.close(given.reading)
    sources: dict[int, int] = {reading: number for number, (reading, _writing) in enumerate(pipes, 1)}
    try:
        return _wait(child, seconds, woken, sources, printed, given)
    finally:
        for source in sources:
            os.close(source)
        if given is not None:
            given.close()


def _wait(
    child: int,
    seconds: float | None,
    woken: int,
    sources: dict[int, int],
    printed: _Passed | _Kept,
    given: _Input | None,
) -> int:
    deadline = None if seconds is None else time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            _end_all()
            return _TIME_OVER
        waiting = given.waiting if given else []
        readable, writable, _ = select.select([woken, *sources], waiting, [], left)
        for ready in readable:
            if ready == woken:
                os.read(woken, _PIECE)
            else:
                _copy(sources, ready, _PIECE, printed)
        if writable and given is not None:
            given.feed()
    _copy_rest(sources, printed)
    _end_all()
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def run_cases(command: list[str], seconds: float | None) -> None:
    """Run the command once for each case given on standard input, and print the results."""
    import json  # noqa: PLC0415  (not needed for a single command)

    with os.fdopen(os.dup(0), "rb") as file:
        cases = json.loads(file.read())
    woken, results = _prepare(), []
    for case in cases:
        printed = _Kept()
        whole = [*command, *(str(argument) for argument in case.get("arguments", []))]
        status = run(whole, seconds, woken, printed, _Input(case.get("stdin", "").encode()))
        out, errors = (printed.streams[number].decode(errors="replace") for number in (1, 2))
        results.append({"exit_status": status, "stdout": out, "stderr": errors})
    _Passed().take(1, json.dumps(results).encode() + b"\n")


def main(words: list[str]) -> None:
    """Run the command that the arguments name."""
    seconds, has_cases = None, False
    while words[:1] in (["--seconds"], ["--cases"]):
        if words[0] == "--cases":
            has_cases, words = True, words[1:]
        elif len(words) > 1:
            seconds, words = float(words[1]), words[2:]
        else:
            words = []
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        sys.exit("usage: graded [--seconds N] [--cases] COMMAND...")
    if has_cases:
        run_cases(words, seconds)
        os._exit(0)
    os._exit(run(words, seconds, _prepare(), _Passed()))


if __name__ == "__main__":
    main(sys.argv[1:])
