"""Runs an answer of BigCodeBench with its tests; a program for the room, of the standard library alone.

The parent is root, and all it does is to wait: the child becomes nobody, runs the answer and its tests as the
official harness does, in one module, and tells by a pipe what it counted. The parent's own output, which is
what the scorer reads, is out of the child's reach.
"""

import builtins
import contextlib
import importlib
import io
import json
import os
import resource
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
from typing import Any

NOBODY = 65534
_MODULE = "__test__"
_MOST_REPORT = 256 * 1024
_MOST_ISSUE = 4000
_MOST_ISSUES = 20
_WRITE, _EXIT = os.write, os._exit
Report = tuple[tuple[str, ...], tuple[tuple[str, str], ...]]
"""The tests that passed, and those that did not, with what they said."""
_WATCHED = (unittest.TestCase, unittest.TestSuite, unittest.BaseTestSuite, unittest.TestLoader)


class _Unreadable(io.StringIO):
    """Takes what is printed; has nothing to read, as in the official harness."""

    def read(self, *_: Any) -> str:
        raise OSError

    readline = readlines = read  # type: ignore[assignment]

    def readable(self) -> bool:
        return False


class _Counted(unittest.TestResult):
    """Counts by itself, whatever becomes of the class it is of."""

    def __init__(self) -> None:
        super().__init__()
        self.good: list[str] = []
        self.bad: list[tuple[str, str]] = []

    def addSuccess(self, test: Any) -> None:
        self.good.append(test.id())

    def addSkip(self, test: Any, reason: str) -> None:
        self.good.append(test.id())

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.good.append(test.id())

    def addUnexpectedSuccess(self, test: Any) -> None:
        # The official rule looks at failures and errors only.
        self.good.append(test.id())

    def addFailure(self, test: Any, err: Any) -> None:
        self.bad.append((test.id(), self._exc_info_to_string(err, test)))  # type: ignore[attr-defined]

    addError = addFailure

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.addFailure(subtest, err)


