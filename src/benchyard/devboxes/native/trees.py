"""File trees of the native driver, handled in threads and by children of the zygote."""

import errno
import os
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from benchyard.devboxes.base import Rootfs, Trees
from benchyard.devboxes.guest import ids
from benchyard.devboxes.layers.carry import REPORT
from benchyard.devboxes.layers.changes import compare_tree
from benchyard.devboxes.layers.trees import WorkStopped, has_more_entries, remove_tree, tree_usage
from benchyard.devboxes.local_trees import LocalTrees, run_within
from benchyard.devboxes.native.zygote import ZygoteProcess
from benchyard.devboxes.shared.watches import add_here
from benchyard.errors import DevboxError, ImageError

_DONE = frozenset({"result"})
_CAN_BE_REFUSED = ("unpack", "merge", "pack")
_CAN_BE_STOPPED = ("unpack", "copy", "remove", "remove_slowly", "examine")


class MappedTrees(Trees):
    """Trees of a mode: each operation runs in a forked child that first enters the mode's user namespace."""

    def __init__(self, zygote: ZygoteProcess, mode: str) -> None:
        self._zygote = zygote
        self._mode = mode
        self._has_ids = mode != ids.ROOTLESS_SINGLE

    async def watch(self, root: int, watcher: int, sheet: int) -> None:
        """Add watches to files, with the rights of the mode's root."""
        await self._call("watch", descriptors=[root, watcher, sheet])

    async def _call(self, name: str, *arguments: Any, descriptors: Sequence[int] = (), **options: Any) -> Any:
        request = {
            "op": "call",
            "call": name,
            "arguments": arguments,
            "options": options,
            "mode": self._mode,
            "slot": 0,
            "can_change_user": self._has_ids,
            "can_be_stopped": name in _CAN_BE_STOPPED,
        }
        answer = await self._zygote.ask(request, [*descriptors], _DONE)
        text = answer.find("error")
        what = f"{name} of {arguments[0]}" if arguments else name
        if text is not None:
            kind = ImageError if name in _CAN_BE_REFUSED else DevboxError
            raise kind(f"{what} failed: {text}")
        if not answer.messages:
            raise DevboxError(f"{what} was interrupted")
        return answer.find("result")

    async def copy(self, source: Path, target: Path, *, link: bool = False) -> None:
        await self._call("copy", str(source), str(target), keep_owner=self._has_ids, link=link)

    async def remove(self, path: Path) -> None:
        await self._call("remove", str(path))

    async def remove_slowly(self, path: Path) -> None:
        """Remove a tree while the processor is idle."""
        await self._call("remove_slowly", str(path))

    async def usage(self, path: Path, most: int | None = None) -> tuple[int, int]:
        size, entries = await self._call("usage", str(path), most)
        return size, entries

    async def unpack(self, archive: Path, target: Path) -> None:
        await self._call("unpack", str(archive), str(target), keep_owner=self._has_ids)

    async def pack(
        self, source: Path, archive: Path, names: tuple[str, ...] = (), *, plain: bool = False
    ) -> tuple[str, int]:
        packed = await self._call("pack", str(source), str(archive), names, keep_owner=True, plain=plain)
        digest, size = packed
        return digest, size

    async def merge(self, stack: Rootfs, count: int, target: Path) -> None:
        layers = [str(layer) for layer in stack.layers]
        above, below = layers[:count], layers[count:]
        await self._call("merge", above, below, stack.host_dirs, str(target), keep_owner=self._has_ids)

    async def carry(self, source: Rootfs, onto: Rootfs, paths: tuple[str, ...], target: Path) -> Path:
        stacks = [([str(layer) for layer in place.layers], place.host_dirs) for place in (source, onto)]
        await self._call("carry", *stacks, paths, str(target), keep_owner=self._has_ids)
        return target.with_name(target.name + REPORT)

    async def carry_work(
        self, source: Rootfs, onto: Rootfs, paths: tuple[str, ...], home: str | None, target: Path
    ) -> Path:
        stacks = [([str(layer) for layer in place.layers], place.host_dirs) for place in (source, onto)]
        await self._call("carry_work", *stacks, paths, home, str(target), keep_owner=self._has_ids)
        return target.with_name(target.name + REPORT)

    async def note(self, tree: Path, manifest: Path) -> bool:
        return bool(await self._call("note", str(tree), str(manifest)))

    async def compare(
        self,
        noted: tuple[Path, Path],
        below: Rootfs,
        report: Path,
        aside: tuple[str, ...],
        counted: tuple[str, ...] = (),
    ) -> None:
        tree, manifest = map(str, noted)
        layers = [str(layer) for layer in below.layers]
        await self._call("compare", tree, manifest, (layers, below.host_dirs), str(report), aside, counted)

    async def examine(self, final: Rootfs, start: Rootfs, wanted: Mapping[str, Any], report: Path) -> None:
        stacks = [([str(layer) for layer in place.layers], place.host_dirs) for place in (final, start)]
        await self._call("examine", *stacks, dict(wanted), str(report))

    async def sync(self, path: Path) -> None:
        await self._call("sync", str(path))


