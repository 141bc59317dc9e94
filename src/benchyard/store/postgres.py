"""Postgres by URL, and the claim of one server on a database there."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import URL, Connection, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import NullPool

from benchyard.errors import UsageError
from benchyard.store.claims import database_taken
from benchyard.store.connections import DatabaseConnections, database_errors

R = TypeVar("R")


class PostgresConnections(DatabaseConnections):
    """A pool of connections to a Postgres database."""

    def __init__(self, url: URL) -> None:
        self._engine = postgres_engine(url, pool_pre_ping=True)

    async def read(self, work: Callable[[Connection], R]) -> R:
        with database_errors():
            async with self._engine.connect() as connection:
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                return await connection.run_sync(work)

    async def write(self, work: Callable[[Connection], R]) -> R:
        with database_errors():
            async with self._engine.begin() as connection:
                return await connection.run_sync(work)

    async def close(self) -> None:
        await self._engine.dispose()


def postgres_engine(url: URL, **options: Any) -> AsyncEngine:
    """Create an engine for a Postgres database; raises UsageError if its driver is not installed."""
    query = dict(url.query)
    if "sslmode" in query:
        query["ssl"] = query.pop("sslmode")
    try:
        # Hide parameters: a logged error must not show the values to be stored.
        return create_async_engine(
            url.set(drivername="postgresql+asyncpg", query=query), hide_parameters=True, **options
        )
    except ModuleNotFoundError as error:
        raise UsageError("Postgres needs a driver; install benchyard[postgres]") from error


_KEY = 0x62656E63
"""Key of the lock: any number, if all servers use the same."""
_NAME_BYTES = 63
_PATIENCE_SECONDS = 3.0
"""Time for the database to notice that the connection of a killed server is gone."""
_LOOK_SECONDS = 2.0
_AGAIN_SECONDS = 0.2
# The database must probe for clients on machines that are gone, since they close no connection.
_KEEPALIVES = ("tcp_keepalives_idle=10", "tcp_keepalives_interval=5", "tcp_keepalives_count=3")
_HOLDER = text(
    "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
    " WHERE l.locktype = 'advisory' AND l.granted AND l.classid = 0 AND l.objid = :key AND l.objsubid = 1"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


class PostgresClaim:
    """Claim on a database, renewed after the database was away. An async context manager."""

    def __init__(self, url: URL, who: str, lost: Callable[[str], None]) -> None:
        self._engine = postgres_engine(url, poolclass=NullPool)
        self._who = f"benchyard on {who}".encode()[:_NAME_BYTES].decode(errors="ignore")
        self._lost = lost
        self._connection: AsyncConnection | None = None
        self._keeping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        try:
            while (holder := await self._take_or_tell()) is not None:
                if time.monotonic() > deadline:
                    raise database_taken(holder)
                await asyncio.sleep(_AGAIN_SECONDS)
        except BaseException:
            await self._engine.dispose()
            raise
        self._keeping = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping
        await self._let_go()
        await self._engine.dispose()

    async def _take_or_tell(self) -> str | None:
        with database_errors():
            return await self._take()

    async def _take(self) -> str | None:
        """Take the lock; return None, or its holder if it is taken."""
        connection: AsyncConnection | None = await self._engine.connect()
        assert connection is not None
        try:
            await connection.execution_options(isolation_level="AUTOCOMMIT")
            for setting in _KEEPALIVES:
                await connection.execute(text(f"SET {setting}"))
            named = text("SELECT set_config('application_name', :who, false)")
            await connection.execute(named, {"who": self._who})
            got = await connection.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": _KEY})
            if got.scalar_one():
                self._connection, connection = connection, None
                return None
            return str((await connection.execute(_HOLDER, {"key": _KEY})).scalar() or "unknown")
        finally:
            if connection is not None:
                await connection.close()

    async def _keep(self) -> None:
        """Watch the connection, and take the lock again if it was lost."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                if self._connection is None:
                    holder = await self._take()
                    # The lost connection of this server may hold the lock until the database notices.
                    if holder not in (None, self._who):
                        self._lost(database_taken(holder or "").message)
                        return
                else:
                    await self._connection.execute(text("SELECT 1"))
            except (SQLAlchemyError, OSError):
                # The database is away, as every request reports; the lock is gone with the connection.
                await self._let_go()

    async def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(SQLAlchemyError, OSError):
                await connection.close()
