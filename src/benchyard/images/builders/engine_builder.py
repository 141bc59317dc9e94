"""The common part of all engines' builders: bases, sharing of equal builds, scratch folders, cleaning up."""

import asyncio
import hashlib
import re
import secrets
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from benchyard.devboxes.base import Trees
from benchyard.errors import BuildFailed
from benchyard.images.aliases import Aliases
from benchyard.images.builders.base import Builder, BuildRecipe, BuiltImage, Log
from benchyard.images.builders.engine_images import EngineBases, EngineImages
from benchyard.images.builders.output import BuildOutput
from benchyard.images.builders.plan import BuildPlan, check_context
from benchyard.images.builders.processes import BuildGroups
from benchyard.images.dockerfile import readings
from benchyard.images.dockerfile.readings import ApartCall, EngineDialect, RewrittenDockerfile
from benchyard.images.imports import LayerSource
from benchyard.images.references import normal_reference
from benchyard.images.store import Image, ImageIdentity, ImageStore

T = TypeVar("T")
_REPLAYED_LINES = 10_000


class _Work(Generic[T]):
    """A piece of work under way, and the listeners that wait for it."""

    def __init__(self, work: Callable[[Log], Awaitable[T]]) -> None:
        self.listeners: list[Log] = []
        self.lines: deque[str] = deque(maxlen=_REPLAYED_LINES)
        self.task = asyncio.ensure_future(work(self.tell))

    def tell(self, line: str) -> None:
        self.lines.append(line)
        for listener in self.listeners:
            listener(line)


class SharedWork(Generic[T]):
    """Work by key. It is cancelled when its last waiter leaves."""

    def __init__(self) -> None:
        self._works: dict[str, _Work[T]] = {}

    async def run(self, key: str, work: Callable[[Log], Awaitable[T]], log: Log) -> T:
        """Do the work, or wait for equal work under way; all waiters get the same lines."""
        shared = self._works.get(key)
        if shared is None:
            shared = self._works[key] = _Work(work)
            shared.task.add_done_callback(lambda _done: self._works.pop(key, None))
        for line in shared.lines:
            log(line)
        shared.listeners.append(log)
        try:
            return await asyncio.shield(shared.task)
        finally:
            shared.listeners.remove(log)
            if not shared.listeners and not shared.task.done():
                # Later requests start new work rather than join the work that is being cancelled.
                if self._works.get(key) is shared:
                    del self._works[key]
                shared.task.cancel()
                await asyncio.gather(shared.task, return_exceptions=True)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
HIDDEN = "BENCHYARD_SECRET_"
"""Prefix of the variables that hand secrets to an engine's program."""


