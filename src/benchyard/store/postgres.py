"""Postgres by URL."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import URL, Connection
from sqlalchemy.ext.asyncio import create_async_engine

from benchyard.errors import UsageError
from benchyard.store.connections import Connections, database_errors

R = TypeVar("R")


class PostgresConnections(Connections):
    """A pool of connections to a Postgres database."""

    def __init__(self, url: URL) -> None:
        query = dict(url.query)
        if "sslmode" in query:
            query["ssl"] = query.pop("sslmode")
        try:
            # Hidden parameters: an error that is logged must not show what was to be kept.
            self._engine = create_async_engine(
                url.set(drivername="postgresql+asyncpg", query=query),
                pool_pre_ping=True,
                hide_parameters=True,
            )
        except ModuleNotFoundError as error:
            raise UsageError("Postgres needs a driver; install benchyard[postgres]") from error

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
