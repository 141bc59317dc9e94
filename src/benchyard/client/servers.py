"""Finds the server to talk to, configured or this user's own; starts and stops the latter."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from benchyard.client.operations import Server
from benchyard.client.sessions import tls_context
from benchyard.errors import BenchyardError, Conflict, ServerUnreachable, UsageError
from benchyard.settings import DEFAULT_PORT, default_data_folder

PAIRS = (("BENCHYARD_URL", "BENCHYARD_API_KEY"), ("RUNLOOP_BASE_URL", "RUNLOOP_API_KEY"))
HEALTH_TIMEOUT = 3.0


def find_server(environ: Mapping[str, str]) -> Server:
    """Return the server that is configured, else the one that runs here; raises ServerUnreachable."""
    configured = configured_server(environ)
    if configured is not None:
        return configured
    data = default_data_folder(environ)
    local = running_server(data)
    if local is None:
        raise ServerUnreachable(
            f"no server is configured and none runs on {data}; "
            "start one with `benchyard serve`, or set BENCHYARD_URL and BENCHYARD_API_KEY"
        )
    return local


def configured_server(environ: Mapping[str, str]) -> Server | None:
    """Return the server the environment names; a URL of one product is never paired with another's key."""
    for url_name, key_name in PAIRS:
        url = environ.get(url_name)
        if not url:
            continue
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise UsageError(f"{url_name} is not an http or https address: {url!r}")
        own = _own(url, environ)
        key = environ.get(key_name) or (own.key if own else None)
        if not key:
            raise UsageError(
                f"{url_name} is set but {key_name} is not, and no server of yours runs there; "
                "make a key on that server's machine with `benchyard key create`"
            )
        return Server(url.rstrip("/"), key, own.trusted if own else None)
    return None


def running_server(data: Path) -> Server | None:
    """Return the server that runs on a data folder, if it answers."""
    server = recorded_server(data)
    return server if server is not None and is_healthy(server) else None


def recorded_server(data: Path) -> Server | None:
    """Return the server that was last started on a data folder, whether it runs or not."""
    try:
        note = json.loads((data / "server.json").read_text())
        url, trusted = note["url"], note.get("trusted")
        key = stored_key(data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    if not isinstance(url, str) or not key:
        return None
    return Server(url, key, Path(trusted) if isinstance(trusted, str) else None)


def stored_key(data: Path) -> str | None:
    """Return the first key of the server on a data folder."""
    try:
        return (data / "api-key").read_text().strip() or None
    except (OSError, ValueError):
        return None


def recorded_pid(data: Path) -> int | None:
    """Return the process id of the server that was last started on a data folder."""
    try:
        pid = json.loads((data / "server.json").read_text())["pid"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if isinstance(pid, int) and pid > 1 else None


def is_healthy(server: Server) -> bool:
    """Tell whether a server answers its health check."""
    try:
        verify = tls_context(server) or True
        answer = httpx.get(f"{server.url}/healthz", timeout=HEALTH_TIMEOUT, trust_env=False, verify=verify)
    except (httpx.HTTPError, httpx.InvalidURL, ServerUnreachable, ValueError):
        return False
    return answer.status_code == 200


def _own(url: str, environ: Mapping[str, str]) -> Server | None:
    local = recorded_server(default_data_folder(environ))
    return local if local is not None and local.url.rstrip("/") == url.rstrip("/") else None


START_SECONDS = 60.0
STOP_SECONDS = 60.0
LOOK_SECONDS = 0.05
LOG_TAIL = 2000
PORT_FILE = "own-port"
"""Name of the file in the data folder that keeps the port of this user's last server for the next one."""


def start_server(data: Path, waiting: Callable[[], None]) -> Server:
    """Start a server on a data folder and return it once it answers; `waiting` is called until it does.

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
            # Another program may have taken the port since the check.
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


def stop_server(data: Path) -> int | None:
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
    """Return the address of this user's last server on this data folder, whether it runs or not."""
    try:
        return f"http://127.0.0.1:{int((data / PORT_FILE).read_text())}"
    except (OSError, ValueError):
        return None


def _note_port(data: Path, server: Server) -> None:
    port = urlsplit(server.url).port
    if port:
        (data / PORT_FILE).write_text(str(port))


def _free_port(data: Path) -> int:
    """Return the port of the last time, else the usual one, else 0, which lets the system choose."""
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
    # Despite $BENCHYARD_HOST: a server that a command starts by itself is for this machine only.
    options = ["--host", "127.0.0.1", "--port", str(port), "--data", str(data)]
    command = [sys.executable, "-m", "benchyard.cli.main", "serve", *options]
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
