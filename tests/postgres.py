"""A Postgres server of the tests' own, from the machine's packages."""

import asyncio
import os
import pwd
import secrets
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
from sqlalchemy import make_url, text

from benchyard.store.postgres import PostgresConnections


@contextmanager
def running_postgres() -> Iterator[str]:
    """Start one in a temporary folder; gives the URL of its first database."""
    with own_postgres() as postgres:
        yield postgres.url


@contextmanager
def own_postgres() -> Iterator["Postgres"]:
    """Start one in a temporary folder, to be stopped and started again."""
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
        postgres = Postgres(binaries / "postgres", folder, user)
        postgres.start()
        try:
            yield postgres
        finally:
            postgres.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def new_database(url: str) -> str:
    """Make an empty database beside the one of that URL; gives its URL."""
    name = f"t{secrets.token_hex(8)}"

    async def create() -> None:
        connections = PostgresConnections(make_url(url))
        await connections.read(lambda connection: connection.execute(text(f"CREATE DATABASE {name}")))
        await connections.close()

    asyncio.run(create())
    return url.rpartition("/")[0] + "/" + name


class Postgres:
    """A server on a port that stays the same."""

    def __init__(self, binary: Path, folder: Path, user: str | None) -> None:
        self._binary = binary
        self._folder = folder
        self._user = user
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://tests@127.0.0.1:{self._port}/postgres"

    def start(self) -> None:
        """Start it and wait until it answers."""
        options: list[str | Path] = [
            "-h",
            "127.0.0.1",
            "-p",
            str(self._port),
            "-k",
            self._folder,
            "-c",
            "fsync=off",
        ]
        command: list[str | Path] = [self._binary, "-D", self._folder / "db", *options]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stderr=log, user=self._user, cwd=self._folder)
        _wait_until_ready(self._binary.with_name("pg_isready"), self._port, self._process)

    def stop(self) -> None:
        """End it at once, as a crash would, its connections with it."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
            self._process = None


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
