"""The gateway's one writer: a thread that records calls in the order of their arrival, and counts them.

Tasks that queue up during a write are committed together. A call that cannot be recorded is logged and still
counted, and its agent goes on.
"""

import asyncio
import contextlib
import logging
import queue
import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchyard.errors import BenchyardError, NotFound, StoreError, from_os
from benchyard.gateway.calls import TokenUsage
from benchyard.gateway.dialects import model_replies
from benchyard.gateway.dialects.base import Dialect
from benchyard.gateway.dialects.values import is_dense, parse_json
from benchyard.gateway.protocol import RECORDS, record_file
from benchyard.gateway.records import prices, storage
from benchyard.gateway.records.reader import GrantHistory, read_history
from benchyard.gateway.records.storage import CallEnd, CallStart

MOST_WAITING_BYTES = 256 * 1024 * 1024
"""Limit for bodies that are not on disk yet, in bytes; new requests wait beyond that."""
_MOST_OPEN = 32
_MOST_AT_ONCE = 100
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class CallSubject:
    """Owner of a call, its dialect, and its price list."""

    grant_id: str
    group: str | None
    dialect: Dialect
    prices: str | None


@dataclass(frozen=True)
class CallTally:
    """Outcome of an ended call, for the count of its grant."""

    status: int
    usage: TokenUsage | None
    cost_usd: float | None
    error: str | None


@dataclass(slots=True)
class _WriteTask:
    work: Callable[[], Any]
    future: "asyncio.Future[Any] | None"
    """None if no caller waits for the result."""
    size: int = 0
    result: Any = None
    error: Exception | None = None


class Recorder:
    """Writer of the calls under a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs: queue.SimpleQueue[_WriteTask | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting = 0
        self._room = asyncio.Event()
        self._files = _Files(folder)
        self._models: dict[str, dict[int, str | None]] = {}

    def open(self) -> None:
        """Start writing."""
        (self._folder / RECORDS).mkdir(exist_ok=True, mode=0o700)
        self._loop = asyncio.get_running_loop()
        self._room.set()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        """Write the queued tasks, and end."""
        self._jobs.put(None)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join)

    async def room(self) -> None:
        """Wait until the queue of bodies is below its limit."""
        await self._room.wait()

    def begin(self, subject: CallSubject, call: CallStart, body: bytes, encoding: str | None) -> None:
        """Record the start of a call."""
        self._queue(_WriteTask(lambda: self._begin(subject, call, body, encoding), None, len(body)))

    def end(self, subject: CallSubject, call: CallEnd) -> "asyncio.Future[CallTally]":
        """Record the end of a call, and return its outcome."""
        return self._put(lambda: self._end(subject, call), len(call.answer))

    def note(self, grant_id: str, key: str, value: str) -> None:
        """Record a fact about a grant."""
        self._queue(_WriteTask(lambda: storage.put_meta(self._files.writing(grant_id), key, value), None))

    async def recorded_history(self, grant_id: str) -> GrantHistory | None:
        """Return the usage of a grant, after all queued tasks are written; None if it has no record."""
        totals: GrantHistory | None = await self._put(lambda: self._files.recorded_history(grant_id))
        return totals

    async def of_groups(self) -> dict[str, dict[str, GrantHistory]]:
        """Return the recorded usage of grants with a group, by group and id."""
        totals: dict[str, dict[str, GrantHistory]] = await self._put(self._files.of_groups)
        return totals

    async def finish(self, grant_id: str) -> None:
        """Write all queued tasks, and close the grant's file."""
        await self._put(lambda: self._finish(grant_id))

    async def forget(self, grant_id: str) -> None:
        """Remove the record of a grant."""
        await self._put(lambda: self._files.remove(grant_id))

    def _put(self, work: Callable[[], Any], size: int = 0) -> "asyncio.Future[Any]":
        assert self._loop is not None
        future: asyncio.Future[Any] = self._loop.create_future()
        self._queue(_WriteTask(work, future, size))
        return future

    def _queue(self, job: _WriteTask) -> None:
        self._waiting += job.size
        if self._waiting > MOST_WAITING_BYTES:
            self._room.clear()
        self._jobs.put(job)

    def _run(self) -> None:
        going_on = True
        while going_on:
            batch: list[_WriteTask] = []
            job = self._jobs.get()
            while job is not None:
                batch.append(job)
                if len(batch) == _MOST_AT_ONCE:
                    break
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            going_on = job is not None
            self._write(batch)
        self._files.close_all()

    def _write(self, batch: list[_WriteTask]) -> None:
        for job in batch:
            _try_task(job)
        metered = [job for job in batch if isinstance(job.result, CallTally)]
        if metered:
            # Report the usage before the commit: the next request may wait for it, and need not wait for the
            # disk.
            self._call(_resolve_all, metered)
        failed = self._files.commit()
        if failed is not None and len(batch) > 1:
            # Any task of the batch may be undone: repeat each by itself, which is harmless for the others.
            for job in batch:
                _try_task(job)
                job.error = self._files.commit() or job.error
        elif failed is not None:
            batch[0].error = failed
        self._call(self._tell, batch)

    def _call(self, tell: Callable[[Any], None], what: Any) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(tell, what)

    def _tell(self, batch: list[_WriteTask]) -> None:
        for job in batch:
            self._waiting -= job.size
            if job.error is not None:
                _LOG.error("a record could not be written: %s", job.error)
        _resolve_all(batch)
        if self._waiting <= MOST_WAITING_BYTES:
            self._room.set()

    def _begin(self, subject: CallSubject, call: CallStart, body: bytes, encoding: str | None) -> None:
        request, model = _read(subject.dialect, call.path, body, encoding)
        self._models.setdefault(subject.grant_id, {})[call.number] = model
        connection = self._files.writing(subject.grant_id)
        if subject.group is not None:
            storage.put_meta(connection, "group", subject.group)
        storage.put_start(connection, call, model, request, subject.dialect.shared)

    def _end(self, subject: CallSubject, call: CallEnd) -> CallTally:
        said = _answer_content(subject, call)
        usage, cost = said.usage, None
        if usage is not None and said.is_whole:
            begun = self._models.get(subject.grant_id, {}).get(call.number)
            cost = prices.cost_usd(subject.prices, (_answering_model(said.response), begun), usage)
        # Many agents hang up right after the last event: that is not an error.
        error = said.error if said.is_whole else call.error or said.error
        metered = CallTally(call.status, usage, cost, error)
        try:
            connection = self._files.writing(subject.grant_id, lasting=True)
            storage.put_end(connection, replace(call, error=metered.error), usage, cost)
        except (sqlite3.Error, ValueError, OverflowError) as error:
            _LOG.error("a call of %s could not be kept: %s", subject.grant_id, error)
        return metered

    def _finish(self, grant_id: str) -> None:
        self._models.pop(grant_id, None)
        self._files.close(grant_id)


