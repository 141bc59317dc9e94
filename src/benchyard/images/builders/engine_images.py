"""The images that an engine keeps for itself, as far as a build needs them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchyard.images.build import Log
from benchyard.images.image import Image


class EngineImages(ABC):
    """Finds images, and brings others in. `scratch` is a folder for what that needs meanwhile."""

    @abstractmethod
    async def find(self, name: str, scratch: Path) -> str | None:
        """The engine's id of the image of that full name, if it is there."""

    @abstractmethod
    async def env(self, image_id: str, scratch: Path) -> Mapping[str, str]:
        """The environment that an image gives to what runs in it."""

    @abstractmethod
    async def fetch(self, full: str, scratch: Path, log: Log) -> str | None:
        """Get an image from its registry; why it could not be had, if so."""

    @abstractmethod
    async def load(self, image: Image, layers: Sequence[Path], name: str, scratch: Path) -> str | None:
        """Take an image of our store (layers from the bottom up) under a name; why that failed, if so."""
