"""What builders share, whatever engine does the work: bases, equal builds, scratch folders, tidying up."""

import asyncio
import hashlib
import re
import secrets
from abc import abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from benchyard.devboxes.base import Trees
from benchyard.errors import BuildFailed
from benchyard.images.aliases import Aliases
from benchyard.images.bases import Bases
from benchyard.images.build import Builder, Built, Log, Recipe
from benchyard.images.builders.confine import Groups
from benchyard.images.builders.context import check_context
from benchyard.images.builders.engine_bases import EngineBases
from benchyard.images.builders.engine_images import EngineImages
from benchyard.images.builders.output import Output
from benchyard.images.builders.plan import Plan
from benchyard.images.builders.sharing import Sharing
from benchyard.images.dockerfile import Instruction, parse, without_frontend
from benchyard.images.importing import Source
from benchyard.images.references import normal_reference
from benchyard.images.store import Image, ImageStore, Label

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
HIDDEN = "BENCHYARD_SECRET_"
"""Before the names of the variables that hand secrets to an engine's program."""


@dataclass(frozen=True)
class Parts:
    """What a builder works with."""

    store: ImageStore
    folder: Path
    """For the engine's storage, and for what builds need while they run."""
    trees: Trees
    aliases: Aliases
    groups: Groups | None = None

    @property
    def owner(self) -> str:
        """Tells what is ours from what is another server's, where an engine serves both."""
        return hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Attempt:
    """One build under way."""

    plan: Plan
    changes: Mapping[Instruction, Sequence[str]]
    scratch: Path
    """Has the `Dockerfile` as it is for the engine; gets the id of what is made, as `image-id`."""
    output: Output
    files_name: str

    @property
    def context(self) -> Path:
        """The folder that COPY reads from."""
        return self.plan.recipe.context or self.scratch / "context"

    @property
    def heredocs(self) -> Path:
        """The folder of the here-documents that are copied."""
        return self.scratch / "heredocs"


class EngineBuilder(Builder):
    """Lets an engine build; what it makes is taken into our store layer by layer."""

    def __init__(self, parts: Parts, images: EngineImages) -> None:
        self._parts = parts
        self._work = parts.folder / "work"
        self._bases = EngineBases(
            parts.store, parts.aliases, images, f"localhost/benchyard/base-{parts.owner}"
        )
        self._sharing: Sharing[str] = Sharing()
        self._users = 0
        self._idle = asyncio.Lock()

    @abstractmethod
    def _new_files_name(self) -> str:
        """What the engine is to call the folder of a build's here-documents, in COPY --from."""

    @abstractmethod
    async def _knows_heredocs(self) -> bool:
        """Whether the engine reads here-documents itself."""

    @abstractmethod
    async def _run(self, attempt: Attempt) -> None:
        """Let the engine build; raises BuildFailed."""

    @abstractmethod
    async def _source(self, image_id: str, scratch: Path) -> Source:
        """An image of the engine, to be taken into our store."""

    @abstractmethod
    async def _clear(self) -> None:
        """Remove what builds that were cut short left in the engine; called when none is under way."""

    async def open(self) -> None:
        """Make the folders, and clear what a crash left."""
        for folder in (self._parts.folder, self._work):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self._work.iterdir():
            await self._parts.trees.remove(left)
        await self._tidy()

    async def build(self, recipe: Recipe, label: Label, log: Log) -> Built:
        _check(recipe)
        found = Bases(parse(recipe.dockerfile), recipe.args)
        async with self._using(), self._scratch() as scratch:
            bases = await self._bases.resolve(found.references(), recipe, scratch, log)
            names = {reference: base.name for reference, base in bases.items()}
            plan = Plan(recipe, found.renamed(names), bases)
            key = await asyncio.to_thread(plan.key)
            image_id = await self._sharing.run(key, lambda tell: self._build(plan, tell), log)
            made = await self._take(image_id, label, scratch)
        return Built(made, {each: base.alias for each, base in bases.items() if base.alias})

    async def pull(self, reference: str, label: Label, log: Log) -> Image:
        full = normal_reference(reference)
        async with self._using(), self._scratch() as scratch:
            return await self._take(await self._bases.pull(full, scratch, log), label, scratch)

    async def _take(self, image_id: str, label: Label, scratch: Path) -> Image:
        return await self._parts.store.import_archive(await self._source(image_id, scratch), label)

    async def _build(self, plan: Plan, log: Log) -> str:
        """Let the engine build. Secrets are taken out here, since the log is everybody's who asked."""
        names = {base.name: reference for reference, base in plan.bases.items()}
        output = Output(log, plan.recipe.secrets.values(), names)
        knows_heredocs = await self._knows_heredocs()
        async with self._scratch() as scratch:
            for name in ("heredocs", "context"):
                (scratch / name).mkdir()
            files = self._new_files_name()
            changes = plan.changes(scratch / "heredocs", files, knows_heredocs=knows_heredocs)
            (scratch / "Dockerfile").write_text(without_frontend(plan.dockerfile.replaced(changes)))
            await self._run(Attempt(plan, changes, scratch, output, files))
            return (scratch / "image-id").read_text().strip().removeprefix("sha256:")

    @asynccontextmanager
    async def _using(self) -> AsyncIterator[None]:
        """While the engine's storage is used it is not cleared; the last one out tidies up."""
        async with self._idle:
            self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                await asyncio.shield(self._tidy())

    async def _tidy(self) -> None:
        async with self._idle:
            if not self._users:
                await self._clear()

    @asynccontextmanager
    async def _scratch(self) -> AsyncIterator[Path]:
        folder = self._work / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            await asyncio.shield(self._parts.trees.remove(folder))


def _check(recipe: Recipe) -> None:
    check_context(recipe.context)
    for name in (*recipe.secrets, *recipe.args):
        if not _NAME.fullmatch(name):
            raise BuildFailed(f"{name[:100]!r} cannot name an argument or secret: use letters, digits and _")
    if any("\0" in value for value in (*recipe.secrets.values(), *recipe.args.values())):
        raise BuildFailed("the value of an argument or secret has a null byte")
