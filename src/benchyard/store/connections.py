"""Connections to a database: work is a plain function of a connection, the same for every database."""

import asyncio
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, IntegrityError, SQLAlchemyError

from benchyard.errors import DiskFull, StoreError, UsageError, is_disk_full

R = TypeVar("R")

_SQLITE_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)
_POSTGRES_FULL = "53100"


class DatabaseConnections(ABC):
    """The open connections to one database."""

    @abstractmethod
    async def read(self, work: Callable[[Connection], R]) -> R:
        """Run statements that only read."""

    @abstractmethod
    async def write(self, work: Callable[[Connection], R]) -> R:
        """Run a transaction: committed when `work` returns, undone when it raises."""

    async def write_whole(self, work: Callable[[Connection], R]) -> R:
        """Run a transaction; a cancellation is delivered only after it is written or has failed."""
        return await until_ended(asyncio.ensure_future(self.write(work)))

    async def prepare(self, work: Callable[[Connection], R]) -> R:
        """Run the first transaction, which may wait long for servers that start at the same time."""
        return await self.write(work)

    @abstractmethod
    async def close(self) -> None:
        """Close all connections."""


async def until_ended(work: "asyncio.Future[R]") -> R:
    """Return the result of a future; a cancellation is delivered only after it has ended."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if not work.done():
            await asyncio.wait([work])
        raise


@contextmanager
def database_errors() -> Iterator[None]:
    """Turn errors of a database into our own; a violated constraint passes through."""
    try:
        yield
    except IntegrityError:
        raise
    except DataError as error:
        raise UsageError("the database cannot keep one of these values; remove control characters") from error
    except (SQLAlchemyError, OSError) as error:
        cause = getattr(error, "orig", None) or error
        reason = str(cause).partition("\n")[0] or type(error).__name__
        if _is_full(cause):
            raise DiskFull(f"the database has no space left ({reason}); free some and try again") from error
        raise StoreError(f"the database does not answer: {reason}") from error


def _is_full(cause: BaseException) -> bool:
    return (
        is_disk_full(cause)
        or getattr(cause, "sqlite_errorcode", None) in _SQLITE_FULL
        or getattr(cause, "sqlstate", None) == _POSTGRES_FULL
    )
