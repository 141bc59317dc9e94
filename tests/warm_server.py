"""Servers forked from a process that has imported everything already (`fork_server`).

Nearly all of a start is imports, and the tests start servers by the thousand. A forked server is a process of
its own like any other, and does the same from its first line to its end. A server with its own environment is
executed as users do it, because some variables act before anything is imported.
"""

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO

from benchyard.testing.server import ServerProcess

_FORK_SERVER = Path(__file__).with_name("fork_server.py")
_END_SECONDS = 10.0


def spawn(arguments: list[str], environment: Mapping[str, str], log: IO[bytes]) -> ServerProcess:
    """Start a server as a copy of the process that is ready."""
    return _Copy(_original().asking, arguments, environment, log)


class _Original:
    """The process that is copied; it ends with this one."""

    def __init__(self) -> None:
        self.asking, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with there:
            self._process = subprocess.Popen(
                [sys.executable, _FORK_SERVER, str(there.fileno())],
                stdin=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
            )
        atexit.register(self._close)

    def _close(self) -> None:
        self.asking.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@cache
def _original() -> _Original:
    return _Original()


class _Copy:
    """A copy, with what `subprocess.Popen` has."""

    def __init__(
        self, asking: socket.socket, arguments: list[str], environment: Mapping[str, str], log: IO[bytes]
    ) -> None:
        mine, output = os.pipe()
        told, teller = os.pipe()
        request = {"arguments": arguments, "environment": dict(environment)}
        try:
            socket.send_fds(asking, [json.dumps(request).encode()], [output, log.fileno(), teller])
        finally:
            os.close(output)
            os.close(teller)
        self.stdout: IO[bytes] | None = os.fdopen(mine, "rb")
        self._told = os.fdopen(told, "rb", buffering=0)
        self.pid = int(self._told.readline())
        self._status: int | None = None

    def poll(self) -> int | None:
        """Its exit status, if it has ended."""
        if self._status is None and select.select([self._told], [], [], 0)[0]:
            self._status = int(self._told.readline())
            self._told.close()
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended."""
        if self._status is None and not select.select([self._told], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("benchyard serve", timeout or 0)
        status = self.poll()
        assert status is not None
        return status

    def kill(self) -> None:
        """End it without warning."""
        self._signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Ask it to end."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and its status is on its way here
                os.kill(self.pid, number)
