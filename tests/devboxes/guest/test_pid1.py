"""The first process ends a command whose supervisor does not, and tells how it ended."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchyard.devboxes.base import Status, read_status
from benchyard.devboxes.guest.freezer import SignalFreezer
from benchyard.devboxes.guest.pid1 import GRACE_SECONDS, SupervisedCommand
from benchyard.devboxes.guest.processes import descendants

_SUPERVISOR = (
    "import ctypes, subprocess, time; ctypes.CDLL(None).prctl(36, 1);"
    "subprocess.run(['sh', '-c', '(setsid sleep 600 &) ; sleep 600 &']);"
    "print('ready', flush=True); time.sleep(600)"
)


class Held:
    """A custody over a real process that has daemons below it, and a pipe nobody has read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen([sys.executable, "-c", _SUPERVISOR], stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == b"ready\n"
        self.mine, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.custody = SupervisedCommand(self.process.pid, self.mine)
        self.below = descendants(self.process.pid)

    def take(self, printed: bytes, **request: Any) -> None:
        files = [os.open(self.folder / name, os.O_WRONLY | os.O_CREAT) for name in _FILES]
        message = {"id": "exec_1", "output_bytes": 8, "timeout": None, **request}
        self.custody.take(message, files)
        sources = []
        for text in (printed, b""):
            reader, writer = os.pipe()
            os.write(writer, text)
            os.close(writer)
            os.set_blocking(reader, False)
            sources.append(reader)
        self.custody.keep_sources(sources)
        for number in files:
            os.close(number)

    def status(self) -> Status:
        self.process.wait()
        self.custody.settle()
        self.custody.release()
        status = read_status(self.folder)
        assert status is not None
        return status

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        for pid in self.below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.mine.close()
        self.theirs.close()


_FILES = ("stdout", "stderr", "status.json")


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    made = Held(tmp_path)
    yield made
    made.close()


def test_everything_below_a_stopped_supervisor_ends_when_its_time_is_over(held: Held) -> None:
    held.take(b"out", timeout=0)
    assert held.custody.due is not None
    assert held.custody.due <= time.monotonic() + GRACE_SECONDS
    assert len(held.below) == 2
    os.kill(held.process.pid, signal.SIGSTOP)
    held.custody.end(SignalFreezer(everybody=False))
    status = held.status()
    assert (status.exit_status, status.timed_out, status.killed, status.error) == (137, True, False, None)
    assert (held.folder / "stdout").read_bytes() == b"out"
    assert not any(Path(f"/proc/{pid}/exe").exists() for pid in held.below)


def test_a_kill_that_the_supervisor_did_not_carry_out_is_reported_as_a_kill(held: Held) -> None:
    held.take(b"")
    held.custody.expect_end()
    held.custody.end(SignalFreezer(everybody=False))
    status = held.status()
    assert (status.exit_status, status.timed_out, status.killed) == (137, False, True)


def test_unread_output_is_saved_up_to_its_limit(held: Held) -> None:
    held.take(b"0123456789")
    os.kill(held.process.pid, signal.SIGKILL)
    status = held.status()
    assert (status.stdout_truncated, status.stderr_truncated) == (True, False)
    assert (held.folder / "stdout").read_bytes() == b"01234567"
    assert status.error is not None


def test_a_status_that_the_supervisor_gave_stays(held: Held) -> None:
    held.take(b"")
    (held.folder / "status.json").write_text('{"exit_status": 3}')
    os.kill(held.process.pid, signal.SIGKILL)
    assert held.status() == Status(exit_status=3)
