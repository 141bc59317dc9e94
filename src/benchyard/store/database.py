"""The database: SQLite in a file by default, Postgres by URL, behind the same verbs."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import event
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, DataError, IntegrityError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from benchyard.errors import StoreError, UsageError
from benchyard.models.base import Record
from benchyard.store.collection import Collection
from benchyard.store.migrations import migrate
from benchyard.store.tables import TABLES

T = TypeVar("T", bound=Record)

_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "postgresql+asyncpg": "postgresql+asyncpg",
}
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")


def async_url(url: str) -> URL:
    """The URL as the async drivers want it; raises UsageError for a database Benchyard does not know."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise UsageError("the database URL cannot be read; use sqlite:///FILE or postgresql://...") from error
    if parsed.drivername not in _DRIVERS:
        raise UsageError(f"no such database: {parsed.drivername}; use sqlite:///FILE or postgresql://...")
    return parsed.set(drivername=_DRIVERS[parsed.drivername])


class Store:
    """All records. Use as an async context manager; opening it brings the schema up to date."""

    def __init__(self, url: str) -> None:
        self._url = async_url(url)
        self._write_lock = asyncio.Lock()
        self._engine: AsyncEngine | None = None

    async def __aenter__(self) -> Self:
        self._engine = _engine(self._url)
        try:
            async with self.writing() as connection:
                await connection.run_sync(migrate)
        except BaseException:
            await self._engine.dispose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._engine is not None:
            await self._engine.dispose()
            self._engine = None

    def collection(self, table: str, model: type[T]) -> Collection[T]:
        """The records of one table."""
        return Collection(self, TABLES[table], model)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection for single statements that only read."""
        with database_errors():
            async with self._opened().connect() as connection:
                yield await connection.execution_options(isolation_level="AUTOCOMMIT")

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that sees no other writer; committed at the end, undone by an error."""
        engine = self._opened()
        with database_errors():
            if engine.dialect.name != "sqlite":
                async with engine.begin() as connection:
                    yield connection
                return
            async with self._write_lock, engine.execution_options(immediate=True).begin() as connection:
                yield connection

    def _opened(self) -> AsyncEngine:
        if self._engine is None:
            raise StoreError("the store is closed; the server is stopping, try again")
        return self._engine


@contextmanager
def database_errors() -> Iterator[None]:
    """Turn what a database raises into our own errors; a broken constraint passes through."""
    try:
        yield
    except IntegrityError:
        raise
    except DataError as error:
        raise UsageError("the database cannot keep one of these values; remove control characters") from error
    except (SQLAlchemyError, OSError) as error:
        reason = str(getattr(error, "orig", None) or error).partition("\n")[0] or type(error).__name__
        raise StoreError(f"the database does not answer: {reason}") from error


def _engine(url: URL) -> AsyncEngine:
    engine = create_async_engine(url, pool_pre_ping=url.drivername.startswith("postgresql"))
    if engine.dialect.name == "sqlite":
        event.listen(engine.sync_engine, "connect", _set_up_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
    return engine


def _set_up_sqlite(connection: Any, _: Any) -> None:
    # The driver would begin transactions by its own rules; `_begin_sqlite` begins them by ours.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    immediate = connection.get_execution_options().get("immediate")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