def _resolve_all(batch: list[_WriteTask]) -> None:
    for job in batch:
        if job.future is None or job.future.done():
            continue
        if job.error is not None and job.result is None:
            job.future.set_exception(job.error)
        else:
            job.future.set_result(job.result)


def _try_task(job: _WriteTask) -> None:
    try:
        job.result, job.error = job.work(), None
    except OSError as error:
        job.error = from_os(error)
    except (BenchyardError, sqlite3.Error, *model_replies.READING_ERRORS) as error:
        # An unforeseen failure of one call must not end the recording of all others.
        job.error = error


def _read(dialect: Dialect, path: str, body: bytes, encoding: str | None) -> tuple[Any, str | None]:
    """Return the body of a request as JSON, or else as text, and the model that it asks for."""
    try:
        content = model_replies.decode_body(body, encoding)
        if is_dense(content):
            # Parsing it would hold up all other calls.
            return content.decode(errors="replace"), None
        request = parse_json(content)
    except ValueError:
        return body.decode(errors="replace"), None
    return request, dialect.model(path, request)


def _answer_content(subject: CallSubject, call: CallEnd) -> model_replies.ReplyContent:
    if not call.status:
        return model_replies.ReplyContent()
    try:
        content = model_replies.decode_body(call.answer, call.encoding)
    except ValueError as error:
        return model_replies.ReplyContent(error=str(error))
    return model_replies.read_answer(subject.dialect, call.status, call.kind, content, bare=True)


def _answering_model(response: Any) -> str | None:
    """Return the model that an answer names."""
    if not isinstance(response, dict):
        return None
    name = response.get("model") or response.get("modelVersion")
    return name if isinstance(name, str) else None


class _Files:
    """Files that are open for writing; used only in the writer's thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: OrderedDict[str, sqlite3.Connection] = OrderedDict()
        self._lasting: set[str] = set()

    def writing(self, grant_id: str, *, lasting: bool = False) -> sqlite3.Connection:
        """Return a grant's file within a transaction; a `lasting` one is synced to disk at the commit."""
        if lasting:
            self._lasting.add(grant_id)
        connection = self._open.pop(grant_id, None)
        if connection is None:
            connection = storage.open_for_writing(record_file(self._folder, grant_id))
        self._open[grant_id] = connection
        if not connection.in_transaction:
            connection.execute("BEGIN IMMEDIATE")
        return connection

    def commit(self) -> Exception | None:
        """Commit all open transactions; roll back a failed one, and return its error."""
        failed = None
        for grant_id, connection in self._open.items():
            try:
                if connection.in_transaction:
                    connection.execute("COMMIT")
                    if grant_id in self._lasting:
                        storage.sync_to_disk(record_file(self._folder, grant_id))
            except (sqlite3.Error, OSError) as error:
                failed = error
                with contextlib.suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
        self._lasting.clear()
        while len(self._open) > _MOST_OPEN:
            self._open.popitem(last=False)[1].close()
        return failed

    def recorded_history(self, grant_id: str) -> GrantHistory | None:
        self._commit()
        try:
            return read_history(record_file(self._folder, grant_id))
        except NotFound:
            return None

    def of_groups(self) -> dict[str, dict[str, GrantHistory]]:
        groups: dict[str, dict[str, GrantHistory]] = {}
        for file in (self._folder / RECORDS).glob("*.db"):
            try:
                totals = self.recorded_history(file.stem)
            except BenchyardError as error:
                _LOG.error("what was used before is not counted: %s", error)
                continue
            if totals is not None and totals.group is not None:
                groups.setdefault(totals.group, {})[file.stem] = totals
        return groups

    def _commit(self) -> None:
        failed = self.commit()
        if failed is not None:
            raise StoreError(f"calls could not be kept: {failed}")

    def close(self, grant_id: str) -> None:
        self._commit()
        connection = self._open.pop(grant_id, None)
        if connection is not None:
            connection.close()

    def close_all(self) -> None:
        for grant_id in list(self._open):
            self.close(grant_id)

    def remove(self, grant_id: str) -> None:
        self.close(grant_id)
        file = record_file(self._folder, grant_id)
        for path in (file, file.with_name(f"{file.name}-wal"), file.with_name(f"{file.name}-shm")):
            path.unlink(missing_ok=True)
