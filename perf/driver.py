"""The native driver as a contender, called directly."""

import asyncio
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import TypeVar

from benchyard.devboxes.base import Command, DevboxSpec, ExecutionEnded, Rootfs
from benchyard.devboxes.native.driver import NativeDriver
from benchyard.images.store import ImageStore

T = TypeVar("T")

AT_ONCE = 4


class Direct:
    """A driver with its own event loop, so that it can take turns with the others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self.place = folder / "driver"
        self._driver = NativeDriver(self.place, {})
        self._count = 0
        self._held: list[DevboxSpec] = []
        self.rootfs = self._loop.run_until_complete(self._open())

    @property
    def mode(self) -> str:
        """The mode the driver found."""
        return self._driver.mode

    async def _open(self) -> Rootfs:
        await self._driver.__aenter__()
        images = ImageStore(self._folder / "images", self._driver.trees)
        await images.open()
        return images.rootfs(await images.get("host"))

    def cycle(self) -> None:
        """Create, run `bash -lc true`, remove."""
        self._loop.run_until_complete(self._cycle())

    async def _cycle(self) -> None:
        spec = await self._start()
        await self._run(spec)
        await self._stop(spec)

    async def _start(self) -> DevboxSpec:
        self._count += 1
        folder = self._folder / f"devbox{self._count}"
        folder.mkdir(mode=0o700)
        spec = DevboxSpec(id=folder.name, folder=folder, rootfs=self.rootfs)
        await self._driver.start(spec)
        return spec

    async def _stop(self, spec: DevboxSpec) -> None:
        await self._driver.stop(spec.id)
        await self._driver.trees.remove(spec.folder)

    def fill(self, count: int) -> float:
        """Start so many, a few at once; returns the seconds it took."""
        begin = time.perf_counter()
        self._held += self._loop.run_until_complete(_few_at_once([self._start() for _ in range(count)]))
        return time.perf_counter() - begin

    def empty(self) -> float:
        """End them all, a few at once; returns the seconds it took."""
        begin = time.perf_counter()
        self._loop.run_until_complete(_few_at_once([self._stop(spec) for spec in self._held]))
        self._held = []
        return time.perf_counter() - begin

    async def _run(self, spec: DevboxSpec) -> None:
        execution = spec.folder / "executions" / "first"
        execution.mkdir(parents=True)
        command = Command("first", ("/bin/bash", "-lc", "true"), execution, user="user")
        await self._driver.exec(spec.id, command)
        async for event in self._driver.events():
            if event == ExecutionEnded(spec.id, "first"):
                return

    def close(self) -> None:
        """Let the driver go."""
        self._loop.run_until_complete(self._driver.__aexit__(None, None, None))
        self._loop.close()


async def _few_at_once(works: Sequence[Awaitable[T]]) -> list[T]:
    places = asyncio.Semaphore(AT_ONCE)

    async def one(work: Awaitable[T]) -> T:
        async with places:
            return await work

    return await asyncio.gather(*(one(work) for work in works))
