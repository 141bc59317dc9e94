"""A person at a terminal: runs the command on a real pty, types, and reads what appears."""

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

PATIENCE_SECONDS = 90.0


class Screen:
    """`benchyard` on a terminal; use as a context manager."""

    def __init__(
        self,
        arguments: list[str],
        environment: Mapping[str, str],
        program: Sequence[str] = (sys.executable, "-m", "benchyard.cli.main"),
    ) -> None:
        self._arguments = arguments
        self._program = program
        self._environment = {**os.environ, "TERM": "xterm", **environment}
        self.shown = b""
        self.exit_status: int | None = None

    def __enter__(self) -> Self:
        command = [*self._program, *self._arguments]
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, self._environment)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.exit_status is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.terminal)

    def type(self, text: str) -> None:
        """Type on the keyboard."""
        os.write(self.terminal, text.encode())

    def resize(self, columns: int, rows: int) -> None:
        """Drag the window's corner."""
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def expect(self, text: str) -> bytes:
        """Wait until a text appears, and forget all up to it; returns what came before."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while text.encode() not in self.shown:
            assert self._read(deadline), f"{text!r} did not appear; the screen shows {self.shown!r}"
        before, _, self.shown = self.shown.partition(text.encode())
        return before

    def expect_end(self) -> int:
        """Wait until the command has ended; returns its exit status."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._read(deadline):
            pass
        _, status = os.waitpid(self.pid, 0)
        self.exit_status = os.waitstatus_to_exitcode(status)
        return self.exit_status

    @property
    def modes(self) -> int:
        """The terminal's local modes: echo, line editing, signals by keys."""
        modes: int = termios.tcgetattr(self.terminal)[3]
        return modes

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self.terminal], [], [], max(0.0, deadline - time.monotonic()))
        try:
            data = os.read(self.terminal, 65536) if ready else b""
        except OSError:
            return False
        self.shown += data
        return bool(data)
