"""What a server's machine allows its devboxes."""

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
