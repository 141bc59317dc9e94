"""Images for the API: list, import, alias, pin, delete, and keep within a size."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.boot import FINAL_KIND, SCORING_KIND
from benchyard.engine.devboxes.start_image import check_is_built, newest_build
from benchyard.engine.images import stand_ins
from benchyard.engine.images.build import FOUNDATION
from benchyard.engine.images.transfers import archive_in_turn, check_archive
from benchyard.errors import BenchyardError, Conflict, ImageError, NotFound, UsageError, message_of
from benchyard.images.collection import Collector
from benchyard.images.debian import make_debian
from benchyard.images.image import check_name
from benchyard.images.references import normal_reference
from benchyard.images.stand_ins import stand_in_plan
from benchyard.images.store import Image, ImageIdentity
from benchyard.models.blueprints import Blueprint
from benchyard.models.images import (
    AliasView,
    CollectionView,
    DebianImageRequest,
    ImageImportRequest,
    ImagePullRequest,
    ImageView,
    StandInRequest,
)
from benchyard.store.collection import Collection


class ImageUpkeep:
    """Aliases and pins of images, and the removal of images beyond the size limit."""

    def __init__(self, tools: EngineContext, blueprints: Collection[Blueprint]) -> None:
        self._tools = tools
        self._blueprints = blueprints
        folder = tools.settings.data / "images"
        self.collector = Collector(tools.images, folder, tools.trees, tools.builder)
        self.collector.protect(self._live)
        self.changed_ms = now_ms()
        """Time of the last new image or alias, or of the server's start: older failed builds are retried."""

    def aliases(self) -> list[AliasView]:
        """Return all aliases."""
        table = self.collector.aliases.all()
        return [AliasView(reference=reference, image=image) for reference, image in table.items()]

    async def set_alias(self, alias: AliasView) -> AliasView:
        """Let an image, or a blueprint's image, replace a reference; raises NotFound if there is none."""
        image = await self._image(alias.image)
        if image.host_dirs or image.fingerprint is not None:
            raise UsageError(
                f"{image.name!r} shows this machine's own system and cannot stand in for another image: "
                "import one, or make one with `benchyard image debian`"
            )
        # Keep a name as a name: it stands for the newest image with it.
        kept = alias.image if image.name == alias.image else image.id
        reference = self.collector.aliases.set(alias.reference, kept)
        self.changed_ms = now_ms()
        return AliasView(reference=reference, image=kept)

    async def _image(self, name: str) -> Image:
        """Return the image with this id or name, else of the newest good build of the blueprint with it."""
        try:
            return await self._tools.images.get(name)
        except NotFound as error:
            blueprint = await newest_build(self._blueprints, name)
            if blueprint is None:
                raise NotFound(
                    f"there is no image and no blueprint {name[:200]!r}: see `benchyard image list` and "
                    "`benchyard blueprint list`"
                ) from error
        check_is_built(blueprint)
        return await self._tools.images.get(blueprint.id)

    def remove_alias(self, reference: str) -> None:
        """Remove an alias; raises NotFound."""
        self.collector.aliases.remove(reference)

    async def set_pinned(self, id_or_name: str, *, pinned: bool) -> str:
        """Protect an image from collection, or no longer; returns its id."""
        image = await self._tools.images.get(id_or_name)
        if pinned:
            self.collector.pins.set(image.id)
        else:
            self.collector.pins.remove(image.id)
        return image.id

    async def collect(self, most_bytes: int | None = None) -> CollectionView:
        """Remove the least recently used images until the rest is below this size, or the server's limit."""
        limit = most_bytes if most_bytes is not None else self._tools.settings.images_max_bytes
        if limit is None:
            raise UsageError(
                "how much may stay? Give max_bytes (`benchyard image gc --max-size 20GiB`), or start the "
                "server with --images-max-size"
            )
        done = await self.collector.collect(limit)
        return CollectionView(
            removed=list(done.removed),
            cleared_cache=done.cleared_cache,
            freed_bytes=done.freed_bytes,
            used_bytes=done.used_bytes,
            builds_under_way=len(self._tools.work.under_way("blueprint/")),
        )

    async def note_import(self) -> None:
        """Note that a user has brought an image."""
        self.changed_ms = now_ms()
        await self.keep_within_limit()

    async def keep_within_limit(self) -> None:
        """Collect if the server has a limit; called after an image was made."""
        if self._tools.settings.images_max_bytes is not None:
            await self.collect()

    async def _live(self) -> set[str]:
        return {devbox.image for devbox in self._tools.live_devboxes.live() if devbox.image}