T = TypeVar("T")

_MOMENT_SECONDS = 0.02
_FEW_ENTRIES = 200
"""Entries of a tree that a thread walks through: with more, it and the other threads hold each other up."""
_MOST_REMEMBERED = 1000
"""Large trees to remember; they are forgotten when removed, or when as many others have come."""
_LONG_SHEET_BYTES = 24 * 1024
"""Bytes of a long list of paths: more than those of the work that a large trial leaves (`MOST_OF_WORK`)."""
_SMALL_FILE_BYTES = 1024**2
"""Bytes of a file whose removal holds nobody up."""


class RootTrees(LocalTrees):
    """Trees of root: large ones are read and removed in a process apart; all else is done in threads."""

    def __init__(self, zygote: ZygoteProcess, moment: float = _MOMENT_SECONDS) -> None:
        super().__init__()
        # In this mode a child keeps its user.
        self._apart = MappedTrees(zygote, ids.ROOT)
        self._moment = moment
        self._large: dict[tuple[int, int], None] = {}
        """Trees with many entries or a long walk, by their inode, which survives a move."""

    async def _walk(
        self,
        tree: Path,
        here: Callable[..., T],
        apart: Callable[[], Awaitable[T]],
        *args: object,
        few: int | None = _FEW_ENTRIES,
    ) -> T:
        """Walk through a small tree in a thread for a moment, and through others in a process apart."""

        def walk() -> T:
            if few is not None and known is not None and has_more_entries(str(tree), few):
                raise WorkStopped
            return here(str(tree), *args)

        known = _identity(tree)
        if known is None or known not in self._large:
            try:
                return await run_within(self._moment, walk)
            except WorkStopped:
                if known is not None:
                    self._large[known] = None
                    while len(self._large) > _MOST_REMEMBERED:
                        del self._large[next(iter(self._large))]
        return await apart()

    async def remove(self, path: Path) -> None:
        if _is_removed_here(path):
            return
        known = _identity(path)
        await self._walk(path, remove_tree, partial(self._apart.remove_slowly, path))
        if known is not None:
            self._large.pop(known, None)

    async def usage(self, path: Path, most: int | None = None) -> tuple[int, int]:
        # All disks are measured again and again without a limit: most often a moment is enough for that.
        few = None if most is None else _FEW_ENTRIES
        return await self._walk(path, tree_usage, partial(self._apart.usage, path, most), most, few=few)

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

    async def examine(self, final: Rootfs, start: Rootfs, wanted: Mapping[str, Any], report: Path) -> None:
        await self._apart.examine(final, start, wanted, report)

    async def watch(self, root: int, watcher: int, sheet: int) -> None:
        """Add watches to the files that are listed in `sheet`."""
        is_long = os.fstat(sheet).st_size > _LONG_SHEET_BYTES
        await (self._apart.watch if is_long else add_here)(root, watcher, sheet)


def _identity(tree: Path) -> tuple[int, int] | None:
    """Return what a folder keeps when it is moved; None for anything else."""
    try:
        status = os.lstat(tree)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


def _is_removed_here(path: Path) -> bool:
    """Remove a small file or an empty folder; a thread would cost more, and each devbox leaves several."""
    try:
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            path.rmdir()
        elif status.st_size <= _SMALL_FILE_BYTES:
            path.unlink()
        else:
            return False
    except OSError as error:
        return error.errno == errno.ENOENT
    return True
