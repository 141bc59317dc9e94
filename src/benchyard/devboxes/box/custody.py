"""What the devbox's first process keeps of each command, to end it when its supervisor does not.

Root inside can stop and kill supervisors, but neither the first process nor what that holds. So it keeps the
time too, and copies of the descriptors by which it saves the output and says how the command ended.
"""

import contextlib
import json
import os
import signal
import socket
import time
from typing import Any

from benchyard.devboxes.box import processes
from benchyard.devboxes.box.freezer import Freezer
from benchyard.devboxes.box.streams import Output

GRACE_SECONDS = 5.0
"""How long after its time a supervisor may take to end its command by itself."""
_KILLED = 137
_MOST_READS = 16
"""Of what is left in a pipe: more than one holds, because others may still write to it."""
_LOST = "the process that kept this command was killed inside the devbox"


class Custody:
    """One command, its supervisor, and who waits for an answer about it."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        self.pid = pid
        self.channel = channel
        self.command: str | None = None
        """None before a supervisor has its command, and again once that has ended."""
        self.asking: dict[int, tuple[socket.socket, str]] = {}
        """Who asked for what, by sequence number."""
        self.due: float | None = None
        self.is_open = True
        self._files: list[int] = []
        self._sources: list[int] = []
        self._limit = self._spare = 0
        self._is_strict = False
        self._is_killed = self._is_late = False

    def take(self, message: dict[str, Any], descriptors: list[int]) -> None:
        """Note the command that is about to be handed to the supervisor."""
        first = 1 if message.get("spilled") else 0
        self._files = [os.dup(number) for number in descriptors[first : first + 3]]
        self.command = message["id"]
        self._limit = message["output_bytes"]
        self._spare = message.get("spare_bytes", 0)
        self._is_strict = bool(message.get("strict"))
        if message["timeout"] is not None:
            self.due = time.monotonic() + message["timeout"] + GRACE_SECONDS

    def keep_sources(self, descriptors: list[int]) -> None:
        """Keep the ends of the command's pipes or terminal from which its supervisor reads."""
        self._sources = descriptors

    def expect_end(self) -> None:
        """The supervisor has been told to kill the command."""
        self._is_killed = True
        soon = time.monotonic() + GRACE_SECONDS
        self.due = soon if self.due is None else min(self.due, soon)

    def end(self, freezer: Freezer) -> None:
        """Do what the supervisor did not: end everything below it, and the supervisor too."""
        self._is_late = not self._is_killed
        self.due = time.monotonic() + GRACE_SECONDS
        freezer.kill(self._everything)

    def _everything(self) -> list[int]:
        seen = processes.see(self.pid)
        return [*([self.pid] if seen and seen.is_alive else []), *processes.descendants(self.pid)]

    def settle(self) -> None:
        """Of a supervisor that is gone: save what it had not read, and say how the command ended."""
        if self.command is not None and os.fstat(self._files[2]).st_size == 0:
            outputs = [self._save(*pair) for pair in zip(self._sources, self._files[:2], strict=False)]
            status = {
                "exit_status": _KILLED,
                "timed_out": self._is_late,
                "killed": self._is_killed,
                "stdout_truncated": any(output.truncated for output in outputs[:1]),
                "stderr_truncated": any(output.truncated for output in outputs[1:]),
                "ended_ms": int(time.time() * 1000),
                "error": None if self._is_late or self._is_killed else _LOST,
                "signal": int(signal.SIGKILL),
            }
            # Where even this does not fit on the disk, the host says it when it finds no status.
            with contextlib.suppress(OSError):
                os.write(self._files[2], json.dumps(status).encode())

    def _save(self, source: int, target: int) -> Output:
        size = os.fstat(target).st_size
        output = Output(source, target, max(0, self._limit - size), self._spare)
        if self._is_strict:
            output.bound()
        for _ in range(_MOST_READS):
            if not output.pump():
                break
        output.truncated = output.truncated or size >= self._limit
        return output

    def release(self) -> None:
        """Let go of the command's descriptors: it has its status."""
        for number in (*self._files, *self._sources):
            os.close(number)
        self._files, self._sources = [], []
        self.command = self.due = None
