"""The combined view of a stack of layers, read as overlayfs would, without mounting anything.

Every layer may hold anything at all: links, marks of deletion, trees of any depth. No link is followed.
"""

import os
import stat
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from benchyard.devboxes.layers.trees import TreeCursor, is_opaque, is_whiteout

_HELD_DESCRIPTORS = 4
"""Descriptors per layer: there may be hundreds of layers."""
_MOST_LINKS = 40


class StackEntry(NamedTuple):
    """An entry, and the directory of the topmost layer that has it."""

    parent: int
    status: os.stat_result
    is_layers: bool
    """True for an entry of a layer, which never changes; False for one of this machine's own."""


class LayerStack:
    """A directory in the view of several layers, topmost first, and the way back up.

    `beside` are top-level directories of this machine that lie below the layers' own of the same names.
    """

    def __init__(self, layers: Sequence[str], beside: Sequence[str] = ()) -> None:
        self._places: list[TreeCursor] = []
        self._beside = {name: _place(f"/{name}") for name in beside}
        try:
            self._places += [TreeCursor(layer, held=_HELD_DESCRIPTORS) for layer in layers]
        except BaseException:
            self._close()
            raise
        self._levels: list[list[TreeCursor]] = [self._uncovered(self._places)]
        self._begun: list[TreeCursor | None] = [None]
        """The machine's own directory that begins at each level, if any."""
        self._covers: list[TreeCursor | None] = [None]
        """The layer at each level whose entry, which is no directory, covers the layers below, if any."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        for place in (*self._places, *self._beside.values()):
            if place is not None:
                place.__exit__(None, None, None)

    @staticmethod
    def _uncovered(places: Sequence[TreeCursor]) -> list[TreeCursor]:
        """Return the places that show anything: an opaque place hides all below it."""
        shown = []
        for place in places:
            shown.append(place)
            if is_opaque(place.fd):
                break
        return shown

    def look(self, name: str) -> StackEntry | None:
        """Return the entry of this name here; None if there is none, or it was deleted."""
        for place in self._levels[-1]:
            status = status_of(name, place.fd)
            if status is not None:
                is_layers = all(place is not own for own in self._beside.values())
                return None if is_whiteout(status) else StackEntry(place.fd, status, is_layers)
        own = self._beside.get(name) if len(self._levels) == 1 else None
        return StackEntry(own.fd, os.fstat(own.fd), is_layers=False) if own else None

    def names(self) -> list[str]:
        """Return the names of all entries here."""
        names_seen: dict[str, None] = {}
        for place in self._levels[-1]:
            names_seen.update(dict.fromkeys(os.listdir(place.fd)))
        if len(self._levels) == 1:
            names_seen.update(dict.fromkeys(name for name, place in self._beside.items() if place))
        return [name for name in names_seen if self.look(name) is not None]

    def listed(self) -> set[str]:
        """Return the names that any layer has here, those of deleted entries included."""
        names = {name for place in self._levels[-1] for name in os.listdir(place.fd)}
        return names | self._beside.keys() if len(self._levels) == 1 else names

    def touched(self, count: int) -> tuple[set[str], bool]:
        """Return the names that the topmost layers have here, and whether these hide all names below.

        Names of deleted entries are among them.
        """
        topmost = {id(place) for place in self._places[:count]}
        here = [place for place in self._levels[-1] if id(place) in topmost]
        names = {name for place in here for name in os.listdir(place.fd)}
        is_covering = self._covers[-1] is not None and id(self._covers[-1]) in topmost
        return names, is_covering or any(is_opaque(place.fd) for place in here)

    def down(self, name: str) -> bool:
        """Enter a directory of this view; return False (and do not move) if there is none of that name."""
        layers: list[TreeCursor] = []
        covered = False
        cover: TreeCursor | None = None
        for place in self._levels[-1]:
            status = status_of(name, place.fd)
            if status is None:
                continue
            if not stat.S_ISDIR(status.st_mode) or not _enter(place, name):
                covered, cover = True, place
                break
            layers.append(place)
            if is_opaque(place.fd):
                covered = True
                break
        own = self._beside.get(name) if len(self._levels) == 1 and not covered else None
        if own:
            layers.append(own)
        if not layers:
            return False
        self._levels.append(layers)
        self._begun.append(own)
        self._covers.append(cover)
        return True

    def up(self) -> None:
        """Go back to the place where `down` was called."""
        begun = self._begun.pop()
        self._covers.pop()
        for place in self._levels.pop():
            if place is not begun:
                place.up()

    @property
    def fd(self) -> int:
        """Descriptor of the topmost layer's directory here; its attributes are those of the view's."""
        return self._levels[-1][0].fd

    def descend(self, names: Sequence[str]) -> int:
        """Go down as far as there are directories of these names; return the number of levels."""
        for depth, name in enumerate(names):
            entry = self.look(name)
            if entry is None or not stat.S_ISDIR(entry.status.st_mode) or not self.down(name):
                return depth
        return len(names)

    @property
    def depth(self) -> int:
        """Levels of this place below the top."""
        return len(self._levels) - 1


def status_of(name: str, parent: int) -> os.stat_result | None:
    """Return the status of this name in a directory; None if it does not exist."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _place(path: str) -> TreeCursor | None:
    try:
        return TreeCursor(path, held=_HELD_DESCRIPTORS)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return None


def _enter(place: TreeCursor, name: str) -> bool:
    try:
        return place.down(name)
    except PermissionError:
        # This machine's own: a directory closed to this user cannot be changed by its devboxes.
        return False


def real_path(stack: LayerStack, path: str) -> str:
    """Return the target of a path in a system, as far as its own links lead."""
    left = [part for part in path.split("/") if part not in ("", ".")]
    here: list[str] = []
    links = 0
    while left:
        name = left.pop(0)
        if name == "..":
            here = here[:-1]
            continue
        target = _link(stack, here, name) if links < _MOST_LINKS else None
        if target is None:
            here.append(name)
            continue
        links += 1
        here = [] if target.startswith("/") else here
        left = [*(part for part in target.split("/") if part not in ("", ".")), *left]
    return "/" + "/".join(here)


def _link(stack: LayerStack, folder: Sequence[str], name: str) -> str | None:
    """Return the target of the link of this name; None if it is not a link."""
    try:
        entry = stack.look(name) if stack.descend(folder) == len(folder) else None
        is_link = entry is not None and stat.S_ISLNK(entry.status.st_mode)
        return os.readlink(name, dir_fd=entry.parent) if entry is not None and is_link else None
    finally:
        while stack.depth:
            stack.up()
