"""Folders that scorers and agents need, made once under one root, for every process that shares it.

<root>/<name>/            a complete folder
<root>/<name>.partial/    a folder being filled, by the holder of the lock
<root>/<name>.lock        held while the folder is filled or removed
<root>/<name>.used        its size; its time of change is that of the last request for the folder
<root>/downloads/<what>/  downloads of fills, kept for later fills
"""

import asyncio
import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakValueDictionary

from benchyard.errors import from_os

SPARED_SECONDS = 3600.0
"""Folders requested so recently are not trimmed: a devbox that shows them may be starting."""

_PARTIAL, _LOCK, _USED = ".partial", ".lock", ".used"
_DOWNLOADS = "downloads"
_LOOK_AGAIN_SECONDS = 0.05


@dataclass(frozen=True)
class Kit:
    """A folder of the host that a scorer or an agent needs, shown read-only at `target` in a devbox."""

    source: Path
    target: str


Fill = Callable[[Path], Awaitable[None]]
"""Fills a new, empty folder; raises an error with a remedy."""


class Kits(ABC):
    """Source of folders for scorers and agents that are made once and used often."""

    @abstractmethod
    async def folder(self, key: str, fill: Fill) -> Path:
        """Return the folder of this key: filled if it is missing, once for all simultaneous requests."""

    @abstractmethod
    def downloads(self, name: str) -> Path:
        """Return a folder where fills may keep their downloads; it may be gone the next time."""


class KitFolders(Kits):
    """Kits in a folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def folder(self, key: str, fill: Fill) -> Path:
        target = self._root / _name(key)
        try:
            self._root.mkdir(mode=0o755, parents=True, exist_ok=True)
            async with self._locks.setdefault(target.name, asyncio.Lock()), _locked(target):
                if not target.exists():
                    await self._make(target, fill)
                os.utime(_beside(target, _USED))
        except OSError as error:
            raise from_os(error) from error
        return target

    def known(self) -> "KnownKits":
        """Return the same folders in a form that makes none."""
        return KnownKits(self._root)

    async def _make(self, target: Path, fill: Fill) -> None:
        partial = _beside(target, _PARTIAL)
        await asyncio.to_thread(_remove, partial)
        partial.mkdir(mode=0o755)
        try:
            await fill(partial)
            size = await asyncio.to_thread(_size, partial)
            _beside(target, _USED).write_text(str(size))
            partial.rename(target)
        except BaseException:
            await asyncio.shield(asyncio.to_thread(_remove, partial))
            raise

    def downloads(self, name: str) -> Path:
        place = self._root / _DOWNLOADS / name
        place.mkdir(mode=0o755, parents=True, exist_ok=True)
        return place

    async def sweep(self) -> None:
        """Remove the remains of a process that ended while it filled a folder."""
        for partial in list(self._root.glob(f"*{_PARTIAL}")):
            await self._remove(partial.with_suffix(""), only_partial=True)

    async def trim(self, max_bytes: int, in_use: Collection[Path] = ()) -> int:
        """Remove downloads, then the folders least recently requested, down to this size.

        Those in use, and those of the last hour, stay; returns the bytes that are left.
        """
        folders = {used.with_suffix(""): used for used in self._root.glob(f"*{_USED}")}
        sizes = {folder: int(used.read_text() or 0) for folder, used in folders.items() if folder.exists()}
        downloads = self._root / _DOWNLOADS
        total = sum(sizes.values()) + await asyncio.to_thread(_size, downloads)
        if total > max_bytes:
            await asyncio.to_thread(_remove, downloads)
            total = sum(sizes.values())
        asked = {folder: folders[folder].stat().st_mtime for folder in sizes}
        for folder in sorted(sizes, key=asked.__getitem__):
            is_new = asked[folder] > time.time() - SPARED_SECONDS
            if total > max_bytes and not is_new and folder not in in_use and await self._remove(folder):
                total -= sizes[folder]
        return total

    async def _remove(self, folder: Path, *, only_partial: bool = False) -> bool:
        """Remove a folder, unless a process is busy with it."""
        lock = self._locks.setdefault(folder.name, asyncio.Lock())
        if lock.locked():
            return False
        async with lock:
            with _try_lock(folder) as is_ours:
                if not is_ours:
                    return False
                partial = _beside(folder, _PARTIAL)
                await asyncio.to_thread(_remove, partial)
                if not only_partial:
                    # Under a name that is swept: a half-removed folder must not pass for a complete one.
                    folder.rename(partial)
                    _beside(folder, _USED).unlink(missing_ok=True)
                    await asyncio.to_thread(_remove, partial)
        return True


class KnownKits(Kits):
    """The kits of a folder as they would be named; none is filled."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def folder(self, key: str, fill: Fill) -> Path:
        return self._root / _name(key)

    def downloads(self, name: str) -> Path:
        return self._root / _DOWNLOADS / name

    def has(self, key: str) -> bool:
        """Tell whether the folder of this key exists."""
        return (self._root / _name(key)).is_dir()


@contextlib.asynccontextmanager
async def _locked(folder: Path) -> AsyncIterator[None]:
    """Hold the lock of a folder against other processes; it is released when its holder ends."""
    while True:
        with _try_lock(folder) as is_ours:
            if is_ours:
                yield
                return
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


@contextlib.contextmanager
def _try_lock(folder: Path) -> Iterator[bool]:
    descriptor = os.open(_beside(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def _name(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _beside(folder: Path, ending: str) -> Path:
    return folder.with_name(folder.name + ending)


def _remove(path: Path) -> None:
    if path.exists():
        shutil.rmtree(path)


def _size(folder: Path) -> int:
    """Return bytes on disk; files with several names count once."""
    seen: set[int] = set()
    total = 0
    for parent, _folders, files in os.walk(folder):
        for name in files:
            found = os.lstat(Path(parent, name))
            if found.st_ino not in seen:
                seen.add(found.st_ino)
                total += found.st_blocks * 512
    return total
