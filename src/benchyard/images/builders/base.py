"""The builder contract: the inputs of a build from a Dockerfile, and the duties of a builder."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path

from benchyard.devboxes.base import Network
from benchyard.images.image import Image, ImageIdentity

Log = Callable[[str], None]
"""Receives one line of a build's output, without its line end; called from the event loop."""


@dataclass(frozen=True)
class BuildLimits:
    """Limits of one build; exceeding one ends the build."""

    seconds: float = 3600.0
    disk_bytes: int = 32 * 1024**3
    """Growth of the disk."""
    memory_bytes: int = 8 * 1024**3


@dataclass(frozen=True)
class BuildDoor:
    """The only exit of a build without a network: a socket on its loopback, served from outside."""

    port: int
    variables: Mapping[str, str]
    """Environment variables that name the door to the build's programs."""
    rules: str
    """Text of the proxy's rules: builds are shared only if these are equal."""
    serve: Callable[[int], AbstractAsyncContextManager[None]]
    """Serves a descriptor of the socket, which stays the caller's, for as long as the build takes."""


@dataclass(frozen=True)
class BuildRecipe:
    """A Dockerfile and its inputs, all untrusted."""

    dockerfile: str
    context: Path | None = None
    """A folder for COPY and ADD; None is an empty folder. Links in it never lead out of it."""
    args: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Name -> value: RUN gets a file `/run/secrets/NAME` and a variable; no layer and no log has it."""
    bases: Mapping[str, str] = field(default_factory=dict)
    """Reference as FROM spells it -> id of the store's image that stands for it."""
    network: Network = Network.HOST
    door: BuildDoor | None = None
    """Only with `Network.NONE`, and only if the builder `has_doors`."""
    limits: BuildLimits = field(default_factory=BuildLimits)


@dataclass(frozen=True)
class BuiltImage:
    """An image in the store, with notes on its build."""

    image: Image
    substituted: Mapping[str, str] = field(default_factory=dict)
    """Reference as FROM spells it -> name of the image that an alias put in its place."""


class Builder(ABC):
    """Makes images from Dockerfiles."""

    about: str = ""
    """The engine and its version; empty if there is none."""
    remedy: str | None = None
    """Reason why nothing can be built, with the remedy; None if builds are possible."""
    has_doors: bool = False
    """True if a build without a network can have a `BuildDoor`."""

    @abstractmethod
    async def build(self, recipe: BuildRecipe, identity: ImageIdentity, log: Log) -> BuiltImage:
        """Build an image; equal builds requested at the same time run once and share the result.

        Raises BuildFailed. A build that is cancelled or killed leaves nothing half-made.
        """

    @abstractmethod
    async def pull(self, reference: str, identity: ImageIdentity, log: Log) -> Image:
        """Pull an image from its registry into the store; raises BuildFailed."""

    async def forget(self) -> bool:
        """Clear the cache unless a build uses it; return whether there was one. The store's images stay."""
        return False

    def last_used(self) -> float:
        """Return the time of the last addition to the cache, in seconds since 1970."""
        return 0.0
