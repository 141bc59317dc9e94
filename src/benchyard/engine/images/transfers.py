"""Snapshots and images that travel between machines, as OCI archives."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

from pydantic import ValidationError

from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.descriptors import write_all
from benchyard.engine.devboxes.snapshots import Snapshots
from benchyard.errors import Conflict, ImageError, UsageError, WorkerFailed
from benchyard.images.exports import ImageArchive
from benchyard.images.image import Image
from benchyard.models.snapshots import Snapshot, SnapshotImportRequest, SnapshotRequest, SnapshotStatus
from benchyard.settings import Settings
from benchyard.workers import foreign_files
from benchyard.workers.workers import WorkerCall

_PREFIX = "dev.benchyard."
_ID_LENGTH = 128


class Transfers:
    """Imports and exports archives, one of each at a time, since each needs its own size of disk."""

    def __init__(self, tools: EngineContext, snapshots: Snapshots) -> None:
        self._tools = tools
        self._snapshots = snapshots
        self._exporting = asyncio.Lock()
        self._importing = asyncio.Lock()

    @asynccontextmanager
    async def export_snapshot(self, snapshot_id: str) -> AsyncIterator[ImageArchive]:
        """Yield an archive of a snapshot; raises NotFound, and Conflict while there is none to export."""
        snapshot = await self._snapshots.records.get(snapshot_id)
        if snapshot.status is not SnapshotStatus.COMPLETE:
            raise Conflict(
                f"snapshot {snapshot_id} is {snapshot.status}; only a complete one can be exported"
            )
        async with self._export(await self._tools.images.get(snapshot_id), _notes(snapshot)) as archive:
            yield archive

    @asynccontextmanager
    async def export_image(self, id_or_name: str) -> AsyncIterator[ImageArchive]:
        """Yield an archive of an image; raises NotFound."""
        image = await self._tools.images.get(id_or_name)
        async with self._export(image, {f"{_PREFIX}name": image.name}) as archive:
            yield archive

    @asynccontextmanager
    async def _export(self, image: Image, notes: Mapping[str, str]) -> AsyncIterator[ImageArchive]:
        async with self._exporting, self._tools.images.exported(image, notes) as archive:
            yield archive

    async def import_snapshot(self, caller: Caller, request: SnapshotImportRequest) -> Snapshot:
        """Make a snapshot from an archive; the same request again returns the same one."""
        if await self._snapshots.records.find(caller.id) is None:
            await check_archive(self._tools, request.object_id, request.path)
        record = Snapshot(
            id=caller.id,
            create_time_ms=now_ms(),
            request_hash=caller.request_hash,
            source_devbox_id="",
            name=request.name or None,
        )
        at_hand = asyncio.Event()
        return await self._snapshots.make(
            record,
            partial(self._take_in, request, caller.id, at_hand),
            detached=at_hand if request.detach else None,
        )

    async def _take_in(
        self, request: SnapshotImportRequest, snapshot_id: str, at_hand: asyncio.Event
    ) -> dict[str, object]:
        """Import, and return the fields of the snapshot's record."""
        async with archive_in_turn(self._tools, request, self._importing, at_hand) as source:
            image, notes = await self._tools.images.import_snapshot(source, snapshot_id)
        noted = await _fields_from_notes(notes, self._tools.workers.call)
        named = {"name": request.name} if request.name else {}
        return {**noted, **named, "size_bytes": image.size_bytes}


async def check_archive(tools: EngineContext, object_id: str | None, path: str | None) -> None:
    """Refuse an invalid source early: raises UsageError, NotFound or ImageError."""
    if (object_id is None) == (path is None):
        raise UsageError("give either object_id or path")
    if object_id is not None:
        await tools.objects.content(object_id)
    else:
        await tools.images.check_source(await asyncio.to_thread(_allowed_path, tools.settings, path or ""))


class ImportRequest(Protocol):
    """Common fields of the requests to import images and snapshots."""

    object_id: str | None
    path: str | None
    detach: bool


@asynccontextmanager
async def archive_in_turn(
    tools: EngineContext, request: ImportRequest, turn: asyncio.Lock, at_hand: asyncio.Event
) -> AsyncIterator[Path]:
    """Yield an archive in its turn; `at_hand` is set once its sender is not needed any more."""
    if request.detach:
        async with archive_of(tools, request.object_id, request.path) as source:
            at_hand.set()
            async with turn:
                yield source
    else:
        async with turn, archive_of(tools, request.object_id, request.path) as source:
            yield source


