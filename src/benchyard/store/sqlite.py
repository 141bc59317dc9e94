"""SQLite in a file: one writer and several readers, in threads of their own.

A whole transaction runs in its thread, so that it costs one switch there and back instead of one per
statement.
"""

import asyncio
import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, text
from sqlalchemy.exc import SQLAlchemyError

from benchyard.errors import StoreError
from benchyard.store.connections import DatabaseConnections, database_errors, until_ended
from benchyard.store.private_files import keep_private
from benchyard.store.statements import Statement, StatementRows, apply_together

R = TypeVar("R")

_MOST_AT_ONCE = 100
_ROUGHLY_MS = 500
"""Difference in patience that is too small for setting the connection's timeout again."""
_BEGIN, _COMMIT = Statement(text("BEGIN IMMEDIATE")), Statement(text("COMMIT"))


@dataclass
class _Piece:
    work: Callable[[Connection], Any]
    deadline: float
    future: "asyncio.Future[Any]"
    result: Any = None
    error: BaseException | None = None


class SqliteWriter:
    """Thread that runs all writes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: list[_Piece] = []
        self._is_busy = False
        """True if the thread has work, or will be given some in a moment."""
        self._queue: queue.SimpleQueue[list[_Piece] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._patience_ms = -1
        self._is_closed = False

    async def write(self, work: Callable[[Connection], R], deadline: float) -> R:
        """Run a piece of work; return its result when it is on disk."""
        return await self.begin(work, deadline)

    def begin(self, work: Callable[[Connection], R], deadline: float) -> "asyncio.Future[R]":
        """Schedule a piece of work; it runs even if its result is not awaited."""
        if self._is_closed:
            raise StoreError("the store is closed; the server is stopping, try again")
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="sqlite-writer", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._waiting.append(_Piece(work, deadline, future))
        if not self._is_busy:
            self._is_busy = True
            # Later in this turn of the loop, so that concurrent requests share one transaction.
            loop.call_soon(self._hand_over)
        return future

    async def close(self) -> None:
        """Finish the waiting work, and end the thread."""
        self._is_closed = True
        if self._thread is not None:
            while self._waiting:
                self._hand_over()
            self._queue.put(None)
            await asyncio.to_thread(self._thread.join)

    def _hand_over(self) -> None:
        pieces, self._waiting = self._waiting[:_MOST_AT_ONCE], self._waiting[_MOST_AT_ONCE:]
        self._is_busy = bool(pieces)
        if pieces:
            self._queue.put(pieces)

    def _run(self) -> None:
        while (pieces := self._queue.get()) is not None:
            self._write(pieces)
            pieces[0].future.get_loop().call_soon_threadsafe(self._tell, pieces)
        if self._connection is not None:
            self._connection.close()

    def _tell(self, pieces: Sequence[_Piece]) -> None:
        for piece in pieces:
            if piece.future.done():
                # The caller does not wait any more.
                continue
            if piece.error is not None:
                piece.future.set_exception(piece.error)
            else:
                piece.future.set_result(piece.result)
        # Let resolved callers run first, so that their next requests join those already waiting.
        pieces[0].future.get_loop().call_soon(self._hand_over)

    def _write(self, pieces: Sequence[_Piece]) -> None:
        try:
            self._together(pieces)
        except BaseException as error:  # noqa: BLE001
            if len(pieces) == 1:
                pieces[0].error = error
                return
            # One piece failed and all were undone: run each by itself, so that only that piece fails again.
            for piece in pieces:
                self._write([piece])

    def _together(self, pieces: Sequence[_Piece]) -> None:
        # Patience counts from the request: while another process locks the file, the waits must not add up.
        patience = min(piece.deadline for piece in pieces) - time.monotonic()
        with database_errors(), self._transaction(patience) as connection:
            for piece in pieces:
                if not isinstance(piece.work, StatementRows):
                    piece.result = piece.work(connection)
            apply_together(connection, [each.work for each in pieces if isinstance(each.work, StatementRows)])

    @contextlib.contextmanager
    def _transaction(self, patience: float) -> Iterator[Connection]:
        connection = self._connection = self._connection or self._engine.connect()
        try:
            self._wait_for(connection, patience)
            _BEGIN.apply(connection, {})
            yield connection
            _COMMIT.apply(connection, {})
        except BaseException:
            self._undo(connection)
            raise

    def _wait_for(self, connection: Connection, seconds: float) -> None:
        """Set how long a write waits for another process's lock on the file, if that differs from before."""
        patience_ms = max(0, int(seconds * 1000))
        if self._patience_ms - patience_ms not in range(_ROUGHLY_MS):
            connection.exec_driver_sql(f"PRAGMA busy_timeout={patience_ms}")
            self._patience_ms = patience_ms

    def _undo(self, connection: Connection) -> None:
        try:
            if connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
                connection.exec_driver_sql("ROLLBACK")
        except SQLAlchemyError:
            # Start over with a new connection: its view of the file is certainly right.
            connection.invalidate()
            self._connection, self._patience_ms = None, -1


_READERS = 4
_PATIENCE_SECONDS = 5.0
"""Seconds that a write waits while another process has the file locked."""
_OPENING_SECONDS = 30.0
"""The same for making the schema and setting up connections, which on a busy machine take several seconds."""
_RETRY_SECONDS = 0.01
_PRAGMAS = (
    f"busy_timeout={_OPENING_SECONDS * 1000:.0f}",
    *("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"),
    f"busy_timeout={_PATIENCE_SECONDS * 1000:.0f}",
)


class SqliteConnections(DatabaseConnections):
    """The threads and connections of a SQLite file."""

    def __init__(self, url: URL) -> None:
        if url.database and url.database != ":memory:":
            keep_private(Path(url.database))
        # Hide parameters: a logged error must not show the values to be stored.
        self._reading = create_engine(
            url, isolation_level="AUTOCOMMIT", pool_size=_READERS, hide_parameters=True
        )
        # The writer begins and ends its transactions itself.
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
        # Avoid a separate task, which costs as much as the work itself.
        return await until_ended(self._writer.begin(work, time.monotonic() + _PATIENCE_SECONDS))

    async def prepare(self, work: Callable[[Connection], R]) -> R:
        return await self._writer.write(work, time.monotonic() + _OPENING_SECONDS)

    async def close(self) -> None:
        await self._writer.close()
        await asyncio.to_thread(self._readers.shutdown)
        self._writing.dispose()
        self._reading.dispose()


def _read(engine: Engine, work: Callable[[Connection], R]) -> R:
    with database_errors(), engine.connect() as connection:
        return work(connection)


def _set_up(connection: Any, _: Any) -> None:
    # Keep the driver from beginning transactions itself; `_transaction` begins them.
    connection.isolation_level = None
    cursor = connection.cursor()
    deadline = time.monotonic() + _OPENING_SECONDS
    for pragma in _PRAGMAS:
        _apply_pragma(cursor, pragma, deadline)
    cursor.close()


def _apply_pragma(cursor: sqlite3.Cursor, pragma: str, deadline: float) -> None:
    # The change of a new file to WAL does not wait for `busy_timeout`: SQLite refuses it at once if two
    # connections begin it together.
    while True:
        try:
            cursor.execute(f"PRAGMA {pragma}")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
        else:
            return
