"""Objects: create, upload, read, delete, expire; and the attachments of scenarios."""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from benchyard.engine.clock import now_ms
from benchyard.errors import Conflict, NotFound, ScorerFailed, StoreError, TooLarge, UsageError
from benchyard.models.objects import ObjectRequest, ObjectState, StoredObject
from benchyard.models.pages import Page, Query
from benchyard.models.runs import RUN_KEY
from benchyard.models.scenarios import Scenario
from benchyard.store.contents import ObjectContents
from benchyard.store.database import Store

OBJECT_PREFIX = "obj_"
_SWEEP_SECONDS = 5.0

logger = logging.getLogger("benchyard.objects")


class Objects:
    """The objects of this server. Use as an async context manager, which sweeps expired objects."""

    def __init__(self, store: Store, contents: ObjectContents, max_bytes: int) -> None:
        self.records = store.collection("objects", StoredObject)
        self._contents = contents
        self._max_bytes = max_bytes
        self._ends_ms: dict[str, int] = {}
        self._sweeper: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        present = {"status": (ObjectState.UPLOADING, ObjectState.READ_ONLY)}
        known = await self.records.all(present)
        self._ends_ms = {each.id: each.delete_after_time_ms for each in known if each.delete_after_time_ms}
        unreadable = await self.records.ids(present) - {each.id for each in known}
        wanted = {record.path for record in known}
        await self._contents.clear()
        for path in await self._contents.paths():
            if path not in wanted and path.partition("/")[0] not in unreadable:
                await self._contents.delete(path)
        self._sweeper = asyncio.create_task(self._sweep_for_ever())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            await asyncio.wait([self._sweeper])

    async def create(self, id: str, request: ObjectRequest, request_hash: str | None) -> StoredObject:
        """Create an object that waits for its content."""
        now = now_ms()
        record = StoredObject(
            id=id,
            create_time_ms=now,
            request_hash=request_hash,
            name=request.name,
            content_type=request.content_type,
            metadata=request.metadata or {},
            delete_after_time_ms=None if request.ttl_ms is None else now + request.ttl_ms,
        )
        stored, _ = await self.records.insert_once(record)
        if stored.delete_after_time_ms:
            self._ends_ms[stored.id] = stored.delete_after_time_ms
        return stored

    async def get(self, id: str) -> StoredObject:
        """Return an object as it is now; an expired one is deleted. Raises NotFound."""
        record = await self.records.get(id)
        end = record.delete_after_time_ms
        if record.state != ObjectState.DELETED and end is not None and end <= now_ms():
            return await self.delete(id)
        return record

    async def page(self, query: Query) -> Page[StoredObject]:
        """Return a page of objects, newest first."""
        await self._sweep()
        return await self.records.page(query)

    async def upload(self, id: str, pieces: AsyncIterator[bytes]) -> None:
        """Store an object's content; an interrupted upload changes nothing. Raises Conflict if complete."""
        _expect_uploading(await self.get(id))
        path = f"{id}/{secrets.token_hex(8)}"
        size = await self._contents.put(path, self._limit(pieces))
        replaced: list[str | None] = []

        def change(record: StoredObject) -> StoredObject:
            _expect_uploading(record)
            replaced.append(record.path)
            return record.model_copy(update={"path": path, "size_bytes": size})

        try:
            await self.records.change(id, change)
        except BaseException:
            await self._contents.delete(path)
            raise
        if replaced[0] is not None:
            await self._contents.delete(replaced[0])

    async def complete(self, id: str) -> StoredObject:
        """Complete an upload: from now on the object can be read but not written."""

        def change(record: StoredObject) -> StoredObject:
            _expect_uploading(record)
            if record.path is None:
                raise UsageError("nothing was uploaded yet; PUT the content to upload_url first")
            return record.model_copy(update={"state": ObjectState.READ_ONLY})

        await self.get(id)
        return await self.records.change(id, change)

    async def delete(self, id: str) -> StoredObject:
        """Remove the content and mark the object as deleted; a second call changes nothing."""
        removed: list[str | None] = []

        def change(record: StoredObject) -> StoredObject:
            removed.append(record.path)
            if record.state == ObjectState.DELETED:
                return record
            return record.model_copy(update={"state": ObjectState.DELETED, "path": None})

        deleted = await self.records.change(id, change)
        self._ends_ms.pop(id, None)
        if removed[-1] is not None:
            await self._contents.delete(removed[-1])
        return deleted

    async def rename(self, id: str, name: str) -> StoredObject:
        """Rename an object; raises Conflict for one that is deleted, or belongs to a run."""

        def change(record: StoredObject) -> StoredObject:
            if record.state == ObjectState.DELETED:
                raise Conflict(f"object {id} is deleted")
            if run_id := record.metadata.get(RUN_KEY):
                raise Conflict(f"object {id} is kept with run {run_id}, whose logs know it by its name")
            return record.model_copy(update={"name": name})

        return await self.records.change(id, change)

    async def remove(self, id: str) -> None:
        """Remove an object with its record; no error if there is none."""
        record = await self.records.find(id)
        if record is None:
            return
        self._ends_ms.pop(id, None)
        # If this is interrupted, the next start removes contents without a record.
        with contextlib.suppress(NotFound):
            await self.records.delete(id)
        if record.path is not None:
            await self._contents.delete(record.path)

    async def content(
        self, id: str, start: int = 0, end: int | None = None
    ) -> tuple[StoredObject, AsyncIterator[bytes]]:
        """Return an object and a stream of its bytes; raises NotFound, or Conflict if it is incomplete."""
        record = await self.get(id)
        if record.state == ObjectState.DELETED:
            raise NotFound(f"object {id[:200]} was deleted", id=id[:200])
        if record.state != ObjectState.READ_ONLY or record.path is None:
            raise Conflict(
                f"object {id[:200]} is {record.state}; complete its upload first", state=record.state
            )
        return record, self._contents.read(record.path, start, end)

    async def open_content(self, id: str) -> int:
        """Return a descriptor of an object's content, which the caller closes; raises as `content` does."""
        record, _ = await self.content(id)
        return await self._contents.open(str(record.path))

    async def _limit(self, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        received = 0
        async for piece in pieces:
            received += len(piece)
            if received > self._max_bytes:
                raise TooLarge(f"an object may have {self._max_bytes} bytes", limit_bytes=self._max_bytes)
            if piece:
                yield piece

    async def _sweep(self) -> None:
        now = now_ms()
        for id in [id for id, end in self._ends_ms.items() if end <= now]:
            await self.delete(id)

    async def _sweep_for_ever(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            try:
                await self._sweep()
            except StoreError:
                logger.warning("expired objects could not be removed; will try again", exc_info=True)


def _expect_uploading(record: StoredObject) -> None:
    if record.state != ObjectState.UPLOADING:
        raise Conflict(
            f"object {record.id} is {record.state}; make a new one to upload again", state=record.state
        )


MOST_BYTES = 256 * 1024**2
"""Most bytes of one attachment: it is held in memory while it is put into a devbox."""


class Attachments:
    """Attachments of one scenario."""

    def __init__(self, objects: Objects, scenario: Scenario) -> None:
        self._objects = objects
        self._ids = scenario.attachments or {}
        self._name = scenario.name

    async def content(self, name: str) -> bytes:
        """Return the bytes of an attachment; raises ScorerFailed with advice if they cannot be read."""
        if name not in self._ids:
            message = f"scenario {self._name!r} has no attachment {name!r}; import it again"
            raise ScorerFailed(message, cause="scorer")
        try:
            record, pieces = await self._objects.content(self._ids[name])
        except (NotFound, Conflict) as error:
            message = f"attachment {name!r} of the scenario: {error.message}; import it again"
            raise ScorerFailed(message, cause="scorer") from error
        if (record.size_bytes or 0) > MOST_BYTES:
            message = f"attachment {name!r} of the scenario is larger than {MOST_BYTES} bytes"
            raise ScorerFailed(message, cause="scorer")
        return b"".join([piece async for piece in pieces])
