"""The images in an engine's own storage, and the import of a Dockerfile's bases among them."""

import asyncio
import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchyard.errors import BuildFailed, NotFound, UsageError
from benchyard.images.aliases import Aliases
from benchyard.images.builders.base import BuildRecipe, Log
from benchyard.images.builders.plan import DockerfileImage
from benchyard.images.dockerfile.parser import Instruction, instruction_error
from benchyard.images.image import Image
from benchyard.images.references import normal_reference
from benchyard.images.stand_ins import can_be_made
from benchyard.images.store import ImageStore


class EngineImages(ABC):
    """Finds images and imports others. `scratch` is a folder for temporary files."""

    @abstractmethod
    async def find(self, name: str, scratch: Path) -> str | None:
        """Return the engine's id of the image of this full name, if it is there."""

    @abstractmethod
    async def env(self, image_id: str, scratch: Path) -> Mapping[str, str]:
        """Return the environment that an image gives to its processes."""

    @abstractmethod
    async def fetch(self, full: str, scratch: Path, log: Log) -> str | None:
        """Pull an image from its registry; return the reason if that failed."""

    @abstractmethod
    async def load(self, image: Image, layers: Sequence[Path], name: str, scratch: Path) -> str | None:
        """Load an image of the store (layers from the bottom up) under a name; if it fails, return why."""


@dataclass(frozen=True)
class _Wanted:
    """An image of the store that stands for a reference, and whether an alias chose it."""

    image: Image
    is_alias: bool = False


@dataclass(frozen=True)
class EngineBases:
    """Finds bases; an image of the store is handed over once, and known by its content from then on."""

    store: ImageStore
    aliases: Aliases
    images: EngineImages
    repository: str
    """The name of our images in the engine, before their tags."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def resolve(
        self, references: Mapping[str, Instruction], recipe: BuildRecipe, scratch: Path, log: Log
    ) -> dict[str, DockerfileImage]:
        """Return every base by its reference; raises BuildFailed with the line that names a missing one."""
        images = {}
        for reference, instruction in references.items():
            try:
                image = await self._ours(reference, recipe)
                if image is None:
                    images[reference] = await self._theirs(reference, scratch, log)
                else:
                    images[reference] = await self._handed_over(image, scratch, log)
            except (UsageError, BuildFailed) as error:
                raise instruction_error(instruction, error.message) from error
        return images

    async def pull(self, full: str, scratch: Path, log: Log) -> str:
        """Pull an image from its registry unless it is there; return the engine's id of it."""
        if known := await self.images.find(full, scratch):
            return known
        reason = await self.images.fetch(full, scratch, log)
        if reason is None and (hint := await self.images.find(full, scratch)):
            return hint
        why = (reason or "it is not there")[:500]
        short = full.removeprefix("docker.io/library/")
        hint = f", or `benchyard image stand-in {short}`, which makes one of Debian's packages"
        message = (
            f"{full} cannot be had from its registry ({why}). Without a network, import it (`docker save`, "
            "then `benchyard image import FILE --name NAME`), or let another image "
            f"stand in for it: `benchyard image alias {short} NAME`{hint if can_be_made(full) else ''}"
        )
        raise BuildFailed(message)

    async def _ours(self, reference: str, recipe: BuildRecipe) -> _Wanted | None:
        """Return the store's image that a reference means: by the recipe, by an alias, or by its name."""
        for spelled, image_id in recipe.bases.items():
            if _same(spelled, reference):
                return _Wanted(await self.store.get(image_id))
        alias = self.aliases.find(reference) if _is_reference(reference) else None
        if alias is not None:
            try:
                return _Wanted(await self.store.get(alias), is_alias=True)
            except NotFound as error:
                message = f"the alias of {reference} names {alias!r}, which is not there: {error.message}"
                raise BuildFailed(message) from error
        for image in await self.store.list():
            if _same(image.name, reference) or image.id == reference:
                return _Wanted(image)
        return None

    async def _theirs(self, reference: str, scratch: Path, log: Log) -> DockerfileImage:
        full = normal_reference(reference)
        async with self.lock:
            image_id = await self.pull(full, scratch, log)
        return DockerfileImage(full, image_id, await self.images.env(image_id, scratch))

    async def _handed_over(self, wanted: _Wanted, scratch: Path, log: Log) -> DockerfileImage:
        image = wanted.image
        if image.host_dirs or image.fingerprint is not None:
            message = (
                f"the image {image.name!r} shows this machine's own system and cannot be the base of a "
                "Dockerfile: import one (`benchyard image import`), make one (`benchyard image debian`), and "
                "name that, or let it stand in with `benchyard image alias`"
            )
            raise BuildFailed(message)
        identity = _identity(image)
        name = f"{self.repository}:{identity[:32]}"
        async with self.lock:
            if await self.images.find(name, scratch) is None:
                log(f"handing over the image {image.name}")
                layers = self.store.rootfs(image).layers[::-1]
                if problem := await self.images.load(image, layers, name, scratch):
                    message = f"the image {image.name!r} could not be handed to the engine: {problem}"
                    raise BuildFailed(message)
        return DockerfileImage(name, identity, image.env, image.name if wanted.is_alias else None)


def _identity(image: Image) -> str:
    run = [image.layers, sorted(image.env.items()), image.user, image.working_directory]
    run += [image.entrypoint, image.command]
    return hashlib.sha256(json.dumps(run).encode()).hexdigest()


def _is_reference(text: str) -> bool:
    try:
        normal_reference(text)
    except UsageError:
        return False
    return True


def _same(one: str, other: str) -> bool:
    """Tell whether two spellings mean the same image."""
    if one == other:
        return True
    return _is_reference(one) and _is_reference(other) and normal_reference(one) == normal_reference(other)