def owner_of(folder: Path) -> str:
    """Return an id that marks a builder's images as its own, for an engine that serves several servers."""
    return hashlib.sha256(str(folder).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class BuildAttempt:
    """A build under way."""

    plan: BuildPlan
    rewritten: RewrittenDockerfile
    scratch: Path
    """Contains the `Dockerfile` for the engine; the engine writes the id of the image to `image-id` in it."""
    output: BuildOutput
    files_name: str

    @property
    def context(self) -> Path:
        """Return the folder that COPY reads from."""
        return self.plan.recipe.context or self.scratch / "context"

    @property
    def heredocs(self) -> Path:
        """Return the folder of the copied here-documents."""
        return self.scratch / "heredocs"


class EngineBuilder(Builder):
    """Lets an engine build, and takes the result into the store layer by layer.

    The folder is for the engine's storage, and for temporary files of builds.
    """

    def __init__(
        self,
        store: ImageStore,
        folder: Path,
        trees: Trees,
        aliases: Aliases,
        groups: BuildGroups | None,
        images: EngineImages,
        call: ApartCall,
    ) -> None:
        self._store = store
        self._call_apart = call
        self._folder = folder
        self._trees = trees
        self._groups = groups
        self._work = folder / "work"
        self._bases = EngineBases(store, aliases, images, f"localhost/benchyard/base-{owner_of(folder)}")
        self._sharing: SharedWork[str] = SharedWork()
        self._users = 0
        self._idle = asyncio.Lock()

    @abstractmethod
    def _new_files_name(self) -> str:
        """Return the engine's name for the folder of a build's here-documents, in COPY --from."""

    @abstractmethod
    async def _knows_heredocs(self) -> bool:
        """Tell whether the engine reads here-documents itself."""

    @abstractmethod
    async def _run(self, attempt: BuildAttempt) -> None:
        """Let the engine build; raises BuildFailed."""

    @abstractmethod
    async def _source(self, image_id: str, scratch: Path) -> LayerSource:
        """Return an image of the engine as a source for the store."""

    @abstractmethod
    async def _clear(self) -> None:
        """Remove the engine's remains of interrupted builds; called when no build is under way."""

    async def open(self) -> None:
        """Make the folders, and clear the remains of a crash."""
        for folder in (self._folder, self._work):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in self._work.iterdir():
            await self._trees.remove(left)
        await self._tidy()

    async def build(self, recipe: BuildRecipe, identity: ImageIdentity, log: Log) -> BuiltImage:
        _check_recipe(recipe)
        references = await readings.references(recipe.dockerfile, recipe.args, self._call_apart)
        async with self._using(), self._scratch() as scratch:
            bases = await self._bases.resolve(references, recipe, scratch, log)
            plan = BuildPlan(recipe, bases)
            key = await asyncio.to_thread(plan.key)
            image_id = await self._sharing.run(key, lambda tell: self._build(plan, tell), log)
            layers = await self._take(image_id, identity, scratch)
        return BuiltImage(layers, {each: base.alias for each, base in bases.items() if base.alias})

    async def pull(self, reference: str, identity: ImageIdentity, log: Log) -> Image:
        full = normal_reference(reference)
        async with self._using(), self._scratch() as scratch:
            return await self._take(await self._bases.pull(full, scratch, log), identity, scratch)

    async def _take(self, image_id: str, identity: ImageIdentity, scratch: Path) -> Image:
        return await self._store.import_archive(await self._source(image_id, scratch), identity)

    async def _build(self, plan: BuildPlan, log: Log) -> str:
        """Let the engine build. Secrets are masked here, since all who share the build read its log."""
        recipe = plan.recipe
        names = {base.name: reference for reference, base in plan.bases.items()}
        output = BuildOutput(log, recipe.secrets.values(), names)
        knows_heredocs = await self._knows_heredocs()
        async with self._scratch() as scratch:
            for name in ("heredocs", "context"):
                (scratch / name).mkdir()
            files = self._new_files_name()
            dialect = EngineDialect(
                {reference: base.name for reference, base in plan.bases.items()},
                {base.name: base.env for base in plan.bases.values()},
                scratch / "heredocs",
                files,
                knows_heredocs,
            )
            rewritten = await readings.rewritten(
                recipe.dockerfile, recipe.args, list(recipe.secrets), dialect, self._call_apart
            )
            await asyncio.to_thread((scratch / "Dockerfile").write_text, rewritten.text)
            await self._run(BuildAttempt(plan, rewritten, scratch, output, files))
            return (scratch / "image-id").read_text().strip().removeprefix("sha256:")

    @asynccontextmanager
    async def _using(self) -> AsyncIterator[None]:
        """Keep the engine's storage from being cleared meanwhile; the last user cleans up."""
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
            await asyncio.shield(self._trees.remove(folder))


def _check_recipe(recipe: BuildRecipe) -> None:
    check_context(recipe.context)
    for name in (*recipe.secrets, *recipe.args):
        if not _NAME.fullmatch(name):
            raise BuildFailed(f"{name[:100]!r} cannot name an argument or secret: use letters, digits and _")
    if any("\0" in value for value in (*recipe.secrets.values(), *recipe.args.values())):
        raise BuildFailed("the value of an argument or secret has a null byte")