IMPORTING = "importing"
"""Kind shown for an image while it is being imported."""
_REMEMBERED_FAILURES = 100


class ImageImports:
    """Imports under way, by the ids of their images."""

    def __init__(self) -> None:
        self.active: dict[str, ImageIdentity] = {}
        self._begun_ms: dict[str, int] = {}
        self._failed: OrderedDict[str, tuple[str, str]] = OrderedDict()

    @contextmanager
    def under_way(self, identity: ImageIdentity) -> Iterator[None]:
        """Show an import until it ends."""
        self.active[identity.id] = identity
        self._begun_ms[identity.id] = now_ms()
        self._failed.pop(identity.id, None)
        try:
            yield
        finally:
            self.active.pop(identity.id, None)
            self._begun_ms.pop(identity.id, None)

    def note_failure(self, identity: ImageIdentity, reason: str) -> None:
        """Store the reason of a failed import."""
        self._failed[identity.id] = (identity.name, reason)
        while len(self._failed) > _REMEMBERED_FAILURES:
            self._failed.popitem(last=False)

    def views(self) -> list[ImageView]:
        """Return all imports under way, newest first."""
        return [self._view(identity) for identity in reversed(self.active.values())]

    def find(self, id_or_name: str) -> ImageView:
        """Return the import with this id or name; raises ImageError if it failed, NotFound if unknown."""
        for identity in self.active.values():
            if id_or_name in (identity.id, identity.name):
                return self._view(identity)
        for id, (name, reason) in reversed(self._failed.items()):
            if id_or_name in (id, name):
                raise ImageError(f"{name} was not imported: {reason}")
        raise NotFound(f"there is no image {id_or_name[:200]!r}: see `benchyard image list`")

    def _view(self, identity: ImageIdentity) -> ImageView:
        begun = self._begun_ms[identity.id]
        return ImageView(
            id=identity.id, name=identity.name, kind=IMPORTING, size_bytes=0, create_time_ms=begun, layers=0
        )


_SNAPSHOT = "snapshot"
_BLUEPRINT = "blueprint"
_HOST = "host"
_REMEMBERED_REQUESTS = 1000
_ANOTHER_BODY = "this x-request-id was used with another body; send a new one"

_log = logging.getLogger(__name__)


