"""A database is used by one server: it claims it before it changes anything, whatever its data folder is."""

import contextlib
import fcntl
import importlib
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

from sqlalchemy.engine import make_url

from benchyard.errors import Conflict

_POSTGRES_CLAIM = "benchyard.store.postgres"
"""Imported when it is used: what Postgres needs takes long to import."""
_MAX_NOTE = 200


@contextlib.asynccontextmanager
async def claim_database(url: str, data: Path, lost: Callable[[str], None]) -> AsyncIterator[None]:
    """Hold the claim on a database; raises Conflict, saying who has it.

    `lost` is called with the reason when another server got it while the database was out of reach.
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
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise database_taken(os.pread(descriptor, _MAX_NOTE, 0).decode(errors="replace")) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, who.encode()[:_MAX_NOTE], 0)
        yield
    finally:
        os.close(descriptor)


def database_taken(who: str) -> Conflict:
    """The error that says who has the database."""
    return Conflict(
        f"another server uses this database ({who or 'unknown'}); "
        "stop it, or give this one a database of its own with --database-url"
    )
