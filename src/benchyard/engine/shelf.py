"""The store of images as the API keeps it in order: aliases, pins, and the limit on its size."""

from benchyard.engine.journal import now_ms
from benchyard.engine.origins import check_built, newest_built
from benchyard.engine.tools import Tools
from benchyard.errors import NotFound, UsageError
from benchyard.images.collecting import Collector
from benchyard.images.store import Image
from benchyard.models.blueprints import Blueprint
from benchyard.models.images import AliasView, CollectionView
from benchyard.store.collection import Collection


class Shelf:
    """What stays, what stands in for what, and what goes when there is too much."""

    def __init__(self, tools: Tools, blueprints: Collection[Blueprint]) -> None:
        self._tools = tools
        self._blueprints = blueprints
        folder = tools.settings.data / "images"
        self.collector = Collector(tools.images, folder, tools.trees, tools.builder)
        self.collector.protect(self._live)
        self.changed_ms = now_ms()
        """Since when there is what was not to be had before: an image, an alias, or a server begun anew."""

    def aliases(self) -> list[AliasView]:
        """Every alias."""
        table = self.collector.aliases.all()
        return [AliasView(reference=reference, image=image) for reference, image in table.items()]

    async def set_alias(self, asked: AliasView) -> AliasView:
        """Let an image, or a blueprint's, stand in for a reference; raises NotFound if there is none."""
        image = await self._image(asked.image)
        if image.host_dirs or image.fingerprint is not None:
            raise UsageError(
                f"{image.name!r} shows this machine's own system and cannot stand in for another image: "
                "import one, or make one with `benchyard image debian`"
            )
        # A name stays one: it means the newest image that has it.
        kept = asked.image if image.name == asked.image else image.id
        reference = self.collector.aliases.set(asked.reference, kept)
        self.changed_ms = now_ms()
        return AliasView(reference=reference, image=kept)

    async def _image(self, name: str) -> Image:
        """The image of that id or name, else that of the newest good build of the blueprint of that name."""
        try:
            return await self._tools.images.get(name)
        except NotFound as error:
            blueprint = await newest_built(self._blueprints, name)
            if blueprint is None:
                raise NotFound(
                    f"there is no image and no blueprint {name[:200]!r}: see `benchyard image list` and "
                    "`benchyard blueprint list`"
                ) from error
        check_built(blueprint)
        return await self._tools.images.get(blueprint.id)

    def remove_alias(self, reference: str) -> None:
        """Forget an alias; raises NotFound."""
        self.collector.aliases.remove(reference)

    async def set_pinned(self, id_or_name: str, *, pinned: bool) -> str:
        """Keep an image from being collected, or no longer; returns its id."""
        image = await self._tools.images.get(id_or_name)
        if pinned:
            self.collector.pins.set(image.id)
        else:
            self.collector.pins.remove(image.id)
        return image.id

    async def collect(self, most_bytes: int | None = None) -> CollectionView:
        """Remove what was not used for longest until below this, or below the server's own limit."""
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

    async def arrived(self) -> None:
        """Called after somebody brought an image."""
        self.changed_ms = now_ms()
        await self.keep_within_limit()

    async def keep_within_limit(self) -> None:
        """Collect, where the server has a limit; called after an image was made."""
        if self._tools.settings.images_max_bytes is not None:
            await self.collect()

    async def _live(self) -> set[str]:
        return {devbox.image for devbox in self._tools.roster.live() if devbox.image}
