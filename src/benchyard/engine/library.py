"""Images as the API sees them: listed, imported, deleted."""

import asyncio
import logging
from collections import OrderedDict

from benchyard.engine import stand_ins
from benchyard.engine.boot import FINAL_KIND, SCORING_KIND
from benchyard.engine.build import FOUNDATION
from benchyard.engine.devboxes import Asked
from benchyard.engine.imports import Imports
from benchyard.engine.shelf import Shelf
from benchyard.engine.tools import Tools
from benchyard.engine.transfers import archive_in_turn, check_archive
from benchyard.errors import BenchyardError, Conflict, NotFound, UsageError, from_os
from benchyard.images.debian import make_debian
from benchyard.images.image import check_name
from benchyard.images.references import normal_reference
from benchyard.images.stand_ins import plan_of
from benchyard.images.store import Image, Label
from benchyard.models.blueprints import Blueprint
from benchyard.models.images import (
    AliasView,
    DebianImageRequest,
    ImageImportRequest,
    ImagePullRequest,
    ImageView,
    StandInRequest,
)
from benchyard.store.collection import Collection

_SNAPSHOT = "snapshot"
_BLUEPRINT = "blueprint"
_HOST = "host"
_REMEMBERED = 1000
_ANOTHER_BODY = "this x-request-id was used with another body; send a new one"

_log = logging.getLogger(__name__)


