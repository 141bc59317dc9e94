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
    pinned: bool = False
    last_used_ms: int = 0
    """When it was made, or a devbox last started from it."""
    stands_for: str | None = None
    """The image of a registry that it was made to stand in for, and what it is instead."""


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
    """Answer once the archive is at hand, and go on; without it, an import ends when its client leaves."""


class DebianImageRequest(Model):
    """A Debian root filesystem to make."""

    suite: str = Field(default="bookworm", pattern=r"^[a-z][a-z0-9-]{0,31}$")
    name: str | None = Field(default=None, pattern=IMAGE_NAME)


class StandInRequest(Model):
    """An image of a registry that another one is to be made for."""

    reference: str = Field(min_length=1, max_length=400)
    name: str | None = Field(default=None, pattern=IMAGE_NAME)
    """What to call it; `stand-in-` and the reference if not given."""


class ImagePullRequest(Model):
    """An image of a registry to get."""

    reference: str = Field(min_length=1, max_length=400)
    name: str | None = Field(default=None, pattern=IMAGE_NAME)
    """What to call it; the reference itself if not given."""


class AliasView(Model):
    """An image of the store that stands in for a registry's, wherever a Dockerfile names that one."""

    reference: str = Field(min_length=1, max_length=400)
    image: str = Field(pattern=IMAGE_NAME)
    """Its name or id."""


class AliasListView(Model):
    """All aliases, by reference."""

    aliases: list[AliasView]


class AliasRemoval(Model):
    """An alias to forget."""

    reference: str = Field(min_length=1, max_length=400)


class CollectRequest(Model):
    """How much the images and the builder's cache may take; None is the server's own limit."""

    max_bytes: int | None = Field(default=None, ge=0)


class CollectionView(Model):
    """What a collection removed, and what is left."""

    removed: list[str]
    cleared_cache: bool
    freed_bytes: int
    used_bytes: int
    builds_under_way: int = 0
    """What these use stays until they are done, and so does the builder's cache."""
