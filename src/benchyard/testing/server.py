"""A real server in a separate process, for tests."""

import os
import selectors
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol, Self
from urllib.parse import urlsplit

import httpx

from benchyard.client.servers import recorded_server
from benchyard.client.sessions import tls_context
from benchyard.errors import ServerUnreachable

_READY = "benchyard: listening on "
_PORT_TAKEN = "cannot listen"
_START_SECONDS = 60.0
_STOP_SECONDS = 30.0
_ENDED = ("shutdown", "failure")


class ServerProcess(Protocol):
    """The part of `subprocess.Popen` used for a server's process."""

    pid: int
    stdout: IO[bytes] | None

    def poll(self) -> int | None:
        """Return its exit status, if it has ended."""

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status, once it has ended; raise `subprocess.TimeoutExpired`."""

    def kill(self) -> None:
        """End it without warning."""

    def terminate(self) -> None:
        """Ask it to end."""


Spawn = Callable[[list[str], Mapping[str, str], IO[bytes]], ServerProcess]
"""Starts `benchyard` with arguments, an environment and a file for its log."""


def execute(arguments: list[str], environment: Mapping[str, str], log: IO[bytes]) -> ServerProcess:
    """Start `benchyard` in a new process, as a user does."""
    return subprocess.Popen(
        [sys.executable, "-m", "benchyard.cli.main", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        env=environment,
    )


spawn: Spawn = execute
"""Starts servers without variables of their own; tests of many servers set a quicker way."""


class RunningServer:
    """Runs `benchyard serve` on a free port and a data folder; as a context manager it ends its devboxes too.

    `options` are those of the command line: `RunningServer(tmp_path / "data", ["--driver", "fake"])`.
    """

    def __init__(
        self, data: Path, options: Sequence[str] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self.data = data
        self.url = ""
        self._options = options
        self._environment = {**_inherited_variables(), **(environment or {})}
        self._start = execute if environment else spawn
        self._port = 0
        self._log = data.with_name(f"{data.name}.log")
        self._process: ServerProcess | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None and any((self.data / "host" / "devboxes").glob("*")):
            self.start()
        if self._process is not None:
            self._end_devboxes()
            self.stop()

    @property
    def key(self) -> str:
        """Return the key that the first start made."""
        return (self.data / "api-key").read_text().strip()

    @property
    def log(self) -> str:
        """Return the server's whole log."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    @property
    def pid(self) -> int:
        """Return the pid of the server's process."""
        return self._running().pid

    def start(self) -> None:
        """Start it and wait until it listens; raise ServerUnreachable with its log if it does not.

        Started again it takes the same port, which another program may have for a moment.
        """
        deadline = time.monotonic() + _START_SECONDS
        while not self._try_to_start():
            if self._port == 0 or _PORT_TAKEN not in self.log or time.monotonic() > deadline:
                raise ServerUnreachable(f"the server did not start:\n{self.log}")

    def begin(self) -> None:
        """Start it without waiting for anything."""
        arguments = ["serve", "--port", str(self._port), "--data", str(self.data), *self._options]
        with self._log.open("ab") as log:
            self._process = self._start(arguments, self._environment, log)

    def _try_to_start(self) -> bool:
        self.begin()
        line = _first_line(self._running())
        if not line.startswith(_READY):
            self.kill()
            return False
        self.url = line.removeprefix(_READY)
        self._port = urlsplit(self.url).port or 0
        return True

    def stop(self) -> int:
        """Ask it to stop and wait; return its exit status."""
        process = self._running()
        process.terminate()
        return self._reap(process)

    def wait(self) -> int:
        """Wait for its end, requested by another process; return its exit status."""
        return self._reap(self._running())

    def kill(self) -> None:
        """End it without warning."""
        process = self._running()
        process.kill()
        self._reap(process)

    def restart(self) -> None:
        """Stop it and start it again on the same port and data."""
        self.stop()
        self.start()

    def _end_devboxes(self) -> None:
        if self._running().poll() is not None or not (self.data / "api-key").exists():
            return
        headers = {"authorization": f"Bearer {self.key}"}
        with httpx.Client(
            base_url=self.url, headers=headers, timeout=_STOP_SECONDS, trust_env=False, verify=self._verify()
        ) as client:
            listed = client.get("/v1/devboxes", params={"limit": 5000}).json()
            for devbox in listed.get("devboxes", ()):
                if devbox["status"] not in _ENDED:
                    client.post(f"/v1/devboxes/{devbox['id']}/shutdown", params={"force": "true"})

    def _verify(self) -> ssl.SSLContext | bool:
        server = recorded_server(self.data)
        return (tls_context(server) if server else None) or True

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise ServerUnreachable("the server is not running")
        return self._process

    def _reap(self, process: ServerProcess) -> int:
        try:
            return process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        finally:
            if process.stdout is not None:
                process.stdout.close()
            self._process = None


def _inherited_variables() -> dict[str, str]:
    """Return our environment, without variables that make each server compile all its modules again."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _first_line(process: ServerProcess) -> str:
    deadline = time.monotonic() + _START_SECONDS
    received = b""
    if process.stdout is None:
        return ""
    descriptor = process.stdout.fileno()
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while b"\n" not in received and selector.select(max(0.0, deadline - time.monotonic())):
            piece = os.read(descriptor, 4096)
            if not piece:
                break
            received += piece
    return received.partition(b"\n")[0].decode(errors="replace")
