"""An image devboxes start from, as the extension endpoints show it."""

from pydantic import Field

from benchyard.models.base import Model

IMAGE_NAME = r"^[A-Za-z0-9][A-Za-z0-9._/:-]{0,199}$"


class ImageView(Model):
    """An image of the store."""

    id: str
    name: str
    kind: str
    size_bytes: int
    create_time_ms: int
    layers: int
    parent: str | None = None
    pinned: bool = False
    last_used_ms: int = 0
    """Time at which it was made, or at which a devbox last started from it."""
    stands_for: str | None = None
    """The registry image that it stands in for, and a description of the real content."""


class ImageListView(Model):
    """All images, newest first."""

    images: list[ImageView]


class ImageImportRequest(Model):
    """A root filesystem to import: a stored object, or a path on the server's machine."""

    name: str = Field(pattern=IMAGE_NAME)
    object_id: str | None = None
    path: str | None = None
    """Below a folder that the server imports from (`serve --import-from`)."""
    detach: bool = False
    """Answer once the archive is at hand, and go on; without it, the import ends if its client leaves."""


class DebianImageRequest(Model):
    """A Debian root filesystem to make."""

    suite: str = Field(default="bookworm", pattern=r"^[a-z][a-z0-9-]{0,31}$")
    name: str | None = Field(default=None, pattern=IMAGE_NAME)


class StandInRequest(Model):
    """A registry image for which a stand-in is to be made."""

    reference: str = Field(min_length=1, max_length=400)
    name: str | None = Field(default=None, pattern=IMAGE_NAME)
    """The name of the stand-in; by default `stand-in-` and the reference."""


class ImagePullRequest(Model):
    """A registry image to pull."""

    reference: str = Field(min_length=1, max_length=400)
    name: str | None = Field(default=None, pattern=IMAGE_NAME)
    """The name of the image; by default the reference itself."""


class AliasView(Model):
    """An image of the store that stands in for a registry image in every Dockerfile that names it."""

    reference: str = Field(min_length=1, max_length=400)
    image: str = Field(pattern=IMAGE_NAME)
    """The name or id of the image in the store."""


class AliasListView(Model):
    """All aliases, by reference."""

    aliases: list[AliasView]


class AliasRemoval(Model):
    """An alias to remove."""

    reference: str = Field(min_length=1, max_length=400)


class CollectRequest(Model):
    """The most that images and the builder's cache may take; None is the server's own limit."""

    max_bytes: int | None = Field(default=None, ge=0)


class CollectionView(Model):
    """The images that a collection removed, and the space still in use."""

    removed: list[str]
    cleared_cache: bool
    freed_bytes: int
    used_bytes: int
    builds_under_way: int = 0
    """The images that these builds use stay until they are done, and so does the builder's cache."""
