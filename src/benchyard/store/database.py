"""The database: SQLite in a file by default, Postgres by URL, with the same methods."""

import importlib
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from sqlalchemy import Connection
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from benchyard.errors import StoreError, UsageError
from benchyard.models.base import Record
from benchyard.store.collection import Collection, LiveCollection
from benchyard.store.connections import DatabaseConnections
from benchyard.store.migrations import migrate
from benchyard.store.tables import TABLES

R = TypeVar("R")
T = TypeVar("T", bound=Record)

_POSTGRES = "benchyard.store.postgres:PostgresConnections"
_KINDS = {
    "sqlite": "benchyard.store.sqlite:SqliteConnections",
    "postgres": _POSTGRES,
    "postgresql": _POSTGRES,
}
"""Imported at its first use: the import of Postgres libraries takes long."""


class Store:
    """All records. Use as an async context manager; opening it brings the schema up to date.

    Raises UsageError for a URL of an unknown kind of database.
    """

    def __init__(self, url: str) -> None:
        self._url = _parse_url(url)
        self._connections: DatabaseConnections | None = None

    async def __aenter__(self) -> Self:
        self._connections = _kind(self._url.drivername)(self._url)
        try:
            await self._connections.prepare(migrate)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close()

    def collection(self, table: str, model: type[T]) -> Collection[T]:
        """Return the records of one table."""
        return Collection(self, TABLES[table], model)

    def live(self, table: str, model: type[T]) -> LiveCollection[T]:
        """Return the records of a table that only this process writes; all of it must use this object."""
        return LiveCollection(self, TABLES[table], model)

    async def read(self, work: Callable[[Connection], R]) -> R:
        """Run statements that only read; `work` may run in another thread."""
        return await self._require_connections().read(work)

    async def write(self, work: Callable[[Connection], R]) -> R:
        """Run a transaction: committed when `work` returns, undone when it raises; like `read` otherwise."""
        return await self._require_connections().write(work)

    async def write_whole(self, work: Callable[[Connection], R]) -> R:
        """Run a transaction; a cancellation is delivered only after it is written or has failed."""
        return await self._require_connections().write_whole(work)

    def _require_connections(self) -> DatabaseConnections:
        if self._connections is None:
            raise StoreError("the store is closed; the server is stopping, try again")
        return self._connections

    async def _close(self) -> None:
        if self._connections is not None:
            connections, self._connections = self._connections, None
            await connections.close()


def _kind(name: str) -> Callable[[URL], DatabaseConnections]:
    module, _, attribute = _KINDS[name].partition(":")
    kind: Callable[[URL], DatabaseConnections] = getattr(importlib.import_module(module), attribute)
    return kind


def _parse_url(url: str) -> URL:
    remedy = "use sqlite:///FILE or postgresql://..."
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise UsageError(f"the database URL cannot be read; {remedy}") from error
    if parsed.drivername not in _KINDS:
        raise UsageError(f"no such database: {parsed.drivername}; {remedy}")
    return parsed
