"""Images in a Docker engine: loaded as archives; taken from its storage where we can read it, else saved."""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchyard.devboxes.base import Trees
from benchyard.images.build import Log
from benchyard.images.builders.docker_tool import DockerTool
from benchyard.images.builders.engine_images import EngineImages
from benchyard.images.builders.handover import Handover, Packed
from benchyard.images.builders.storage import StoredImage, StoredLayer
from benchyard.images.builders.tool import Call
from benchyard.images.image import Image
from benchyard.images.importing import Imported, Source
from benchyard.images.layers import Layers
from benchyard.images.layouts import read_layout
from benchyard.images.packing import Title

_ENV = '{{range .Config.Env}}{{json .}}{{"\\n"}}{{end}}'
_DIGESTS = "{{range .RootFS.Layers}}{{println .}}{{end}}"
_FOLDERS = (
    "{{println .GraphDriver.Data.UpperDir}}"
    '{{range (split .GraphDriver.Data.LowerDir ":")}}{{println .}}{{end}}'
)
_REFUSED = "Error response from daemon: "


class DockerImages(EngineImages):
    """What is ours in the engine carries a label with our name."""

    def __init__(self, tool: DockerTool, trees: Trees, packed: Packed, label: tuple[str, str]) -> None:
        self._tool = tool
        self._trees = trees
        self._packed = packed
        self._label = label

    async def find(self, name: str, scratch: Path) -> str | None:
        told = await self._tool.ask(scratch, "image", "inspect", "--format", "{{.Id}}", name)
        return told[-1].strip().removeprefix("sha256:") if told else None

    async def env(self, image_id: str, scratch: Path) -> Mapping[str, str]:
        told = await self._tool.ask(scratch, "image", "inspect", "--format", _ENV, image_id)
        pairs = [json.loads(line).partition("=") for line in told or () if line.startswith('"')]
        return {name: value for name, _, value in pairs}

    async def fetch(self, full: str, scratch: Path, log: Log) -> str | None:
        told = [""]

        def note(line: str) -> None:
            told.append(line)
            log(line)

        status = await self._tool.run(Call(["pull", full], scratch), note)
        return None if status == 0 else told[-1].removeprefix(_REFUSED)

    async def load(self, image: Image, layers: Sequence[Path], name: str, scratch: Path) -> str | None:
        folder = scratch / "base"
        folder.mkdir()
        title = Title(name, labels=dict([self._label]))
        archive = await Handover(self._trees, self._packed, folder).write_archive(image, layers, title)
        said = await self._load(archive, scratch)
        await self._trees.remove(folder)
        return said

    async def load_folder(self, folder: Path, name: str, scratch: Path) -> str | None:
        """Make an image of one folder, for COPY --from; why that failed, if so."""
        title = Title(name, labels=dict([self._label]))
        target = scratch / "folder"
        target.mkdir()
        handover = Handover(self._trees, Packed(target / "packed.json"), target)
        archive = await handover.write_archive(Image(name, name, ()), [folder], title)
        return await self._load(archive, scratch)

    async def _load(self, archive: Path, scratch: Path) -> str | None:
        told = [""]
        status = await self._tool.run(
            Call(["load", "--quiet", "--input", str(archive)], scratch), told.append
        )
        return None if status == 0 else told[-1].removeprefix(_REFUSED)

    async def stored(self, image_id: str, scratch: Path) -> StoredImage | None:
        """The image as it lies in the engine's storage, if its layers are folders that we can read."""
        digests = await self._told(image_id, _DIGESTS, scratch)
        # Topmost first, and none for those below where there are none.
        folders = [
            Path(line) for line in await self._told(image_id, _FOLDERS, scratch) if line.startswith("/")
        ]
        config = await self._told(image_id, "{{json .Config}}", scratch)
        if not digests or len(folders) != len(digests) or not all(map(_is_readable, folders)):
            return None
        try:
            found = json.loads("".join(config))
        except ValueError:
            return None
        pairs = zip(digests, reversed(folders), strict=True)
        layers = [StoredLayer(digest.removeprefix("sha256:"), folder) for digest, folder in pairs]
        return StoredImage(image_id, tuple(layers), {"config": found})

    async def _told(self, image_id: str, template: str, scratch: Path) -> list[str]:
        told = await self._tool.ask(scratch, "image", "inspect", "--format", template, image_id)
        return [line for line in told or () if line]

    async def remove(self, scratch: Path, *, all_of_ours: bool) -> bool:
        """Remove images of ours: those without a name, or all of them; whether there were any."""
        dangling = [] if all_of_ours else ["--filter", "dangling=true"]
        label = f"label={'='.join(self._label)}"
        found = await self._tool.ask(scratch, "images", "--quiet", "--filter", label, *dangling)
        ids = sorted({line.strip() for line in found or () if line.strip()})
        if ids:
            await self._tool.ask(scratch, "rmi", "--force", *ids)
        return bool(ids)


def _is_readable(folder: Path) -> bool:
    return folder.is_dir() and os.access(folder, os.R_OK | os.X_OK)


@dataclass(frozen=True)
class Saved(Source):
    """An image that an engine saved as an archive: layers we know are named, the others unpacked."""

    archive: Path
    trees: Trees
    packed: Packed

    async def bring(self, layers: Layers, pins: set[str]) -> Imported:
        ours = self.packed.layers()
        async with layers.scratch() as scratch:
            tree = scratch / "tree"
            tree.mkdir(mode=0o755)
            await self.trees.unpack(self.archive, tree)
            layout = await asyncio.to_thread(read_layout, tree)
            names = []
            for layer in layout.layers:
                name = layers.known(ours.get(layer.digest, layer.digest), pins)
                names.append(name or await layers.add_tar(layer.path, layer.digest, pins))
        return Imported(tuple(reversed(names)), layout.config)
