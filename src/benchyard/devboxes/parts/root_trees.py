"""Trees of a driver that runs as root: small ones in a thread, large ones in a child of the zygote.

A thread is quicker to begin with, but all threads of a server take turns: one that walks through the hundred
thousand files of an agent makes every request wait. So whatever is not done in a moment is begun anew apart;
a tree of which that is known is walked apart from the start.
"""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from benchyard.devboxes.base import Rootfs
from benchyard.devboxes.box import ids
from benchyard.devboxes.box.changes import compare_tree
from benchyard.devboxes.box.stop import Stopped
from benchyard.devboxes.box.trees import remove_tree, tree_usage
from benchyard.devboxes.parts.mapped import MappedTrees
from benchyard.devboxes.parts.watching import add_here
from benchyard.devboxes.parts.zygote import ZygoteProcess
from benchyard.devboxes.trees import LocalTrees, within

T = TypeVar("T")

_MOMENT_SECONDS = 0.02
_MOST_REMEMBERED = 1000
"""Large trees; they are forgotten when they are removed, or when as many others have come."""
_LONG_SHEET_BYTES = 32 * 1024
"""Of a list of paths: some hundreds of them."""


class RootTrees(LocalTrees):
    """Walks that read or remove can be begun anew at any time; all else is done in threads."""

    def __init__(self, zygote: ZygoteProcess, moment: float = _MOMENT_SECONDS) -> None:
        super().__init__()
        # In this mode a child stays who it is.
        self._apart = MappedTrees(zygote, ids.ROOT)
        self._moment = moment
        self._large: dict[tuple[int, int], None] = {}
        """Trees that took longer than a moment, by what stays when a tree is moved: its inode."""

    async def _walk(
        self, tree: Path, here: Callable[..., T], apart: Callable[[], Awaitable[T]], *args: object
    ) -> T:
        """Walk through a tree in a thread for a moment, or else apart."""
        known = _identity(tree)
        if known is None or known not in self._large:
            try:
                return await within(self._moment, here, str(tree), *args)
            except Stopped:
                if known is not None:
                    self._large[known] = None
                    while len(self._large) > _MOST_REMEMBERED:
                        del self._large[next(iter(self._large))]
        return await apart()

    async def remove(self, path: Path) -> None:
        known = _identity(path)
        await self._walk(path, remove_tree, partial(self._apart.remove_slowly, path))
        if known is not None:
            self._large.pop(known, None)

    async def usage(self, path: Path, most: int | None = None) -> tuple[int, int]:
        return await self._walk(path, tree_usage, partial(self._apart.usage, path, most), most)

    async def compare(
        self,
        noted: tuple[Path, Path],
        below: Rootfs,
        report: Path,
        aside: tuple[str, ...],
        counted: tuple[str, ...] = (),
    ) -> None:
        tree, manifest = noted
        layers = ([str(layer) for layer in below.layers], below.host_dirs)
        apart = partial(self._apart.compare, noted, below, report, aside, counted)
        await self._walk(tree, compare_tree, apart, str(manifest), layers, str(report), aside, counted)

    async def watch(self, root: int, watcher: int, sheet: int) -> None:
        """Add watches to the files that are listed in `sheet`."""
        is_long = os.fstat(sheet).st_size > _LONG_SHEET_BYTES
        await (self._apart.watch if is_long else add_here)(root, watcher, sheet)


def _identity(tree: Path) -> tuple[int, int] | None:
    try:
        status = tree.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
