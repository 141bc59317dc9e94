"""A Postgres server of the tests' own, from the machine's packages."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start one in a temporary folder; gives the URL of its first database."""
    binaries = _binaries()
    user = "postgres" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="by-pg-"))
    try:
        if user:
            account = pwd.getpwnam(user)
            os.chown(folder, account.pw_uid, account.pw_gid)
        initdb: list[str | Path] = [binaries / "initdb", "-D", folder / "db", "-U", "tests", "-A", "trust"]
        subprocess.run(
            [*initdb, "-N", "--locale=C", "-E", "UTF8"],
            check=True,
            capture_output=True,
            user=user,
            cwd=folder,
        )
        yield from _served(binaries / "postgres", folder, user)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _served(binary: Path, folder: Path, user: str | None) -> Iterator[str]:
    port = _free_port()
    options: list[str | Path] = ["-h", "127.0.0.1", "-p", str(port), "-k", folder, "-c", "fsync=off"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([binary, "-D", folder / "db", *options], stderr=log, user=user, cwd=folder)
    try:
        _wait_until_ready(binary.with_name("pg_isready"), port, process)
        yield f"postgresql://tests@127.0.0.1:{port}/postgres"
    finally:
        process.send_signal(signal.SIGQUIT)
        process.wait(30)


def _wait_until_ready(pg_isready: Path, port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while subprocess.run([pg_isready, "-q", "-h", "127.0.0.1", "-p", str(port)], check=False).returncode:
        if process.poll() is not None or time.monotonic() > deadline:
            pytest.fail("Postgres did not start")
        time.sleep(0.05)


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        pytest.skip("no Postgres binaries under /usr/lib/postgresql; `make setup` installs them")
    return found[-1].parent


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
