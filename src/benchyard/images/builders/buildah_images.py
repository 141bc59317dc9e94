"""Images in buildah's storage."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchyard.devboxes.base import Trees
from benchyard.images.build import Log
from benchyard.images.builders.engine_images import EngineImages
from benchyard.images.builders.handover import Handover, Packed
from benchyard.images.builders.tool import Call, Tool
from benchyard.images.image import Image
from benchyard.images.layouts import image_config
from benchyard.images.references import is_loopback


class BuildahImages(EngineImages):
    """Looked up in the storage's own files; a layer that is there is not packed again."""

    def __init__(self, tool: Tool, trees: Trees, packed: Packed) -> None:
        self._tool = tool
        self._trees = trees
        self._packed = packed

    async def find(self, name: str, scratch: Path) -> str | None:
        return self._tool.storage.find(name)

    async def env(self, image_id: str, scratch: Path) -> Mapping[str, str]:
        found = await asyncio.to_thread(self._tool.storage.image, image_id)
        return image_config(found.config.get("config") or {}).env

    async def fetch(self, full: str, scratch: Path, log: Log) -> str | None:
        told: list[str] = []

        def note(line: str) -> None:
            told.append(line)
            log(line)

        plain = ["--tls-verify=false"] if is_loopback(full) else []
        call = Call(["pull", "--retry", "1", *plain, f"docker://{full}"], scratch)
        status = await self._tool.run(call, note)
        if status == 0 and self._tool.storage.find(full):
            return None
        reason = next((line for line in reversed(told) if line.startswith("Error: ")), f"status {status}")
        return reason.removeprefix("Error: ")

    async def load(self, image: Image, layers: Sequence[Path], name: str, scratch: Path) -> str | None:
        said: list[str] = []
        # A layer that the engine says it has may still be of no use to it: then it gets all of them.
        for present in (self._tool.storage.digests(), set[str]()):
            folder = scratch / f"base-{len(present)}"
            folder.mkdir()
            await Handover(self._trees, self._packed, folder).write_layout(image, layers, present)
            said.clear()
            # The engine makes a name of the path, which not every path of a data folder could be.
            pull = Call(["pull", "--quiet", f"oci:{folder.name}"], scratch)
            status = await self._tool.run(pull, said.append)
            if status == 0:
                status = await self._tool.run(Call(["tag", said[-1].strip(), name], scratch), said.append)
            await self._trees.remove(folder)
            if status == 0 and self._tool.storage.find(name):
                return None
        return " / ".join(said[-5:])
