"""SQLite in a file: one writer, several readers, each in threads of their own.

A whole transaction runs in its thread, so that it costs one hop there and back instead of one per statement.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event

from benchyard.store.connections import Connections, database_errors

R = TypeVar("R")

_READERS = 4
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")


class SqliteConnections(Connections):
    """The threads and connections of a SQLite file."""

    def __init__(self, url: URL) -> None:
        # Hidden parameters: an error that is logged must not show what was to be kept.
        self._reading = create_engine(
            url, isolation_level="AUTOCOMMIT", pool_size=_READERS, hide_parameters=True
        )
        self._writing = create_engine(url, pool_size=1, hide_parameters=True)
        for engine in (self._reading, self._writing):
            event.listen(engine, "connect", _set_up)
        event.listen(self._writing, "begin", _begin_immediate)
        self._readers = ThreadPoolExecutor(_READERS, "sqlite-reader")
        self._writer = ThreadPoolExecutor(1, "sqlite-writer")

    async def read(self, work: Callable[[Connection], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._readers, _read, self._reading, work)

    async def write(self, work: Callable[[Connection], R]) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._writer, _write, self._writing, work)

    async def close(self) -> None:
        for threads in (self._writer, self._readers):
            await asyncio.to_thread(threads.shutdown)
        self._writing.dispose()
        self._reading.dispose()


def _read(engine: Engine, work: Callable[[Connection], R]) -> R:
    with database_errors(), engine.connect() as connection:
        return work(connection)


def _write(engine: Engine, work: Callable[[Connection], R]) -> R:
    with database_errors(), engine.begin() as connection:
        return work(connection)


def _set_up(connection: Any, _: Any) -> None:
    # The driver would begin transactions by its own rules; `_begin_immediate` begins them by ours.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
