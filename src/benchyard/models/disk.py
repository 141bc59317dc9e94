"""What a server takes on its disk."""

from pydantic import Field

from benchyard.models.base import Model


class KindView(Model):
    """One kind of thing on the disk."""

    kind: str
    size_bytes: int
    count: int | None = None
    what: str = ""


class DiskView(Model):
    """All of it."""

    data: str
    kinds: list[KindView] = Field(default_factory=list)
    total_bytes: int
    free_bytes: int
    """On the disk of the data folder."""
    is_complete: bool = True
    """False where there were more files than are looked at for one answer."""