def archive_of(
    tools: EngineContext, object_id: str | None, path: str | None
) -> AbstractAsyncContextManager[Path]:
    """Return the place of an archive that was given as an object or as a path of this machine."""
    return _of_object(tools, object_id) if object_id is not None else _of_path(tools.settings, path or "")


@asynccontextmanager
async def _of_path(settings: Settings, path: str) -> AsyncIterator[Path]:
    """Yield the archive at a path of this machine; a link that replaces it later has no effect."""
    source = await asyncio.to_thread(_allowed_path, settings, path)
    changed = UsageError(f"{path[:200]!r} was changed while it was imported; import it again")
    try:
        descriptor = os.open(source, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise changed from error
    try:
        # By this process's number, since other processes read it too.
        held = Path(f"/proc/{os.getpid()}/fd/{descriptor}")
        if held.readlink() != source:
            raise changed
        # Without root's rights those processes cannot open that link; but then they read only the caller's
        # files.
        yield held if os.geteuid() == 0 else source
        if held.readlink() != source:
            raise changed
    finally:
        os.close(descriptor)


def _allowed_path(settings: Settings, path: str) -> Path:
    """Return a path of this machine without links in it, if it is in a folder that the operator named."""
    if not settings.import_folders:
        raise UsageError(
            "this server imports nothing by path: upload the archive as an object, as `benchyard image "
            "import` does, or start the server with --import-from DIR"
        )
    if not path.startswith("/") or "\0" in path:
        raise UsageError(f"not an absolute path on the server's machine: {path[:200]!r}; upload it instead")
    # The same answer for all refused paths, so that it does not reveal which exist.
    refused = UsageError(
        f"{path[:200]!r} is not below a folder that this server imports from "
        f"(--import-from {' --import-from '.join(map(str, settings.import_folders))}); upload it instead"
    )
    try:
        real = Path(path).resolve(strict=True)
        folders = [folder.resolve(strict=True) for folder in settings.import_folders]
    except (OSError, RuntimeError) as error:
        raise refused from error
    if not any(real.is_relative_to(folder) for folder in folders):
        raise refused
    if real.is_relative_to(settings.data.resolve()):
        raise refused
    return real


@asynccontextmanager
async def _of_object(tools: EngineContext, object_id: str) -> AsyncIterator[Path]:
    _, content = await tools.objects.content(object_id)
    async with tools.images.scratch() as folder:
        with (folder / "archive").open("wb") as file:
            async for piece in content:
                await asyncio.to_thread(write_all, file.fileno(), piece)
        yield folder / "archive"


def _notes(snapshot: Snapshot) -> dict[str, str]:
    """Return the facts about its snapshot that an archive contains."""
    facts = {
        "name": snapshot.name,
        "commit_message": snapshot.commit_message,
        "metadata": json.dumps(snapshot.metadata, sort_keys=True) if snapshot.metadata else None,
        "source_devbox_id": snapshot.source_devbox_id,
        "source_blueprint_id": snapshot.source_blueprint_id,
        "snapshot_id": snapshot.id,
    }
    return {_PREFIX + name: value for name, value in facts.items() if value}


async def _fields_from_notes(notes: Mapping[str, str], call: WorkerCall) -> dict[str, object]:
    """Return a record's fields from the notes of an archive; raises ImageError for invalid ones."""
    fields = {name: notes.get(_PREFIX + name) for name in ("name", "commit_message")}
    try:
        text = notes.get(f"{_PREFIX}metadata", "{}").encode(errors="surrogatepass")
        metadata = await foreign_files.json_value(text, call)
        request = await asyncio.to_thread(SnapshotRequest.model_validate, {**fields, "metadata": metadata})
    except (ValidationError, UsageError, WorkerFailed) as error:
        raise ImageError(
            "the archive's name, message or metadata cannot be kept: import it as an image"
        ) from error
    sources = {name: notes.get(_PREFIX + name, "") for name in ("source_devbox_id", "source_blueprint_id")}
    kept = {name: value for name, value in sources.items() if 0 < len(value) <= _ID_LENGTH}
    return {**request.model_dump(exclude_none=True), **kept}
