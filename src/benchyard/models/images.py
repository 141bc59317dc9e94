"""An image devboxes start from, as the extension endpoints show it."""

from pydantic import Field

from benchyard.models.base import Model

IMAGE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._/:-]{0,199}$"


class ImageView(Model):
    """One image of the store."""

    id: str
    name: str
    kind: str
    size_bytes: int
    create_time_ms: int
    layers: int
    parent: str | None = None


class ImageListView(Model):
    """All images, newest first."""

    images: list[ImageView]


class ImageImportRequest(Model):
    """A root filesystem to import: a stored object, or a path on the server's machine."""

    name: str = Field(pattern=IMAGE_NAME)
    object_id: str | None = None
    path: str | None = None


class DebianImageRequest(Model):
    """A Debian root filesystem to make."""

    suite: str = Field(default="bookworm", pattern=r"^[a-z][a-z0-9-]{0,31}$")
    name: str | None = Field(default=None, pattern=IMAGE_NAME)
