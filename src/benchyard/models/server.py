"""What a server tells of its machine: what devboxes can do there, and what its disk holds."""

from pydantic import Field

from benchyard.models.base import Model


class MissingCapability(Model):
    """Something devboxes cannot do here, and what to do about it."""

    capability: str
    remedy: str


class FailedMode(Model):
    """A better mode of the driver that did not work here: the first step that failed, and its remedy."""

    mode: str
    reason: str


class DependencyView(Model):
    """A program or Python package that some features need."""

    name: str
    needed_for: str
    is_here: bool
    remedy: str


class DoctorView(Model):
    """The server's own findings."""

    driver: str
    mode: str
    capabilities: list[str]
    missing: list[MissingCapability]
    tried: list[FailedMode]
    builder: str = ""
    """What builds Dockerfiles; empty where nothing does."""
    builder_remedy: str | None = None
    """What to do about that."""
    dependencies: list[DependencyView] = Field(default_factory=list)
    """Programs and packages of the server that a plain install may lack."""
    stand_ins: list[str] = Field(default_factory=list)
    """Images of a registry that others stand in for here, and which."""


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
