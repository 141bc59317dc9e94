"""SQLite in a file: one writer, several readers, each in threads of their own.

A whole transaction runs in its thread, so that it costs one hop there and back instead of one per statement.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event

from benchyard.store.connections import Connections, database_errors, until_ended
from benchyard.store.private import keep_private
from benchyard.store.sqlite_writer import SqliteWriter

R = TypeVar("R")

_READERS = 4
_PATIENCE_SECONDS = 5.0
"""How long a write waits for another process that has the file locked."""
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")


class SqliteConnections(Connections):
    """The threads and connections of a SQLite file."""

    def __init__(self, url: URL) -> None:
        if url.database and url.database != ":memory:":
            keep_private(Path(url.database))
        # Hidden parameters: an error that is logged must not show what was to be kept.
        self._reading = create_engine(
            url, isolation_level="AUTOCOMMIT", pool_size=_READERS, hide_parameters=True
        )
        # The writer begins and ends its transactions by itself.
        self._writing = create_engine(url, isolation_level="AUTOCOMMIT", pool_size=1, hide_parameters=True)
        for engine in (self._reading, self._writing):
            event.listen(engine, "connect", _set_up)
        self._readers = ThreadPoolExecutor(_READERS, "sqlite-reader")
        self._writer = SqliteWriter(self._writing)

    async def read(self, work: Callable[[Connection], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._readers, _read, self._reading, work)

    async def write(self, work: Callable[[Connection], R]) -> R:
        return await self._writer.write(work, time.monotonic() + _PATIENCE_SECONDS)

    async def write_whole(self, work: Callable[[Connection], R]) -> R:
        # Not in a task of its own, which takes as long as the work.
        return await until_ended(self._writer.begin(work, time.monotonic() + _PATIENCE_SECONDS))

    async def close(self) -> None:
        await self._writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        self._writing.dispose()
        self._reading.dispose()


def _read(engine: Engine, work: Callable[[Connection], R]) -> R:
    with database_errors(), engine.connect() as connection:
        return work(connection)


def _set_up(connection: Any, _: Any) -> None:
    # The driver would begin transactions by its own rules; `_begin_immediate` begins them by ours.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()
