"""Postgres by URL."""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import URL, Connection
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from benchyard.errors import UsageError
from benchyard.store.connections import Connections, database_errors

R = TypeVar("R")


class PostgresConnections(Connections):
    """A pool of connections to a Postgres database."""

    def __init__(self, url: URL) -> None:
        self._engine = engine(url, pool_pre_ping=True)

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


def engine(url: URL, **options: Any) -> AsyncEngine:
    """The way to a Postgres database; raises UsageError where its driver is not installed."""
    query = dict(url.query)
    if "sslmode" in query:
        query["ssl"] = query.pop("sslmode")
    try:
        # Hidden parameters: an error that is logged must not show what was to be kept.
        return create_async_engine(
            url.set(drivername="postgresql+asyncpg", query=query), hide_parameters=True, **options
        )
    except ModuleNotFoundError as error:
        raise UsageError("Postgres needs a driver; install benchyard[postgres]") from error