class ImageLibrary:
    """The images that devboxes can start from."""

    def __init__(self, tools: EngineContext, blueprints: Collection[Blueprint]) -> None:
        self._tools = tools
        self._importing = asyncio.Lock()
        self._imports = ImageImports()
        self._deletions: OrderedDict[str, asyncio.Future[None]] = OrderedDict()
        self.upkeep = ImageUpkeep(tools, blueprints)

    async def list(self) -> "list[ImageView]":
        """Return all images but those of snapshots, blueprints and runs, newest first; imports first."""
        owned = (_SNAPSHOT, _BLUEPRINT, SCORING_KIND, FINAL_KIND)
        images = [
            self._view(image)
            for image in await self._tools.images.list()
            if image.kind not in owned and not image.id.endswith(FOUNDATION)
        ]
        return [*self._imports.views(), *images]

    async def get(self, id_or_name: str) -> ImageView:
        """Return the image with this id or name, even if it is still being imported; raises NotFound."""
        try:
            return self._view(await self._tools.images.get(id_or_name))
        except NotFound:
            return self._imports.find(id_or_name)

    async def import_image(self, request: ImageImportRequest, caller: Caller) -> ImageView:
        """Import a root filesystem, one at a time; raises ImageError for an archive of another kind.

        Invalid requests are refused before their turn. Cancellation ends the import, unless it is detached.
        """
        identity = ImageIdentity(request.name, caller.id, caller.request_hash)
        known = self._imports.active.get(identity.id)
        if known is not None and known.request_hash != identity.request_hash:
            raise UsageError(_ANOTHER_BODY)
        if made := await self._earlier_result(identity):
            return made
        self._tools.images.check_name(identity.name)
        await check_archive(self._tools, request.object_id, request.path)
        if request.detach:
            return await self._begin(request, identity)
        with self._imports.under_way(identity):
            return await self._import(request, identity, asyncio.Event())

    async def _import(
        self, request: ImageImportRequest, identity: ImageIdentity, at_hand: asyncio.Event
    ) -> ImageView:
        async with archive_in_turn(self._tools, request, self._importing, at_hand) as source:
            if made := await self._earlier_result(identity):
                return made
            view = self._view(await self._tools.images.import_archive(source, identity))
        await self.upkeep.note_import()
        return view

    async def _begin(self, request: ImageImportRequest, identity: ImageIdentity) -> ImageView:
        """Import in the background; returns once the archive is read, or the import has failed."""
        key = f"image/{identity.id}"
        at_hand = asyncio.Event()

        async def work() -> None:
            with self._imports.under_way(identity):
                try:
                    await self._import(request, identity, at_hand)
                except (BenchyardError, OSError) as error:
                    reason = message_of(error)
                    self._imports.note_failure(identity, reason)
                    _log.warning("image %s was not imported: %s", identity.name, reason)
                finally:
                    at_hand.set()

        if not self._tools.work.under_way(key):
            self._tools.work.start(key, work)
        await at_hand.wait()
        return await self.get(identity.id)

    async def make_debian(self, request: DebianImageRequest, caller: Caller) -> ImageView:
        """Make an image of a Debian root filesystem, one at a time; takes minutes."""
        identity = ImageIdentity(request.name or "debian", caller.id, caller.request_hash)
        async with self._importing:
            if made := await self._earlier_result(identity):
                return made
            view = self._view(await make_debian(self._tools.images, request.suite, identity))
            await self.upkeep.note_import()
            return view

    async def stand_in(self, request: StandInRequest, caller: Caller) -> ImageView:
        """Make an image and let it replace one of a registry, one at a time; takes minutes."""
        plan = stand_in_plan(request.reference)
        identity = ImageIdentity(request.name or f"stand-in-{plan.reference}", caller.id, caller.request_hash)
        check_name(identity.name)
        async with self._importing:
            if made := await self._earlier_result(identity):
                return made
            image = await stand_ins.make(self._tools, plan, identity, _silent)
            await self.upkeep.set_alias(AliasView(reference=plan.reference, image=image.id))
            await self.upkeep.note_import()
            return self._view(image)

    async def pull(self, request: ImagePullRequest, caller: Caller) -> ImageView:
        """Pull an image from its registry; raises BuildFailed if that is impossible."""
        identity = ImageIdentity(
            request.name or request.reference.partition("@")[0], caller.id, caller.request_hash
        )
        check_name(identity.name)
        normal_reference(request.reference)
        async with self._importing:
            if made := await self._earlier_result(identity):
                return made
            view = self._view(await self._tools.builder.pull(request.reference, identity, _silent))
            await self.upkeep.note_import()
            return view

    async def _earlier_result(self, identity: ImageIdentity) -> ImageView | None:
        """Return the image that an earlier request with the same id has made, or None."""
        for image in await self._tools.images.list():
            if image.id == identity.id:
                if image.request_hash != identity.request_hash:
                    raise UsageError(_ANOTHER_BODY)
                return self._view(image)
        return None

    async def delete(self, id_or_name: str, request_id: str | None = None) -> None:
        """Delete an image; raises Conflict while devboxes or other images are based on it.

        The same request again, after a lost answer, waits for the first one and ends as it did.
        """
        if request_id is None:
            await self._delete(id_or_name)
            return
        deletion = self._deletions.get(request_id)
        if deletion is None:
            deletion = self._deletions[request_id] = asyncio.ensure_future(self._delete(id_or_name))
            while len(self._deletions) > _REMEMBERED_REQUESTS:
                self._deletions.popitem(last=False)
        try:
            await asyncio.shield(deletion)
        except BenchyardError:
            # A refusal is not remembered: its reason may be gone by the next request.
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
        users = [devbox.id for devbox in self._tools.live_devboxes.live() if devbox.image == image.id]
        if users:
            raise Conflict(f"{len(users)} devboxes stand on image {image.name}, {users[0]} first; end them")
        await self._tools.images.remove(image.id)
        self.upkeep.collector.pins.remove(image.id)

    def _view(self, image: Image) -> ImageView:
        collector = self.upkeep.collector
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


def _silent(_line: str) -> None:
    """Ignore the output of an engine's pull: an error has the relevant part."""
