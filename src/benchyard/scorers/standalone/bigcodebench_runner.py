"""Runs an answer of BigCodeBench with its tests; a program for the room, of the standard library alone.

The parent is root, and keeps the list of tests and the count. The child is a program of its own, so that no
frame of the parent is below the answer; it becomes nobody and runs the answer and its tests as the official
harness does, in one module. Over a pipe it reports which test begins, gets a secret word for it, and reports
with that word how the test ended. The parent's own output, which the scorer reads, is out of the child's
reach. Code of the answer can still tamper with its tests inside the child: the word does not prevent that.
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
from typing import Any, NoReturn

NOBODY = 65534
_MODULE = "__test__"
_CHILD = "--child"
_MOST_REPORT = 1024**2
_WORD_BYTES = 16
_MOST_ISSUE = 4000
_MOST_ISSUES = 20
_SKIPPED = "~"
"""Ending added to the name of a skipped test, which by the official rule is no failure."""
_READ, _WRITE, _EXIT, _GET_PID = os.read, os.write, os._exit, os.getpid
_WATCHED = (unittest.TestCase, unittest.TestSuite, unittest.BaseTestSuite, unittest.TestLoader)


class _Unreadable(io.StringIO):
    """Collects printed text and has nothing to read, as in the official harness."""

    def read(self, *_: Any) -> str:
        raise OSError

    readline = readlines = read  # type: ignore[assignment]

    def readable(self) -> bool:
        return False


class _Teller:
    """Reports to the parent by saved functions and methods of texts only: the answer may change all else."""

    def __init__(self, telling: int, given: int) -> None:
        self._telling = telling
        self._given = given
        self._pid = _GET_PID()
        self._issues = 0
        self._word = ""

    def is_copy(self) -> bool:
        """Tell whether this is a process that the answer forked: it must not report."""
        return _GET_PID() != self._pid

    def begin(self, name: str) -> None:
        """Report that a test begins, or the whole run, and read the secret word for it."""
        if not self.is_copy():
            self._tell(f"begin {name}")
            self._word = _READ(self._given, 2 * _WORD_BYTES).decode()

    def good(self, name: str) -> None:
        """Report that a test passed."""
        self._tell(f"good {name} {self._word}")

    def bad(self, name: str, text: str) -> None:
        """Report that a test failed, with its message."""
        self._issues += 1
        said = text[-_MOST_ISSUE:] if self._issues <= _MOST_ISSUES else ""
        self._tell(f"bad {name} {self._word} {said.encode(errors='replace').hex()}")

    def end(self) -> NoReturn:
        """Report that all tests were run, and exit."""
        self._tell(f"done - {self._word}")
        _EXIT(0)

    def _tell(self, line: str) -> None:
        if not self.is_copy():
            _WRITE(self._telling, f"{line}\n".encode(errors="replace"))


class _Outcomes(unittest.TestResult):
    """Reports each outcome at once, even if its test class fails later."""

    def __init__(self, teller: _Teller) -> None:
        super().__init__()
        self._teller = teller

    def startTest(self, test: Any) -> None:
        super().startTest(test)
        self._teller.begin(_name(test))

    def addSuccess(self, test: Any) -> None:
        self._teller.good(_name(test))

    def addSkip(self, test: Any, reason: str) -> None:
        # A skipped subtest is reported under the name of its whole test.
        self._teller.good(f"{_name(getattr(test, 'test_case', test))}{_SKIPPED}")

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self._teller.good(_name(test))

    def addUnexpectedSuccess(self, test: Any) -> None:
        # The official rule looks at failures and errors only.
        self._teller.good(_name(test))

    def addFailure(self, test: Any, err: Any) -> None:
        self._teller.bad(_name(test), self._exc_info_to_string(err, test))  # type: ignore[attr-defined]

    addError = addFailure

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self.addFailure(subtest, err)


def _name(test: Any) -> str:
    """Return the last part of a test's name, without characters that would split a line into more words."""
    return "_".join(test.id().split(".")[-1].split()) or "-"


class _Count:
    """Counts, in the parent, the child's reports that carry the secret word it was given."""

    def __init__(self, giving: int) -> None:
        self.good: list[str] = []
        self.bad: list[tuple[str, str]] = []
        self.is_done = False
        self._giving = giving
        self._word = ""
        self._left = b""
        self._size = 0

    def take(self, piece: bytes) -> None:
        """Process the next piece of the child's reports."""
        self._size += len(piece)
        *lines, self._left = (self._left + piece).split(b"\n")
        for line in lines if self._size <= _MOST_REPORT else ():
            self._note(line.decode(errors="replace").split(" "))

    def _note(self, words: list[str]) -> None:
        kind, name, *rest = [*words, "", ""]
        if kind == "begin":
            self._word = secrets.token_hex(_WORD_BYTES)
            with contextlib.suppress(OSError):
                os.write(self._giving, self._word.encode())
        elif self._word and secrets.compare_digest(rest[0].encode(), self._word.encode()):
            if kind == "good":
                self.good.append(name)
            elif kind == "bad" and len(self.bad) < _MOST_ISSUES:
                self.bad.append((name, _text(rest[1])))
            self.is_done = self.is_done or kind == "done"


def _text(said: str) -> str:
    try:
        return bytes.fromhex(said).decode(errors="replace")
    except ValueError:
        return ""