class Library:
    """The images that devboxes can start from."""

    def __init__(self, tools: Tools, blueprints: Collection[Blueprint]) -> None:
        self._tools = tools
        self._importing = asyncio.Lock()
        self._imports = Imports()
        self._deletions: OrderedDict[str, asyncio.Future[None]] = OrderedDict()
        self.shelf = Shelf(tools, blueprints)

    async def list(self) -> "list[ImageView]":
        """All images but those of snapshots, blueprints and runs, newest first; imports first."""
        images = [image for image in await self._tools.images.list() if not _has_owner(image)]
        return [*self._imports.views(), *(self._view(image) for image in images)]

    async def get(self, id_or_name: str) -> ImageView:
        """The image of that id or name, also one that is being imported; raises NotFound."""
        try:
            return self._view(await self._tools.images.get(id_or_name))
        except NotFound:
            return self._imports.find(id_or_name)

    async def import_image(self, request: ImageImportRequest, asked: Asked) -> ImageView:
        """Import a root filesystem; raises ImageError for what is none. One at a time.

        What can be refused is refused before its turn. Cancelled, the import ends, unless it is detached.
        """
        label = Label(request.name, asked.id, asked.request_hash)
        self._check_same(label)
        if made := await self._made(label):
            return made
        self._tools.images.check_name(label.name)
        await check_archive(self._tools, request.object_id, request.path)
        if request.detach:
            return await self._begin(request, label)
        with self._imports.under_way(label):
            return await self._import(request, label, asyncio.Event())

    async def _import(self, request: ImageImportRequest, label: Label, at_hand: asyncio.Event) -> ImageView:
        async with archive_in_turn(self._tools, request, self._importing, at_hand) as source:
            if made := await self._made(label):
                return made
            view = self._view(await self._tools.images.import_archive(source, label))
        await self.shelf.arrived()
        return view

    async def _begin(self, request: ImageImportRequest, label: Label) -> ImageView:
        """Import in the background; returns once the archive is at hand, or the import has failed."""
        key = f"image/{label.id}"
        at_hand = asyncio.Event()

        async def work() -> None:
            with self._imports.under_way(label):
                try:
                    await self._import(request, label, at_hand)
                except (BenchyardError, OSError) as error:
                    told = error.message if isinstance(error, BenchyardError) else from_os(error).message
                    self._imports.note_failure(label, told)
                    _log.warning("image %s was not imported: %s", label.name, told)
                finally:
                    at_hand.set()

        if not self._tools.work.under_way(key):
            self._tools.work.start(key, work)
        await at_hand.wait()
        return await self.get(label.id)

    def _check_same(self, label: Label) -> None:
        """Raise UsageError if another request of the same id is under way."""
        known = self._imports.active.get(label.id)
        if known is not None and known.request_hash != label.request_hash:
            raise UsageError(_ANOTHER_BODY)

    async def make_debian(self, request: DebianImageRequest, asked: Asked) -> ImageView:
        """Make a Debian root filesystem an image; takes minutes. One at a time."""
        label = Label(request.name or "debian", asked.id, asked.request_hash)
        async with self._importing:
            if made := await self._made(label):
                return made
            view = self._view(await make_debian(self._tools.images, request.suite, label))
            await self.shelf.arrived()
            return view

    async def stand_in(self, request: StandInRequest, asked: Asked) -> ImageView:
        """Make an image that stands in for one of a registry, and let it; takes minutes. One at a time."""
        plan = plan_of(request.reference)
        label = Label(request.name or f"stand-in-{plan.reference}", asked.id, asked.request_hash)
        check_name(label.name)
        async with self._importing:
            if made := await self._made(label):
                return made
            image = await stand_ins.make(self._tools, plan, label, _silent)
            await self.shelf.set_alias(AliasView(reference=plan.reference, image=image.id))
            await self.shelf.arrived()
            return self._view(image)

    async def pull(self, request: ImagePullRequest, asked: Asked) -> ImageView:
        """Get an image from its registry; raises BuildFailed where that cannot be."""
        label = Label(request.name or request.reference.partition("@")[0], asked.id, asked.request_hash)
        check_name(label.name)
        normal_reference(request.reference)
        async with self._importing:
            if made := await self._made(label):
                return made
            view = self._view(await self._tools.builder.pull(request.reference, label, _silent))
            await self.shelf.arrived()
            return view

    async def _made(self, label: Label) -> ImageView | None:
        """What an earlier request of the same id has made."""
        for image in await self._tools.images.list():
            if image.id == label.id:
                if image.request_hash != label.request_hash:
                    raise UsageError(_ANOTHER_BODY)
                return self._view(image)
        return None

    async def delete(self, id_or_name: str, request_id: str | None = None) -> None:
        """Delete an image; raises Conflict while devboxes or other images stand on it.

        The same request again, whose first answer may have been lost, waits for the first and ends as it did.
        """
        if request_id is None:
            await self._delete(id_or_name)
            return
        asked = self._deletions.get(request_id)
        if asked is None:
            asked = self._deletions[request_id] = asyncio.ensure_future(self._delete(id_or_name))
            while len(self._deletions) > _REMEMBERED:
                self._deletions.popitem(last=False)
        try:
            await asyncio.shield(asked)
        except BenchyardError:
            # Nothing was done: what stood in the way may be gone by the next time.
            self._deletions.pop(request_id, None)
            raise

    async def _delete(self, id_or_name: str) -> None:
        self._tools.make_room_to_end()
        image = await self._tools.images.get(id_or_name)
        if image.kind == _HOST:
            raise UsageError("the default image is this machine's own system and cannot be deleted")
        if image.kind == _SNAPSHOT:
            raise UsageError(f"{image.id} is a snapshot; delete it at /v1/devboxes/disk_snapshots")
        if image.kind == _BLUEPRINT:
            raise UsageError(f"{image.id} is a blueprint; delete it at /v1/blueprints/{image.id}/delete")
        if image.kind == FINAL_KIND:
            raise UsageError(f"{image.id} is what a run left; it goes by itself: see --final-state-days")
        users = [devbox.id for devbox in self._tools.roster.live() if devbox.image == image.id]
        if users:
            raise Conflict(f"{len(users)} devboxes stand on image {image.name}, {users[0]} first; end them")
        await self._tools.images.remove(image.id)
        self.shelf.collector.pins.remove(image.id)

    def _view(self, image: Image) -> ImageView:
        collector = self.shelf.collector
        return ImageView(
            id=image.id,
            name=image.name,
            kind=image.kind,
            size_bytes=image.size_bytes,
            create_time_ms=image.create_time_ms,
            layers=len(image.layers),
            parent=image.parent,
            pinned=image.id in collector.pins.all(),
            last_used_ms=int(collector.last_used(image) * 1000),
            stands_for=image.stands_for,
        )


def _has_owner(image: Image) -> bool:
    return image.kind in (_SNAPSHOT, _BLUEPRINT, SCORING_KIND, FINAL_KIND) or image.id.endswith(FOUNDATION)


def _silent(_line: str) -> None:
    """What an engine says while it pulls is of use only when it fails, and then it is in the error."""
