"""Layers on disk: a folder with a short name for each, apart from half-made ones."""

import asyncio
import contextlib
import errno
import hashlib
import secrets
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path

from benchyard.devboxes.base import Rootfs, Trees

_NAME_LENGTH = 24
_CANNOT_MOVE = {errno.EXDEV, errno.EACCES, errno.EPERM}
_TAKEN = {errno.EEXIST, errno.ENOTEMPTY}


class Layers:
    """The folders `layers` and `partial` of a store; files are handled under their stored uids."""

    def __init__(self, folder: Path, trees: Trees) -> None:
        self._layers = folder / "layers"
        self._partial = folder / "partial"
        self._trees = trees
        self._pins: list[set[str]] = []
        self._sizes: dict[str, int] = {}
        self._least: dict[str, int] = {}
        """Bytes that layers take at least, where their size is not known."""
        self._syncing = asyncio.Lock()
        self._syncs_begun = self._syncs_done = 0

    def path(self, name: str) -> Path:
        """Return the folder of a layer."""
        return self._layers / name

    @contextlib.contextmanager
    def pinned(self) -> Iterator[set[str]]:
        """Yield a set of layer names; layers are kept while they are in it, even if no image names them."""
        pins: set[str] = set()
        self._pins.append(pins)
        try:
            yield pins
        finally:
            self._pins = [pin for pin in self._pins if pin is not pins]

    @contextlib.asynccontextmanager
    async def scratch(self) -> AsyncIterator[Path]:
        """Yield a folder for half-made files, which is removed afterwards."""
        folder = self._partial / secrets.token_hex(8)
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            await self._trees.remove(folder)

    def known(self, digest: str, pins: set[str]) -> str | None:
        """Pin and return the layer of a digest, if it is there."""
        name = digest[:_NAME_LENGTH]
        if not self.path(name).is_dir():
            return None
        pins.add(name)
        return name

    async def add_tar(self, tar: Path, digest: str, pins: set[str]) -> str:
        """Unpack a tar as the layer of its digest, unless it is there."""
        known = self.known(digest, pins)
        if known is not None:
            return known
        async with self.scratch() as scratch:
            tree = scratch / "tree"
            tree.mkdir(mode=0o755)
            await self._trees.unpack(tar, tree)
            return self.adopt(tree, digest, pins)

    async def add_merged(self, stack: Rootfs, count: int, pins: set[str]) -> str:
        """Merge the topmost layers of a stack into one, unless that was done before."""
        digest = hashlib.sha256("\0".join(layer.name for layer in stack.layers[:count]).encode()).hexdigest()
        known = self.known(digest, pins)
        if known is not None:
            return known
        async with self.scratch() as scratch:
            await self._trees.merge(stack, count, scratch / "tree")
            return self.adopt(scratch / "tree", digest, pins)

    def adopt(self, tree: Path, digest: str, pins: set[str]) -> str:
        """Turn a tree in a scratch folder into the layer of a digest."""
        name = digest[:_NAME_LENGTH]
        pins.add(name)
        self._place(tree, name)
        return name

    def _place(self, tree: Path, name: str) -> None:
        tree.chmod(0o755)
        try:
            tree.rename(self.path(name))
        except OSError as error:
            if error.errno not in _TAKEN:
                raise

    async def add_copy(self, source: Path, pins: set[str], digest: str | None = None) -> str:
        """Copy a tree as a new layer; a layer with a digest never changes again, and its files are shared."""
        name = digest[:_NAME_LENGTH] if digest else secrets.token_hex(_NAME_LENGTH // 2)
        pins.add(name)
        async with self.scratch() as scratch:
            await self._trees.copy(source, scratch / "tree", link=digest is not None)
            self._place(scratch / "tree", name)
        return name

    def new_name(self, pins: set[str]) -> str:
        """Choose the name of a future layer."""
        name = secrets.token_hex(_NAME_LENGTH // 2)
        pins.add(name)
        return name

    def move_in(self, source: Path, name: str) -> bool:
        """Move a tree in as the layer of this name; return False if it must be copied instead."""
        try:
            source.rename(self.path(name))
        except OSError as error:
            if error.errno not in _CANNOT_MOVE:
                raise
            return False
        return True

    def note_size(self, name: str, size: int, *, is_exact: bool) -> None:
        """Note the bytes on disk of a layer, or fewer than it takes."""
        (self._sizes if is_exact else self._least)[name] = size

    async def size(self, names: Iterable[str], most: int | None = None) -> int:
        """Return the bytes on disk of these layers; each is measured once, since layers never change.

        Above `most`, the size of a layer is not exact.
        """
        total = 0
        for name in names:
            size = self._sizes.get(name)
            if size is None and most is not None and self._least.get(name, 0) > most:
                size = self._least[name]
            elif size is None:
                size = (await self._trees.usage(self.path(name), most))[0]
                if most is None or size <= most:
                    self._sizes[name] = size
            total += size
        return total

    async def sync(self) -> None:
        """Return once all layers are on disk; callers that arrive during a sync share the next one."""
        turn = self._syncs_begun + 1
        async with self._syncing:
            if self._syncs_done >= turn:
                return
            self._syncs_begun = turn = self._syncs_begun + 1
            await self._trees.sync(self._layers)
            self._syncs_done = turn

    async def sweep(self, named: set[str], among: set[str] | None = None) -> None:
        """Remove layers that are neither named nor pinned, among these or all.

        They are set aside at once, so that no new image can use them.
        """
        in_use = named.union(*self._pins)
        aside = []
        for path in self._layers.iterdir() if among is None else map(self.path, among):
            if path.name not in in_use and path.exists():
                aside.append(path.rename(self._partial / secrets.token_hex(8)))
                self._sizes.pop(path.name, None)
                self._least.pop(path.name, None)
        for path in aside:
            await self._trees.remove(path)

    async def clear(self) -> None:
        """Remove the half-made layers of a crash."""
        for path in self._partial.iterdir():
            await self._trees.remove(path)
