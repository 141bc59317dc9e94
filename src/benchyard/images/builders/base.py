"""The builder contract: what a build from a Dockerfile is asked for, and what a builder owes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from benchyard.devboxes.base import Network
from benchyard.images.image import Image, Label

Log = Callable[[str], None]
"""Takes one line of a build's output, without its end; called from the event loop."""


@dataclass(frozen=True)
class BuildLimits:
    """What one build may use; what goes over ends it."""

    seconds: float = 3600.0
    disk_bytes: int = 32 * 1024**3
    """What it may add to the disk."""
    memory_bytes: int = 8 * 1024**3


@dataclass(frozen=True)
class BuildDoor:
    """The one way out of a build that has no network: a socket on its loopback, served from outside."""

    port: int
    variables: Mapping[str, str]
    """What tells the build's programs of it."""
    rules: str
    """What it lets through, as text: only builds with the same rules can be one."""
    serve: Callable[[int], AbstractAsyncContextManager[None]]
    """Serves a descriptor of the socket, which stays its caller's, for as long as the build takes."""


@dataclass(frozen=True)
class BuildRecipe:
    """A Dockerfile and all it needs. Nothing in it is trusted."""

    dockerfile: str
    context: Path | None = None
    """A folder for COPY and ADD; None is an empty one. Links in it never lead out of it."""
    args: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Name -> value: for RUN, a file `/run/secrets/NAME` and an environment variable. In no layer, no log."""
    bases: Mapping[str, str] = field(default_factory=dict)
    """Reference as FROM spells it -> id of an image of our store that stands for it."""
    network: Network = Network.HOST
    door: BuildDoor | None = None
    """With `Network.NONE` only, and only where the builder `has_doors`."""
    limits: BuildLimits = field(default_factory=BuildLimits)


@dataclass(frozen=True)
class BuiltImage:
    """An image of our store, and what is worth telling about how it came to be."""

    image: Image
    substituted: Mapping[str, str] = field(default_factory=dict)
    """Reference as FROM spells it -> name of the image that an alias put in its place."""


class Builder(ABC):
    """Makes images from Dockerfiles."""

    about: str = ""
    """Which engine builds, and its version; empty where there is none."""
    remedy: str | None = None
    """Why nothing can be built, and what to do about it; None if it can."""
    has_doors: bool = False
    """Whether a build without a network can have a `BuildDoor`."""

    @abstractmethod
    async def build(self, recipe: BuildRecipe, label: Label, log: Log) -> BuiltImage:
        """Build; of the same content asked for at once, one builds and all share the result.

        Raises BuildFailed. Cancelled or killed, it leaves nothing half-made.
        """

    @abstractmethod
    async def pull(self, reference: str, label: Label, log: Log) -> Image:
        """Get an image from its registry into our store; raises BuildFailed."""

    async def forget(self) -> bool:
        """Clear the cache, unless a build uses it; whether there was one. Images in our store stay."""
        return False

    def last_used(self) -> float:
        """When the cache was last added to, in seconds since 1970."""
        return 0.0
