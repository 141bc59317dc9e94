"""Images as the API sees them: listed, imported, deleted."""

import asyncio
import tempfile
from pathlib import Path

from benchyard.engine.descriptors import write_all
from benchyard.engine.tools import Tools
from benchyard.errors import Conflict, UsageError
from benchyard.images.debian import make_debian
from benchyard.images.store import Image
from benchyard.models.images import DebianImageRequest, ImageImportRequest, ImageView

_SNAPSHOT = "snapshot"
_HOST = "host"


class Library:
    """The images that devboxes can start from."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._importing = asyncio.Lock()

    async def list(self) -> "list[ImageView]":
        """All images but snapshots, newest first."""
        return [_view(image) for image in await self._tools.images.list() if image.kind != _SNAPSHOT]

    async def get(self, id_or_name: str) -> ImageView:
        """The image of that id or name; raises NotFound."""
        return _view(await self._tools.images.get(id_or_name))

    async def import_image(self, request: ImageImportRequest) -> ImageView:
        """Import a root filesystem; raises ImageError for what is none. One at a time."""
        if (request.object_id is None) == (request.path is None):
            raise UsageError("give either object_id or path")
        async with self._importing:
            if request.object_id is not None:
                return await self._from_object(request.object_id, request.name)
            return await self._from_path(request.path or "", request.name)

    async def make_debian(self, request: DebianImageRequest) -> ImageView:
        """Make a Debian root filesystem an image; takes minutes. One at a time."""
        async with self._importing:
            return _view(await make_debian(self._tools.images, request.suite, request.name or "debian"))

    async def delete(self, id_or_name: str) -> None:
        """Delete an image; raises Conflict while devboxes or other images stand on it."""
        image = await self._tools.images.get(id_or_name)
        if image.kind == _HOST:
            raise UsageError("the default image is this machine's own system and cannot be deleted")
        if image.kind == _SNAPSHOT:
            raise UsageError(f"{image.id} is a snapshot; delete it at /v1/devboxes/disk_snapshots")
        users = [devbox.id for devbox in self._tools.roster.live() if devbox.image == image.id]
        if users:
            raise Conflict(f"{len(users)} devboxes stand on image {image.name}, {users[0]} first; end them")
        await self._tools.images.remove(image.id)

    async def _from_path(self, path: str, name: str) -> ImageView:
        source = Path(path)
        if not source.is_absolute() or not source.exists():
            raise UsageError(
                f"no absolute path of the server's machine: {path[:200]!r}; upload an object instead"
            )
        return _view(await self._tools.images.import_archive(source, name))

    async def _from_object(self, object_id: str, name: str) -> ImageView:
        _, content = await self._tools.objects.content(object_id)
        folder = self._tools.settings.data / "uploads"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix="image-") as file:
            async for piece in content:
                await asyncio.to_thread(write_all, file.fileno(), piece)
            return _view(await self._tools.images.import_archive(Path(file.name), name))


def _view(image: Image) -> ImageView:
    return ImageView(
        id=image.id,
        name=image.name,
        kind=image.kind,
        size_bytes=image.size_bytes,
        create_time_ms=image.create_time_ms,
        layers=len(image.layers),
        parent=image.parent,
    )
