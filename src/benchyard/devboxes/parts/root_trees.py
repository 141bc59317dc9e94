"""Trees of a driver that runs as root: small ones in a thread, large ones in a child of the zygote.

A thread is quicker to begin with, but all threads of a server take turns: one that walks through the hundred
thousand files of an agent makes every request wait. So whatever is not done in a moment is begun anew apart.
"""

import os
from pathlib import Path

from benchyard.devboxes.base import Rootfs
from benchyard.devboxes.box import ids
from benchyard.devboxes.box.changes import compare_tree
from benchyard.devboxes.box.stop import Stopped
from benchyard.devboxes.box.trees import remove_tree, tree_usage
from benchyard.devboxes.parts.mapped import MappedTrees
from benchyard.devboxes.parts.watching import add_here
from benchyard.devboxes.parts.zygote import ZygoteProcess
from benchyard.devboxes.trees import LocalTrees, within

_MOMENT_SECONDS = 0.03
_LONG_SHEET_BYTES = 32 * 1024
"""Of a list of paths: some hundreds of them."""


class RootTrees(LocalTrees):
    """Walks that read or remove can be begun anew at any time; all else is done in threads."""

    def __init__(self, zygote: ZygoteProcess, moment: float = _MOMENT_SECONDS) -> None:
        super().__init__()
        # In this mode a child stays who it is.
        self._apart = MappedTrees(zygote, ids.ROOT)
        self._moment = moment

    async def remove(self, path: Path) -> None:
        try:
            await within(self._moment, remove_tree, str(path))
        except Stopped:
            await self._apart.remove_slowly(path)

    async def usage(self, path: Path, most: int | None = None) -> tuple[int, int]:
        try:
            return await within(self._moment, tree_usage, str(path), most)
        except Stopped:
            return await self._apart.usage(path, most)

    async def compare(
        self,
        noted: tuple[Path, Path],
        below: Rootfs,
        report: Path,
        aside: tuple[str, ...],
        counted: tuple[str, ...] = (),
    ) -> None:
        tree, manifest = map(str, noted)
        layers = ([str(layer) for layer in below.layers], below.host_dirs)
        try:
            await within(self._moment, compare_tree, tree, manifest, layers, str(report), aside, counted)
        except Stopped:
            await self._apart.compare(noted, below, report, aside, counted)

    async def watch(self, root: int, watcher: int, sheet: int) -> None:
        """Add watches to the files that are listed in `sheet`."""
        is_long = os.fstat(sheet).st_size > _LONG_SHEET_BYTES
        await (self._apart.watch if is_long else add_here)(root, watcher, sheet)
