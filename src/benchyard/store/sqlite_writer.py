"""The one writer of a SQLite file: what waits while it writes is written in one transaction after it.

If one of them raises, all are undone and each is done by itself: work must be such that it can be done again.
Whoever asked is told only when it is on disk.
"""

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import SQLAlchemyError

from benchyard.errors import StoreError
from benchyard.store.connections import database_errors
from benchyard.store.statements import Applying, Statement, apply_together

R = TypeVar("R")

_MOST_AT_ONCE = 100
_BEGIN, _COMMIT = Statement(text("BEGIN IMMEDIATE")), Statement(text("COMMIT"))
_PATIENCE_MS = 5000


@dataclass
class _Piece:
    work: Callable[[Connection], Any]
    deadline: float
    future: "asyncio.Future[Any]"
    result: Any = None
    error: BaseException | None = None


class SqliteWriter:
    """A thread that writes."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiting: list[_Piece] = []
        self._is_busy = False
        """Whether the thread has something to write, or will be given it in a moment."""
        self._queue: queue.SimpleQueue[list[_Piece] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._patience_ms = -1
        self._is_closed = False

    async def write(self, work: Callable[[Connection], R], deadline: float) -> R:
        """Run a piece of work; returns when it is on disk."""
        return await self.begin(work, deadline)

    def begin(self, work: Callable[[Connection], R], deadline: float) -> "asyncio.Future[R]":
        """Have a piece of work run, whether or not somebody waits for what comes back."""
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
            # Not at once: what others ask for in the same moment goes with it.
            loop.call_soon(self._hand_over)
        return future

    async def close(self) -> None:
        """Write what waits, and end."""
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
                # Whoever asked does not wait any more.
                continue
            if piece.error is not None:
                piece.future.set_exception(piece.error)
            else:
                piece.future.set_result(piece.result)
        # After those who were told: what they ask for next goes with what waits already.
        pieces[0].future.get_loop().call_soon(self._hand_over)

    def _write(self, pieces: Sequence[_Piece]) -> None:
        try:
            self._together(pieces)
        except BaseException as error:  # noqa: BLE001
            if len(pieces) == 1:
                pieces[0].error = error
                return
            # One of them raised, and all are undone: each by itself, only that one raises again.
            for piece in pieces:
                self._write([piece])

    def _together(self, pieces: Sequence[_Piece]) -> None:
        # Counted from the request on: while somebody locks the file, a queue must not wait in a row.
        patience = min(piece.deadline for piece in pieces) - time.monotonic()
        with database_errors(), self._transaction(patience) as connection:
            for piece in pieces:
                if not isinstance(piece.work, Applying):
                    piece.result = piece.work(connection)
            apply_together(connection, [each.work for each in pieces if isinstance(each.work, Applying)])

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
        """How long a write waits for another process that locks the file; set only when it is another."""
        patience_ms = max(0, min(_PATIENCE_MS, int(seconds * 1000)))
        if self._patience_ms - patience_ms not in range(_PATIENCE_MS // 10):
            connection.exec_driver_sql(f"PRAGMA busy_timeout={patience_ms}")
            self._patience_ms = patience_ms

    def _undo(self, connection: Connection) -> None:
        try:
            if connection.connection.driver_connection.in_transaction:  # type: ignore[union-attr]
                connection.exec_driver_sql("ROLLBACK")
        except SQLAlchemyError:
            # Begun anew: what this one thinks of the file may be wrong.
            connection.invalidate()
            self._connection, self._patience_ms = None, -1
