"""Snapshots of devboxes' disks for the API."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from benchyard.engine.background import retry_store, snapshot_key_prefix
from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.states import BOOTING, ENDED
from benchyard.errors import (
    BenchyardError,
    Conflict,
    DevboxError,
    ImageError,
    NotFound,
    StillWaiting,
    UsageError,
    message_of,
)
from benchyard.hosts.cancellation import run_to_end, wait_at_most
from benchyard.models.snapshots import Snapshot, SnapshotRequest, SnapshotStatus
from benchyard.store.collection import Collection

COLLECT_SECONDS = 60.0

_S = SnapshotStatus
_log = logging.getLogger(__name__)


class Snapshots:
    """All snapshots; each is an image of the same id on the host."""

    def __init__(self, tools: EngineContext, records: Collection[Snapshot]) -> None:
        self.records = records
        self._tools = tools
        self._deleted = asyncio.Event()

    async def open(self) -> None:
        """Settle snapshots that a stop interrupted, and start the removal of deleted ones."""
        for snapshot in await self.records.all({"status": _S.IN_PROGRESS.value}):
            await self._settle(snapshot)
        self._tools.work.start("snapshots/collect", self._collect_for_ever)

    async def start(self, devbox_id: str, caller: Caller, request: SnapshotRequest) -> Snapshot:
        """Begin a snapshot; the same request again returns the same one."""
        existing = await self.records.find(caller.id)
        devbox = await self._tools.live_devboxes.get(devbox_id)
        if existing is None and devbox.status in BOOTING:
            raise StillWaiting(f"devbox {devbox.id} is still {devbox.status}; wait until it is running")
        if existing is None and devbox.status in ENDED:
            raise Conflict(f"devbox {devbox.id} has ended ({devbox.status}); its disk is gone")
        record = Snapshot(
            id=caller.id,
            create_time_ms=now_ms(),
            request_hash=caller.request_hash,
            source_devbox_id=devbox_id,
            source_blueprint_id=devbox.blueprint_id,
            source_snapshot_id=devbox.snapshot_id,
            name=request.name or None,
            commit_message=request.commit_message or None,
            metadata=request.metadata or {},
        )
        snapshot, is_new = await self.records.insert_once(record)
        if is_new:

            async def work() -> dict[str, object]:
                return {"size_bytes": await self._tools.host.snapshot(devbox_id, snapshot.id)}

            key = snapshot_key_prefix(devbox_id) + snapshot.id
            self._tools.work.start(key, partial(self._do, snapshot.id, work))
        return snapshot

    async def make(
        self,
        record: Snapshot,
        work: Callable[[], Awaitable[dict[str, object]]],
        detached: asyncio.Event | None = None,
    ) -> Snapshot:
        """Make a snapshot by this work instead of taking one, and wait; the work returns fields to note.

        Raises ImageError if the work failed, and then leaves no record. Cancellation stops the work. With
        `detached` it waits only for that event: the work goes on, and the record gets its result.
        """
        while True:
            snapshot, is_new = await self.records.insert_once(record)
            key = f"snapshot//{snapshot.id}"
            if is_new:
                self._tools.work.start(key, partial(self._do, snapshot.id, work))
            try:
                await self._either_settled(key, detached if is_new else None)
            except asyncio.CancelledError:
                if is_new and detached is None:
                    await run_to_end(self._abandon(key, snapshot.id))
                raise
            made = await self.records.find(snapshot.id)
            # The first caller may have been cancelled and have stopped the work.
            if made is not None or is_new:
                break
        if detached is not None and made is not None and made.status is _S.IN_PROGRESS:
            return made
        if made is None or made.status is _S.ERROR:
            with contextlib.suppress(NotFound):
                await self.records.delete(snapshot.id)
            raise ImageError(f"the snapshot was not made: {made.error_message if made else 'ask again'}")
        return made

    async def _either_settled(self, key: str, detached: asyncio.Event | None) -> None:
        settled = asyncio.ensure_future(self._tools.work.settle(key))
        waits = [settled, *([asyncio.ensure_future(detached.wait())] if detached else [])]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _abandon(self, key: str, snapshot_id: str) -> None:
        """Stop the work on a snapshot whose caller has gone, and delete its record."""
        await self._tools.work.cancel(key)
        with contextlib.suppress(NotFound):
            if (await self.records.get(snapshot_id)).status is not _S.COMPLETE:
                await self.records.delete(snapshot_id)

    async def take(self, devbox_id: str, caller: Caller, request: SnapshotRequest) -> Snapshot:
        """Take a snapshot and wait until it is complete; raises DevboxError if it failed."""
        snapshot = await self.start(devbox_id, caller, request)
        await self._tools.work.settle(snapshot_key_prefix(devbox_id) + snapshot.id)
        snapshot = await self.records.get(snapshot.id)
        if snapshot.status is _S.ERROR:
            raise DevboxError(f"snapshot {snapshot.id} failed: {snapshot.error_message}")
        return snapshot

    async def update(self, snapshot_id: str, request: SnapshotRequest) -> Snapshot:
        """Change name, message or metadata; None leaves them, empty clears them."""

        def apply(snapshot: Snapshot) -> Snapshot:
            if snapshot.status is _S.DELETED:
                raise UsageError(f"snapshot {snapshot_id} is deleted")
            given = request.model_dump(exclude_none=True)
            cleaned = {key: value or ({} if key == "metadata" else None) for key, value in given.items()}
            return snapshot.model_copy(update=cleaned) if cleaned else snapshot

        return await self.records.change(snapshot_id, apply)

    async def delete(self, snapshot_id: str) -> Snapshot:
        """Delete a snapshot; raises Conflict while it is taken or devboxes are being made from it.

        Running and suspended devboxes based on it keep its layers until they have ended.
        """

        def apply(snapshot: Snapshot) -> Snapshot:
            if snapshot.status is _S.IN_PROGRESS:
                raise Conflict(f"snapshot {snapshot_id} is still being taken; wait for it")
            return snapshot.model_copy(update={"status": _S.DELETED})

        await self.records.get(snapshot_id)
        self._tools.make_room_to_end()
        for devbox in self._tools.live_devboxes.live():
            if devbox.snapshot_id == snapshot_id and devbox.status in BOOTING:
                raise Conflict(f"devbox {devbox.id} is being made from snapshot {snapshot_id}; wait for it")
        snapshot = await self.records.change(snapshot_id, apply)
        # The caller does not wait: removing gigabytes takes time.
        self._deleted.set()
        return snapshot

    async def collect(self) -> None:
        """Remove the images of deleted snapshots that no devbox or other image is based on any more."""
        used = {devbox.image for devbox in self._tools.live_devboxes.live()}
        for snapshot in await self.records.all({"status": _S.DELETED.value}):
            if snapshot.has_image and snapshot.id not in used:
                await self._remove_image(snapshot.id)
                await self._set(snapshot.id, has_image=False)

    async def _collect_for_ever(self) -> None:
        while True:
            self._deleted.clear()
            try:
                await self.collect()
            except (BenchyardError, OSError) as error:
                _log.warning("deleted snapshots could not be removed, will try again: %s", error)
            await wait_at_most(COLLECT_SECONDS, self._deleted.wait())

    async def _do(self, snapshot_id: str, work: Callable[[], Awaitable[dict[str, object]]]) -> None:
        try:
            facts = await work()
        except asyncio.CancelledError:
            await run_to_end(self._fail(snapshot_id, "the devbox or the server was stopped meanwhile"))
            raise
        except (BenchyardError, OSError) as error:
            reason = message_of(error)
            await retry_store(self._fail, snapshot_id, reason)
            return
        await retry_store(self._set, snapshot_id, status=_S.COMPLETE, has_image=True, **facts)

    async def _settle(self, snapshot: Snapshot) -> None:
        """Settle a snapshot that a stop interrupted: if its image exists, it is complete."""
        image = next((each for each in await self._tools.images.list() if each.id == snapshot.id), None)
        if image is None or not snapshot.source_devbox_id:
            await self._fail(snapshot.id, "the server stopped while the snapshot was being made")
        else:
            await self._set(snapshot.id, status=_S.COMPLETE, has_image=True, size_bytes=image.size_bytes)

    async def _remove_image(self, snapshot_id: str) -> None:
        with contextlib.suppress(NotFound):
            await self._tools.images.remove(snapshot_id)

    async def _fail(self, snapshot_id: str, reason: str) -> None:
        await self._remove_image(snapshot_id)
        await self._set(snapshot_id, status=_S.ERROR, error_message=reason)

    async def _set(self, snapshot_id: str, **fields: object) -> None:
        await self.records.change(snapshot_id, lambda record: record.model_copy(update=fields))