def main(path: str) -> None:
    """Do the job of a file, and print the result as one line of JSON."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        job = json.load(file)
    folder = tempfile.mkdtemp(prefix="answer-")
    os.chown(folder, NOBODY, NOBODY)
    reading, telling = os.pipe()
    given, giving = os.pipe()
    os.set_blocking(giving, False)
    count = _Count(giving)
    child = subprocess.Popen(
        [sys.executable, "-I", "-X", "utf8", __file__, _CHILD, folder, str(telling), str(given)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(telling, given),
        start_new_session=True,
    )
    for descriptor in (telling, given):
        os.close(descriptor)
    with contextlib.suppress(BrokenPipeError), child.stdin as stdin:  # type: ignore[union-attr]
        part = {name: job[name] for name in ("code", "test", "limits")}
        stdin.write(json.dumps(part).encode())
    is_late = _wait(child.pid, reading, float(job["seconds"]), count)
    shutil.rmtree(folder, ignore_errors=True)
    sys.stdout.write(json.dumps(_verdict(count, job, is_late=is_late)) + "\n")


def _run_child(folder: str, telling: int, given: int) -> NoReturn:
    """Run the answer with its tests, as nobody."""
    job = json.load(sys.stdin)
    sys.argv = [sys.argv[0]]
    teller = _Teller(telling, given)
    try:
        _become_nobody(folder, job, (given, telling))
        _test(job, teller)
    except BaseException as error:  # noqa: BLE001  as the official harness: whatever it was, it failed
        teller.begin("ALL")
        teller.bad("ALL", f"{type(error).__name__}: {error}")
    if teller.is_copy():
        _EXIT(1)
    teller.end()


def _become_nobody(folder: str, job: dict[str, Any], keep: "tuple[int, int]") -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)
    low, high = min(keep), max(keep)
    os.closerange(3, low)
    os.closerange(low + 1, high)
    os.closerange(high + 1, 4096)
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


def _test(job: dict[str, Any], teller: _Teller) -> None:
    """Run the tests; the answer runs in this process, so that its reports are not trusted without checks."""
    module = types.ModuleType(_MODULE)
    module.__dict__.update(
        __builtins__=builtins, __file__=f"{_MODULE}.py", __package__=None, sys=sys, os=os, environ=os.environ
    )
    builtins.exit = builtins.quit = None  # type: ignore[assignment]
    # Code that looks up the main module finds an empty one.
    sys.modules["__main__"] = types.ModuleType("__main__")
    own, before = unittest.TestCase, _marks()
    with _quiet():
        _close_figures()
        exec(compile(f"{job['code']}\n{job['test']}", f"{_MODULE}.py", "exec"), module.__dict__)  # noqa: S102
        sys.modules[_MODULE] = module
        cases = module.__dict__["TestCases"]
        changed = _marks() != before
        teller.begin("-")
        if issubclass(cases, own):
            unittest.TestLoader().loadTestsFromTestCase(cases).run(_Outcomes(teller))
        else:
            teller.bad("ALL", "TestCases is not a TestCase of unittest")
    if changed or _marks() != before:
        teller.bad("ALL", "the answer changed unittest itself")


def _marks() -> list[Any]:
    """Return the identities of the functions and classes that unittest's verdicts depend on."""
    parts = [
        (each, name, id(part)) for each in _WATCHED for name, part in vars(each).items() if callable(part)
    ]
    marks = [builtins.__build_class__, builtins.AssertionError, builtins.issubclass, builtins.isinstance]
    return [*parts, *map(id, (unittest.TestCase, unittest.TestLoader, *marks))]


@contextlib.contextmanager
def _quiet() -> Any:
    """Discard printed text and give nothing to read; also discard the output of subprocesses."""
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


def _wait(child: int, reading: int, seconds: float, count: _Count) -> bool:
    """Count the child's reports until it ends, then kill its processes; return whether its time was over."""
    deadline, ended = time.monotonic() + seconds, False
    open_pipes = [reading]
    while time.monotonic() < deadline:
        ready = select.select(open_pipes, [], [], 0 if ended else 0.02)[0]
        piece = os.read(reading, 65536) if ready else b""
        count.take(piece)
        if ended and not piece:
            break
        if ready and not piece:
            open_pipes = []
        ended = ended or os.waitpid(child, os.WNOHANG)[0] != 0
    _end_all_of_nobody()
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child, 0)
    return not ended


def _end_all_of_nobody() -> None:
    for _ in range(50):
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit() and _is_nobodys(name)]  # noqa: PTH208
        if not pids:
            return
        for pid in pids:
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


def _verdict(count: _Count, job: dict[str, Any], *, is_late: bool) -> dict[str, Any]:
    if is_late:
        return {"passed": False, "reason": f"not done after {job['seconds']:.0f} seconds"}
    if not count.is_done:
        return {"passed": False, "reason": "it ended before the tests did"}
    bad = count.bad
    skipped = {name.removesuffix(_SKIPPED) for name in count.good if name.endswith(_SKIPPED)}
    good = {name.removesuffix(_SKIPPED) for name in count.good}
    missed = sorted(set(job["expected"]) - good - {name for name, _ in bad})
    if not bad and (missed or not good):
        bad = [("ALL", f"tests did not run: {', '.join(missed) or 'there is none'}")]
    return {"passed": not bad, "good": len(good - skipped), "skipped": len(skipped), "bad": bad}


if __name__ == "__main__":
    if sys.argv[1] == _CHILD:
        _run_child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    main(sys.argv[1])
