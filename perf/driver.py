"""The native driver as a contender, called directly."""

import asyncio
from pathlib import Path

from benchyard.devboxes.base import Command, DevboxSpec, ExecutionEnded, Rootfs
from benchyard.devboxes.native import NativeDriver
from benchyard.images.store import ImageStore


class Direct:
    """A driver with its own event loop, so that it can take turns with the others."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.new_event_loop()
        self._driver = NativeDriver(folder / "driver", {})
        self._count = 0
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
        self._count += 1
        folder = self._folder / f"devbox{self._count}"
        folder.mkdir(mode=0o700)
        spec = DevboxSpec(id=folder.name, folder=folder, rootfs=self.rootfs)
        await self._driver.start(spec)
        await self._run(spec)
        await self._driver.stop(spec.id)
        await self._driver.trees.remove(folder)

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
