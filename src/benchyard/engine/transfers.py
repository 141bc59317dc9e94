"""Snapshots and images that travel between machines, as OCI archives."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from benchyard.engine.descriptors import write_all
from benchyard.engine.devboxes import Asked
from benchyard.engine.journal import now_ms
from benchyard.engine.snapshots import Snapshots
from benchyard.engine.tools import Tools
from benchyard.errors import Conflict, ImageError, UsageError
from benchyard.images.exporting import Archive
from benchyard.images.image import Image
from benchyard.models.snapshots import Snapshot, SnapshotImportRequest, SnapshotRequest, SnapshotStatus

_PREFIX = "dev.benchyard."
_ID_LENGTH = 128


class Transfers:
    """Takes archives in and gives them out; one at a time each, since each needs its own size of disk."""

    def __init__(self, tools: Tools, snapshots: Snapshots) -> None:
        self._tools = tools
        self._snapshots = snapshots
        self._exporting = asyncio.Lock()
        self._importing = asyncio.Lock()

    @asynccontextmanager
    async def exported_snapshot(self, snapshot_id: str) -> AsyncIterator[Archive]:
        """An archive of a snapshot; raises NotFound, and Conflict while there is nothing to export."""
        snapshot = await self._snapshots.records.get(snapshot_id)
        if snapshot.status is not SnapshotStatus.COMPLETE:
            raise Conflict(
                f"snapshot {snapshot_id} is {snapshot.status}; only a complete one can be exported"
            )
        async with self._exported(await self._tools.images.get(snapshot_id), _notes(snapshot)) as archive:
            yield archive

    @asynccontextmanager
    async def exported_image(self, id_or_name: str) -> AsyncIterator[Archive]:
        """An archive of an image; raises NotFound."""
        image = await self._tools.images.get(id_or_name)
        async with self._exported(image, {f"{_PREFIX}name": image.name}) as archive:
            yield archive

    @asynccontextmanager
    async def _exported(self, image: Image, notes: Mapping[str, str]) -> AsyncIterator[Archive]:
        async with self._exporting, self._tools.images.exported(image, notes) as archive:
            yield archive

    async def import_snapshot(self, asked: Asked, request: SnapshotImportRequest) -> Snapshot:
        """Make a snapshot of an archive; the same request again returns the same one."""
        if (request.object_id is None) == (request.path is None):
            raise UsageError("give either object_id or path")
        if await self._snapshots.records.find(asked.id) is None:
            await self._check(request)
        record = Snapshot(
            id=asked.id,
            create_time_ms=now_ms(),
            request_hash=asked.request_hash,
            source_devbox_id="",
            name=request.name or None,
        )
        return await self._snapshots.make(record, partial(self._taken_in, request, asked.id))

    async def _check(self, request: SnapshotImportRequest) -> None:
        """Refuse what is not there before anything is noted."""
        if request.object_id is not None:
            await self._tools.objects.content(request.object_id)
        else:
            _existing(request.path or "")

    async def _taken_in(self, request: SnapshotImportRequest, snapshot_id: str) -> dict[str, object]:
        """Import, and return what the snapshot's record shall say."""
        async with self._importing, archive_of(self._tools, request.object_id, request.path) as source:
            image, notes = await self._tools.images.import_snapshot(source, snapshot_id)
        noted = _noted(notes)
        named = {"name": request.name} if request.name else {}
        return {**noted, **named, "size_bytes": image.size_bytes}


def archive_of(tools: Tools, object_id: str | None, path: str | None) -> AbstractAsyncContextManager[Path]:
    """Where an archive lies that was given as an object or as a path of this machine."""
    return _of_object(tools, object_id) if object_id is not None else _of_path(path or "")


@asynccontextmanager
async def _of_path(path: str) -> AsyncIterator[Path]:
    yield _existing(path)


def _existing(path: str) -> Path:
    source = Path(path)
    if not source.is_absolute() or "\0" in path or not source.exists():
        raise UsageError(
            f"no absolute path of the server's machine: {path[:200]!r}; upload an object instead"
        )
    return source


@asynccontextmanager
async def _of_object(tools: Tools, object_id: str) -> AsyncIterator[Path]:
    _, content = await tools.objects.content(object_id)
    async with tools.images.scratch() as folder:
        with (folder / "archive").open("wb") as file:
            async for piece in content:
                await asyncio.to_thread(write_all, file.fileno(), piece)
        yield folder / "archive"


def _notes(snapshot: Snapshot) -> dict[str, str]:
    """What an archive tells about the snapshot in it."""
    told = {
        "name": snapshot.name,
        "commit_message": snapshot.commit_message,
        "metadata": json.dumps(snapshot.metadata, sort_keys=True) if snapshot.metadata else None,
        "source_devbox_id": snapshot.source_devbox_id,
        "source_blueprint_id": snapshot.source_blueprint_id,
        "snapshot_id": snapshot.id,
    }
    return {_PREFIX + name: value for name, value in told.items() if value}


def _noted(notes: Mapping[str, str]) -> dict[str, object]:
    """The same of an archive that came from elsewhere; raises ImageError for what cannot be kept."""
    told = {name: notes.get(_PREFIX + name) for name in ("name", "commit_message")}
    try:
        metadata = json.loads(notes.get(f"{_PREFIX}metadata", "{}"))
        request = SnapshotRequest.model_validate({**told, "metadata": metadata})
    except (ValidationError, ValueError, RecursionError) as error:
        raise ImageError(
            "the archive's name, message or metadata cannot be kept: import it as an image"
        ) from error
    sources = {name: notes.get(_PREFIX + name, "") for name in ("source_devbox_id", "source_blueprint_id")}
    kept = {name: value for name, value in sources.items() if 0 < len(value) <= _ID_LENGTH}
    return {**request.model_dump(exclude_none=True), **kept}
