"""The merged view of an image's layers, read without mounting them and without ever leaving them."""

import os
import stat
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_MOST_LINKS = 40
_MOST_BYTES = 1024 * 1024


@dataclass(frozen=True)
class MergedEntry:
    """An entry of an image: its path in the image, and its file in a layer."""

    at: str
    path: Path
    status: os.stat_result

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def mode(self) -> int:
        return stat.S_IMODE(self.status.st_mode)


class MergedView:
    """Layers, topmost first, in the form that the devbox will see."""

    def __init__(self, layers: Sequence[Path]) -> None:
        self._layers = layers

    def find(self, path: str, *, follow: bool = True) -> MergedEntry | None:
        """Return the entry at `path`; links lead to other places of the image, never of this machine."""
        ahead = deque(path.split("/"))
        done: list[str] = []
        entry = None
        links = 0
        while ahead:
            name = ahead.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                done = done[:-1]
                continue
            entry = self._look_up((*done, name))
            if entry is None:
                return None
            if not stat.S_ISLNK(entry.status.st_mode) or not (ahead or follow):
                done.append(name)
                continue
            links += 1
            target = str(entry.path.readlink())
            if links > _MOST_LINKS:
                return None
            done = [] if target.startswith("/") else done
            ahead.extendleft(reversed(target.split("/")))
        return self._look_up(tuple(done)) if done else None

    def read(self, path: str) -> bytes | None:
        """Return the content of a small regular file."""
        entry = self.find(path)
        if entry is None or not stat.S_ISREG(entry.status.st_mode):
            return None
        with entry.path.open("rb") as file:
            return file.read(_MOST_BYTES)

    def is_empty(self) -> bool:
        """Tell whether the view is empty."""
        return not any(any(layer.iterdir()) for layer in self._layers)

    def _look_up(self, parts: tuple[str, ...]) -> MergedEntry | None:
        for layer in self._layers:
            entry, hides = _in_layer(layer, parts)
            if entry is not None or hides:
                return entry
        return None


def _in_layer(layer: Path, parts: tuple[str, ...]) -> tuple[MergedEntry | None, bool]:
    """Return a layer's entry at a path, and whether it hides the entries of lower layers there."""
    path = layer
    hides = False
    for depth, name in enumerate(parts, start=1):
        path = path / name
        try:
            status = path.lstat()
        except FileNotFoundError:
            return None, hides
        if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0:
            return None, True
        if depth == len(parts):
            return MergedEntry("/".join(parts), path, status), True
        if not stat.S_ISDIR(status.st_mode):
            return None, True
        hides = hides or _is_opaque(path)
    return None, hides


def _is_opaque(path: Path) -> bool:
    try:
        return os.getxattr(path, "user.overlay.opaque", follow_symlinks=False) == b"y"
    except OSError:
        return False
