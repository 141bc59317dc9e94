"""Claims of servers on databases: only one server uses a database, whatever its data folder is."""

import contextlib
import fcntl
import importlib
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from sqlalchemy.engine import make_url

from benchyard.errors import Conflict

_POSTGRES_CLAIM = "benchyard.store.postgres"
"""Imported at its first use: the import of Postgres libraries takes long."""
_MAX_NOTE = 200
_FORK_SECONDS = 1.0


@contextlib.asynccontextmanager
async def claim_database(url: str, data: Path, lost: Callable[[str], None]) -> AsyncIterator[None]:
    """Hold the claim on a database; raises Conflict, naming the holder.

    `lost` is called with the reason if another server got the claim while the database was unreachable.
    """
    who = f"{socket.gethostname()}, process {os.getpid()}, data folder {data}"
    parsed = make_url(url)
    if parsed.drivername != "sqlite":
        claim = importlib.import_module(_POSTGRES_CLAIM).PostgresClaim(parsed, who, lost)
        async with claim:
            yield
    elif parsed.database in (None, "", ":memory:"):
        yield
    else:
        with _lock_file(Path(f"{parsed.database}.lock"), who):
            yield


@contextlib.contextmanager
def _lock_file(path: Path, who: str) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not take_lock(descriptor):
            raise database_taken(os.pread(descriptor, _MAX_NOTE, 0).decode(errors="replace"))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, who.encode()[:_MAX_NOTE], 0)
        yield
    finally:
        os.close(descriptor)


def take_lock(descriptor: int) -> bool:
    """Lock a file for this process alone; False if another process keeps it.

    Wait a moment: a server that was killed while it started a program leaves a fork of itself, which holds
    the lock until it has become that program.
    """
    deadline = time.monotonic() + _FORK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        else:
            return True


def database_taken(who: str) -> Conflict:
    """Return the error that names the holder of the database."""
    return Conflict(
        f"another server uses this database ({who or 'unknown'}); "
        "stop it, or give this one a database of its own with --database-url"
    )
