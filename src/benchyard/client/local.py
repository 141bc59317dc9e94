"""Starts and stops this user's own server on this machine."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from benchyard.client.core import Server
from benchyard.client.locate import recorded_pid, running_server
from benchyard.errors import BenchyardError, Conflict, ServerUnreachable, UsageError
from benchyard.settings import DEFAULT_PORT

START_SECONDS = 60.0
STOP_SECONDS = 60.0
LOOK_SECONDS = 0.05
LOG_TAIL = 2000
PORT_FILE = "own-port"
"""In the data folder: the port of the last server that was started for this user, for the next one."""


def start(data: Path, waiting: Callable[[], None]) -> Server:
    """Start a server on a data folder and return it once it answers; `waiting` is called while it does not.

    When two are started at once, the server's own lock decides: this waits for whichever won.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    log = data / "server.log"
    begin = log.stat().st_size if log.exists() else 0
    port = _free_port(data)
    process = _spawn(data, log, port)
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        server = running_server(data)
        if server is not None:
            _note_port(data, server)
            return server
        if port and process.poll() == UsageError.exit_code:
            # Another program may have taken the port since it was looked at.
            port = 0
            process = _spawn(data, log, port)
        if process.poll() not in (None, Conflict.exit_code):
            break
        waiting()
        time.sleep(LOOK_SECONDS)
    if process.poll() is None:
        process.terminate()
        process.wait()
    raise ServerUnreachable(f"the local server did not start; its log is {log}\n{_tail(log, begin)}".rstrip())


def stop(data: Path) -> int | None:
    """Stop the server that runs on a data folder and wait until it is gone; None if none runs."""
    pid = recorded_pid(data)
    if pid is None or running_server(data) is None:
        return None
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS
    while time.monotonic() < deadline:
        if not _is_alive(pid):
            return pid
        time.sleep(LOOK_SECONDS)
    raise BenchyardError(
        f"the server (process {pid}) did not stop in {STOP_SECONDS:.0f} s; end it with `kill {pid}`"
    )


def own_url(data: Path) -> str | None:
    """Where the last server of this user on this data folder was, whether it runs or not."""
    try:
        return f"http://127.0.0.1:{int((data / PORT_FILE).read_text())}"
    except (OSError, ValueError):
        return None


def _note_port(data: Path, server: Server) -> None:
    port = urlsplit(server.url).port
    if port:
        (data / PORT_FILE).write_text(str(port))


def _free_port(data: Path) -> int:
    """The port of the last time, else the usual one, else 0, which lets the system choose."""
    last = urlsplit(own_url(data) or "").port
    for port in (last, DEFAULT_PORT):
        if port and _is_free(port):
            return port
    return 0


def _is_free(port: int) -> bool:
    try:
        with socket.create_server(("127.0.0.1", port)):
            return True
    except OSError:
        return False


def _spawn(data: Path, log: Path, port: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchyard.cli.main", "serve", "--port", str(port), "--data", str(data)]
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=handle, stderr=handle, start_new_session=True, cwd="/"
        )
    finally:
        os.close(handle)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return not Path("/proc/self").exists()
    return fields[0] != "Z"


def _tail(log: Path, begin: int) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(begin, log.stat().st_size - LOG_TAIL))
            return file.read(LOG_TAIL).decode(errors="replace").strip()
    except OSError:
        return ""
