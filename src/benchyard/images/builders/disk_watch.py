"""Watches on the disk space that a build takes while it runs."""

import contextlib
import re
import shutil
from pathlib import Path

from benchyard.devboxes.base import Trees

_UPPER = re.compile(r"upperdir=[^,\s]*?([0-9a-f]{64})/diff")
_RESERVED_BYTES = 512 * 1024**2


class DiskWatch:
    """Adds up the layers that a build writes to: those mounted in its own namespace, now or earlier."""

    def __init__(self, storage: Path, scratch: Path, trees: Trees, limit: int) -> None:
        self._storage = storage
        self._scratch = scratch
        self._trees = trees
        self._limit = limit
        self._written: dict[str, int] = {}

    async def __call__(self, pid: int) -> str | None:
        """Return why the build has to end; None if it may go on."""
        mounted = set(_UPPER.findall(_text(Path(f"/proc/{pid}/mountinfo"))))
        for name in mounted:
            self._written[name] = await self._usage(self._storage / "overlay" / name / "diff")
        used = sum(self._written.values()) + await self._usage(self._scratch)
        return _verdict(used, self._limit, self._storage)

    async def _usage(self, folder: Path) -> int:
        return await _usage(self._trees, folder)


class GrowthWatch:
    """Adds up all layers that came into an engine's storage since the build began, by any build."""

    def __init__(self, storage: Path, scratch: Path, trees: Trees, limit: int) -> None:
        self._storage = storage
        self._scratch = scratch
        self._trees = trees
        self._limit = limit
        self._before = self._layers()

    def _layers(self) -> set[Path]:
        with contextlib.suppress(OSError):
            return set((self._storage / "overlay2").iterdir())
        return set()

    async def __call__(self, _pid: int) -> str | None:
        """Return why the build has to end; None if it may go on."""
        used = await _usage(self._trees, self._scratch)
        for layer in self._layers() - self._before:
            used += await _usage(self._trees, layer / "diff")
        return _verdict(used, self._limit, self._storage if self._storage.is_dir() else self._scratch)


async def _usage(trees: Trees, folder: Path) -> int:
    # A layer can be committed and removed between two measurements.
    with contextlib.suppress(OSError):
        return (await trees.usage(folder))[0] if folder.is_dir() else 0
    return 0


def _verdict(used: int, limit: int, storage: Path) -> str | None:
    if used > limit:
        return (
            f"the build put {used} bytes on the disk, more than the {limit} it may: "
            "let it download less, or allow it more"
        )
    if shutil.disk_usage(storage).free < _RESERVED_BYTES:
        return "the build ran the server's disk full: free space under its data folder and try again"
    return None


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text()
    return ""
