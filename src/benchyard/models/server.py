"""Reports of a server on its machine: the capabilities of devboxes, and the use of the disk."""

from pydantic import Field

from benchyard.models.base import Model


class MissingCapability(Model):
    """A capability that devboxes lack here, and the remedy."""

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
    """The program that builds Dockerfiles; empty if there is none."""
    builder_remedy: str | None = None
    """The remedy for a missing builder."""
    dependencies: list[DependencyView] = Field(default_factory=list)
    """Programs and packages of the server that a plain install may lack."""
    stand_ins: list[str] = Field(default_factory=list)
    """Registry images for which others stand in here, and those others."""


class KindView(Model):
    """A kind of data on the disk."""

    kind: str
    size_bytes: int
    count: int | None = None
    what: str = ""


class DiskView(Model):
    """The use of the disk."""

    data: str
    kinds: list[KindView] = Field(default_factory=list)
    total_bytes: int
    free_bytes: int
    """Free space on the disk of the data folder."""
    is_complete: bool = True
    """False if there are more files than one answer looks at."""
