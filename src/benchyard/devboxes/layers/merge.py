"""Merging of several layers into one that, over the same layers below, shows the same files.

Files are linked, not copied: a layer is never changed again, so layers may share files. Folders are made
anew. A mark of deletion is kept only if it can hide an entry below: in a folder that no layer below has,
overlayfs would list the mark itself.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from benchyard.devboxes.layers.trees import (
    DIRECTORY_FLAGS,
    OPAQUE,
    Copy,
    TreeCursor,
    copy_xattrs,
    is_opaque,
    is_whiteout,
    walk_tree,
)

MOST_ENTRIES = 2_000_000
"""Most entries of all layers together: merging more would take too long to be worth it."""

_NOT_LINKABLE = {errno.EMLINK, errno.EPERM, errno.EXDEV}


def merge_layers(
    layers: Sequence[str],
    below: Sequence[str],
    beside: Sequence[str],
    target: str,
    *,
    keep_owner: bool = True,
) -> None:
    """Merge layers (topmost first) into the new folder `target`.

    `below` are the layers that will lie under it, topmost first; `beside` are top-level directories of this
    machine that will lie under its directories of the same names. Raises ValueError for more than
    `MOST_ENTRIES`.
    """
    os.mkdir(target, 0o700)
    with TreeCursor(target) as place:
        merge = _Merge(place, os.path.abspath(target), keep_owner=keep_owner)
        for layer in layers:
            with TreeCursor(layer) as source:
                merge.fill(source)
        for layer in below:
            with TreeCursor(layer) as source:
                merge.look_below(source)
        with TreeCursor(layers[0]) as source:
            merge.finish(source)
    for name in beside:
        _look_beside(merge, target, name)
    with TreeCursor(target) as place:
        merge.settle(place)


def _look_beside(merge: "_Merge", target: str, name: str) -> None:
    try:
        place = TreeCursor(f"{target}/{name}")
    except (FileNotFoundError, NotADirectoryError):
        return
    with place, TreeCursor(f"/{name}") as source:
        merge.look_below(source, place)


class _Merge:
    """The folder being filled, and the state of its directories, by their inodes."""

    def __init__(self, target: TreeCursor, top: str, *, keep_owner: bool) -> None:
        self._target = target
        self._top = top
        self._keep_owner = keep_owner
        self._entries = 0
        self._directories: dict[int, os.stat_result] = {}
        self._closed: set[int] = set()
        """Directories that hide the remaining layers."""
        self._merged: set[int] = set()
        """Directories that lower layers have too."""

    def fill(self, source: TreeCursor) -> None:
        """Add the entries of a layer that the layers above it do not show or hide."""
        copy = Copy(source, self._target, self._top, keep_owner=self._keep_owner)

        def visit() -> list[str]:
            with os.scandir(source.fd) as entries:
                entries_seen = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
            self._entries += len(entries_seen)
            if self._entries > MOST_ENTRIES:
                raise ValueError(f"the layers have more than {MOST_ENTRIES} entries together")
            return [name for name, status in entries_seen if self._add(copy, source.fd, name, status)]

        def enter(name: str) -> bool:
            return source.down(name) and self._target.down(name)

        def leave(name: str) -> None:
            if is_opaque(source.fd):
                self._close(self._target.fd)
            source.up()
            self._target.up()

        walk_tree(visit, enter, leave)

    def _add(self, copy: Copy, source: int, name: str, status: os.stat_result) -> bool:
        """Add one entry unless its name exists; return whether it is a directory to enter."""
        there = _status(name, self._target.fd)
        if there is not None and not (stat.S_ISDIR(there.st_mode) and there.st_ino not in self._closed):
            return False
        if stat.S_ISDIR(status.st_mode):
            if there is None:
                self._make(source, name)
            return True
        if there is None:
            self._link(copy, source, name, status)
        else:
            with _opened(name, self._target.fd) as directory:
                self._close(directory)
        return False

    def _make(self, source: int, name: str) -> None:
        os.mkdir(name, 0o700, dir_fd=self._target.fd)
        with _opened(name, source) as original, _opened(name, self._target.fd) as folder:
            self._directories[os.fstat(folder).st_ino] = os.fstat(original)
            copy_xattrs(original, folder)

    def _link(self, copy: Copy, source: int, name: str, status: os.stat_result) -> None:
        try:
            os.link(name, name, src_dir_fd=source, dst_dir_fd=self._target.fd, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NOT_LINKABLE:
                raise
            copy.copy_entry(name, status)

    def _close(self, directory: int) -> None:
        os.setxattr(directory, OPAQUE, b"y")
        self._closed.add(os.fstat(directory).st_ino)

    def look_below(self, source: TreeCursor, target: TreeCursor | None = None) -> None:
        """Note the directories that a layer below has too, and those it hides from layers below itself."""
        place = target or self._target
        self._merged.add(os.fstat(place.fd).st_ino)

        def visit() -> list[str]:
            with os.scandir(place.fd) as entries:
                found = [
                    (entry.name, entry.inode()) for entry in entries if entry.is_dir(follow_symlinks=False)
                ]
            return [name for name, inode in found if self._shows(source.fd, name, inode)]

        def enter(name: str) -> bool:
            with _opened(name, place.fd) as directory:
                self._merged.add(os.fstat(directory).st_ino)
            try:
                return source.down(name) and place.down(name)
            except PermissionError:
                # This machine's own: a directory closed to this user cannot be changed by its devboxes.
                return False

        def leave(name: str) -> None:
            if is_opaque(source.fd):
                self._closed.add(os.fstat(place.fd).st_ino)
            source.up()
            place.up()

        walk_tree(visit, enter, leave)

    def _shows(self, source: int, name: str, inode: int) -> bool:
        status = None if inode in self._closed else _status(name, source)
        if status is None:
            return False
        if not stat.S_ISDIR(status.st_mode):
            self._closed.add(inode)
            return False
        return True

    def finish(self, source: TreeCursor) -> None:
        """Give the top folder the attributes of the topmost layer's that it may have."""
        Copy(source, self._target, self._top, keep_owner=False).finish()

    def settle(self, place: TreeCursor) -> None:
        """Drop marks that hide nothing, and give the filled directories their attributes."""

        def visit() -> list[str]:
            with os.scandir(place.fd) as entries:
                found = [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]
            if os.fstat(place.fd).st_ino not in self._merged:
                for name in [name for name, status in found if is_whiteout(status)]:
                    os.unlink(name, dir_fd=place.fd)
            return [name for name, status in found if stat.S_ISDIR(status.st_mode)]

        def leave(name: str) -> None:
            self._attributes(place.fd)
            place.up()

        walk_tree(visit, place.down, leave)

    def _attributes(self, directory: int) -> None:
        status = self._directories[os.fstat(directory).st_ino]
        if self._keep_owner:
            os.fchown(directory, status.st_uid, status.st_gid)
        os.fchmod(directory, stat.S_IMODE(status.st_mode))
        os.utime(directory, ns=(status.st_atime_ns, status.st_mtime_ns))


@contextmanager
def _opened(name: str, parent: int) -> Iterator[int]:
    directory = os.open(name, DIRECTORY_FLAGS, dir_fd=parent)
    try:
        yield directory
    finally:
        os.close(directory)


def _status(name: str, parent: int) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