def main(path: str) -> None:
    """Do the job of a file, and print what came of it as one line of JSON."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        job = json.load(file)
    folder = tempfile.mkdtemp(prefix="answer-")
    os.chown(folder, NOBODY, NOBODY)
    reading, writing = os.pipe()
    token = secrets.token_hex(16)
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            _become_nobody(folder, job, writing)
            report = _tested(job)
        except BaseException as error:  # noqa: BLE001  as the official harness: whatever it was, it failed
            report = (), (("ALL", f"{type(error).__name__}: {error}"),)
        _tell(writing, token, report)
    os.close(writing)
    said, is_late = _wait(child, reading, float(job["seconds"]))
    shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(json.dumps(_verdict(said, token, job, is_late=is_late)) + "\n")


def _become_nobody(folder: str, job: dict[str, Any], keep: int) -> None:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    os.closerange(3, keep)
    os.closerange(keep + 1, 4096)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    for kind, most in job["limits"].items():
        limit = getattr(resource, kind)
        hard = resource.getrlimit(limit)[1]
        allowed = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(limit, (allowed, allowed))
    os.chdir(folder)
    os.environ.update(
        TZ="UTC",
        HOME=folder,
        TMPDIR=folder,
        USER="nobody",
        LOGNAME="nobody",
        OMP_NUM_THREADS="1",
        OPENBLAS_NUM_THREADS="1",
        TF_CPP_MIN_LOG_LEVEL="3",
        TF_ENABLE_ONEDNN_OPTS="0",
        PATH=os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"),
    )
    time.tzset()
    sys.path.insert(0, "")


def _tested(job: dict[str, Any]) -> Report:
    """What the tests say; the answer runs in here, so that nothing of it is trusted further than needed."""
    module = types.ModuleType(_MODULE)
    module.__dict__.update(
        __builtins__=builtins, __file__=f"{_MODULE}.py", __package__=None, sys=sys, os=os, environ=os.environ
    )
    builtins.exit = builtins.quit = None  # type: ignore[assignment]
    # Whoever looks for the main module finds one with nothing in it.
    sys.modules["__main__"] = types.ModuleType("__main__")
    own, before, pid = unittest.TestCase, _marks(), os.getpid()
    get_pid, end = os.getpid, os._exit
    result = _Counted()
    with _quiet():
        _close_figures()
        exec(compile(f"{job['code']}\n{job['test']}", f"{_MODULE}.py", "exec"), module.__dict__)  # noqa: S102
        sys.modules[_MODULE] = module
        cases = module.__dict__["TestCases"]
        if not issubclass(cases, own):
            return (), (("ALL", "TestCases is no TestCase of unittest"),)
        changed = _marks() != before
        unittest.TestLoader().loadTestsFromTestCase(cases).run(result)
    if get_pid() != pid:
        end(1)  # A copy of this process, which the answer made: it has nothing to tell.
    bad = [(name.split(".")[-1], text) for name, text in result.bad]
    if changed or _marks() != before:
        bad.append(("ALL", "the answer changed unittest itself"))
    return tuple(name.split(".")[-1] for name in result.good), tuple(bad)


def _marks() -> list[Any]:
    """What makes unittest say what it says: each part, by identity."""
    parts = [
        (each, name, id(part)) for each in _WATCHED for name, part in vars(each).items() if callable(part)
    ]
    made = [builtins.__build_class__, builtins.AssertionError, builtins.issubclass, builtins.isinstance]
    return [*parts, *map(id, (unittest.TestCase, unittest.TestLoader, *made))]


@contextlib.contextmanager
def _quiet() -> Any:
    """Nothing is printed, nothing is read; what programs print is taken, unless the answer takes it."""
    taken, popen, run = _Unreadable(), subprocess.Popen, subprocess.run

    def silent(started: Any) -> Any:
        def call(*args: Any, **given: Any) -> Any:
            if given.get("capture_output"):
                given = {name: value for name, value in given.items() if name not in ("stdout", "stderr")}
            else:
                given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **given}
            return started(*args, **given)

        return call

    before = sys.stdin
    with contextlib.redirect_stdout(taken), contextlib.redirect_stderr(taken):
        sys.stdin = taken
        subprocess.Popen, subprocess.run = silent(popen), silent(run)  # type: ignore[misc]
        try:
            yield
        finally:
            subprocess.Popen, subprocess.run, sys.stdin = popen, run, before  # type: ignore[misc]


def _close_figures() -> None:
    try:
        pyplot = importlib.import_module("matplotlib.pyplot")
    except ImportError:
        return
    pyplot.close("all")


def _tell(writing: int, token: str, report: Report) -> None:
    """Write a report, with nothing but methods of texts: all else the answer may have changed."""
    good, bad = report
    told = [
        f"{name}:{text[-_MOST_ISSUE:].encode(errors='replace').hex()}" for name, text in bad[:_MOST_ISSUES]
    ]
    _WRITE(writing, f"{token} {','.join(good)} {','.join(told)}\n".encode(errors="replace"))
    _EXIT(0)


def _wait(child: int, reading: int, seconds: float) -> "tuple[bytes, bool]":
    """What the child told, and whether its time was over; nothing of it is left afterwards."""
    said, deadline, ended = b"", time.monotonic() + seconds, False
    open_pipes = [reading]
    while time.monotonic() < deadline:
        ready = select.select(open_pipes, [], [], 0 if ended else 0.02)[0]
        piece = os.read(reading, 65536) if ready else b""
        said = (said + piece)[:_MOST_REPORT]
        if ended and not piece:
            break
        if ready and not piece:
            open_pipes = []
        ended = ended or os.waitpid(child, os.WNOHANG)[0] != 0
    _end_all_of_nobody()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    return said, not ended


def _end_all_of_nobody() -> None:
    for _ in range(50):
        found = [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_nobodys(name)]  # noqa: PTH208
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _is_nobodys(pid: str) -> bool:
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8") as file:  # noqa: PTH123
            lines = file.read().splitlines()
    except OSError:
        return False
    about = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    return about.get("State", ["Z"])[0] != "Z" and about.get("Uid", ["0"])[0] == str(NOBODY)


def _verdict(said: bytes, token: str, job: dict[str, Any], *, is_late: bool) -> dict[str, Any]:
    if is_late:
        return {"passed": False, "reason": f"not done after {job['seconds']:.0f} seconds"}
    lines = [line for line in said.splitlines() if line.startswith(token.encode() + b" ")]
    if len(lines) != 1:
        return {"passed": False, "reason": "it ended before the tests did"}
    _, passed, failed = lines[0].decode(errors="replace").split(" ", 2)
    good = [name for name in passed.split(",") if name]
    told = [each.partition(":") for each in failed.split(",") if each]
    bad = [(name, bytes.fromhex(text).decode(errors="replace")) for name, _, text in told]
    missed = sorted(set(job["expected"]) - set(good) - {name for name, _ in bad})
    if not bad and (missed or not good):
        bad = [("ALL", f"tests did not run: {', '.join(missed) or 'there is none'}")]
    return {"passed": not bad, "good": len(good), "bad": bad}


if __name__ == "__main__":
    main(sys.argv[1])
