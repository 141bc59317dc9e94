"""Changes of a disk since it was marked, found by facts that cannot be forged inside: inodes and ctimes.

A mark lists every entry of the changed layer, one line each. To compare, the layer is walked again beside the
layers below it. Names are hostile; paths that are too long to be used are not entered.
"""

import json
import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import IO, Any, NamedTuple

from benchyard.devboxes.layers import report_lines, trees
from benchyard.devboxes.layers.path_weight import LIGHTEST, PLAIN, is_needed, weight
from benchyard.devboxes.layers.stack import LayerStack, real_path, status_of
from benchyard.devboxes.layers.trees import TreeCursor, create_file, is_opaque, is_whiteout, walk_tree

CHANGES = "changes"
"""Key of the list in a report."""
OUTSIDE = ".outside"
"""Ending of the name of a second report, of what lies outside of the work."""
MOST_MARKED = 200_000
MOST_LISTED = 10_000
MOST_OF_WORK = 500
"""Most plain files and folders counted in new folders: the work, which scorers open anyway."""
_MOST_MARK_BYTES = 64 * 1024 * 1024
_MOST_LISTED_CHARACTERS = 4 * 1024 * 1024
_MOST_PATH = 4096
_TICK_SECONDS = 0.01
"""Longer than a tick of the kernel's clock for ctimes."""


_USABLE = 0o555
"""Permission bits that let somebody read or run a file, or enter a folder."""
_ACCESS_LIST = "system.posix_acl_access"
_MADE_BY_THE_KERNEL = ("/dev", "/proc", "/sys")

Listed = tuple[str, str, str, int, int, bool]
"""A changed path: its printable form, kind of change, type, permission bits, size, and whether it is lost."""


class MarkedEntry(NamedTuple):
    """The facts noted about one entry."""

    inode: int
    ctime_ns: int
    mode: int
    uid: int
    gid: int
    is_opaque: bool = False
    is_whiteout: bool = False


def _entry(name: str, parent: int, status: os.stat_result) -> MarkedEntry:
    is_folder = stat.S_ISDIR(status.st_mode)
    return MarkedEntry(
        status.st_ino,
        status.st_ctime_ns,
        status.st_mode,
        status.st_uid,
        status.st_gid,
        is_folder and _is_opaque(name, parent),
        is_whiteout(status),
    )


def _is_opaque(name: str, parent: int) -> bool:
    directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        return is_opaque(directory)
    finally:
        os.close(directory)


def note_tree(path: str, manifest: str) -> bool:
    """Write a mark of the tree to a new file that replaces an older one; tell whether it is complete."""
    began = time.time_ns()
    partial = f"{manifest}.partial"
    if os.path.lexists(partial):
        os.unlink(partial)
    with TreeCursor(path) as place, os.fdopen(create_file(partial, None), "w") as file:
        mark = _Mark(place, file)
        walk_tree(mark.visit, place.down, lambda _name: place.up())
        file.write(json.dumps({"whole": mark.whole, "began_ns": began}))
    os.rename(partial, manifest)
    # Later changes then have another ctime than changes made just before.
    time.sleep(_TICK_SECONDS)
    return mark.whole


class _Mark:
    """A walk that writes a mark."""

    def __init__(self, place: TreeCursor, file: IO[str]) -> None:
        self.whole = True
        self._place = place
        self._file = file
        self._entries = self._bytes = 0

    def visit(self) -> list[str]:
        prefix = _prefix(self._place)
        if len(prefix) > _MOST_PATH:
            self.whole = False
            return []
        directories = []
        for name in os.listdir(self._place.fd):
            status = status_of(name, self._place.fd)
            if status is None:
                continue
            line = json.dumps([prefix + name, *_entry(name, self._place.fd, status)]) + "\n"
            self._entries += 1
            self._bytes += len(line)
            if self._entries > MOST_MARKED or self._bytes > _MOST_MARK_BYTES:
                self.whole = False
                return []
            self._file.write(line)
            if stat.S_ISDIR(status.st_mode):
                directories.append(name)
        return directories


def _prefix(place: TreeCursor) -> str:
    """Return the path of a place, ready for a name."""
    return "/" + "".join(f"{name}/" for name in place.names)


def _read_mark(manifest: str) -> tuple[dict[str, MarkedEntry], bool, int]:
    noted: dict[str, MarkedEntry] = {}
    facts: dict[str, Any] = {"whole": False, "began_ns": 0}
    with open(manifest, encoding="ascii") as file:
        for line in file:
            found = json.loads(line)
            if isinstance(found, dict):
                facts = found
            else:
                noted[found[0]] = MarkedEntry(*found[1:])
    return noted, facts["whole"], facts["began_ns"]


def compare_tree(
    path: str,
    manifest: str,
    below: tuple[Sequence[str], Sequence[str]],
    report: str,
    aside: Sequence[str],
    counted: Sequence[str] = (),
) -> None:
    """Write the differences since the mark to a new file, as JSON.

    `below` are the layers under the tree and the top-level directories of this machine under those; content
    of the folders `aside` is neither listed nor counted. In new folders of those that are `counted`, fewer
    plain files are listed, and if there are many, not every file is looked at; the total is reported. If not
    all can be listed, a file named `report` and `OUTSIDE` gets the differences without the `counted` folders.
    Unless something was left aside, `used` reports the bytes on disk of all entries that were looked at, the
    number of entries of the tree, and of those looked at.
    """
    found = [_compared(path, manifest, below, aside, counted)]
    if counted and found[0].is_truncated:
        found.append(_compared(path, manifest, below, [*aside, *counted], ()))
    for comparison, ending in zip(found, ("", OUTSIDE), strict=False):
        with os.fdopen(create_file(f"{report}{ending}", None), "w") as file:
            report_lines.write(file, comparison.facts(), CHANGES, comparison.changes())


def _compared(
    path: str,
    manifest: str,
    below: tuple[Sequence[str], Sequence[str]],
    aside: Sequence[str],
    counted: Sequence[str],
) -> "_Comparison":
    layers, beside = below
    with TreeCursor(path) as place, LayerStack(*below) as stack, ExitStack() as later:

        def whole_disk() -> LayerStack:
            return later.enter_context(LayerStack((path, *layers), beside))

        comparison = _Comparison(place, (stack, whole_disk), manifest, aside, counted)
        walk_tree(comparison.visit, comparison.enter, comparison.leave)
        comparison.add_vanished()
        comparison.add_stirred()
    return comparison


class _Comparison:
    """A walk through the changed layer, and through the layers below it as far as they have its folders."""

    def __init__(
        self,
        place: TreeCursor,
        stacks: tuple[LayerStack, Callable[[], LayerStack]],
        manifest: str,
        aside: Sequence[str],
        counted: Sequence[str],
    ) -> None:
        self._place = place
        self._stack, self._open_whole_disk = stacks
        self._counted = tuple(f"{path.rstrip('/')}/" for path in counted)
        self._aside = frozenset(path.rstrip("/") for path in aside)
        self._noted, self._whole, self._began = _read_mark(manifest)
        self._adrift = 0
        """Levels between this place and the nearest folder above that the layers below have too."""
        self._unnoted: set[str] = set()
        """Folders of this place that are not in the mark."""
        self._fresh = 0
        """Levels between this place and the nearest folder above that is in the mark."""
        self._listed: list[list[Listed]] = [[] for _ in range(LIGHTEST + 1)]
        """Changes by weight: if there are too many, the lightest are left out."""
        self._characters = self._total = self._count = 0
        self._looked = self._of_work = 0
        """Entries of counted new folders that were looked at, and plain ones that were listed."""
        self.is_truncated = False
        self._blocks = trees.BlockSum()
        self._entries = 0
        """Entries of all places; those that were looked at are in the sum of blocks too."""
        self._is_measured = True
        """False if some places were not entered, so that their entries are not known."""
        self._stirred: dict[str, tuple[int, os.stat_result]] = {}
        """Folders of a system that nothing explains so far: something was there for a while, and went."""

    def visit(self) -> list[str]:
        prefix = _prefix(self._place)
        if len(prefix) > _MOST_PATH:
            self.is_truncated, self._is_measured = True, False
            return []
        if self._is_new() and prefix.startswith(self._counted):
            return self._visit_counted(prefix)
        directories = []
        for name in sorted(os.listdir(self._place.fd)):
            trees.check_stop()
            status = status_of(name, self._place.fd)
            if status is None:
                continue
            self._entries += 1
            self._blocks.add(status)
            path = prefix + name
            before = self._noted.pop(path, None)
            if before is None:
                self._stirred.pop(prefix.rstrip("/"), None)
            if path in self._aside:
                self._is_measured = False
                self._forget_below(path)
                continue
            now = _entry(name, self._place.fd, status)
            self._judge(path, before, now, status)
            if stat.S_ISDIR(status.st_mode):
                directories.append(name)
                if before is None:
                    self._unnoted.add(path)
        return directories

    def _is_new(self) -> bool:
        """Tell whether no entry of this place existed when the mark was made, or lies in the layers below."""
        return bool(self._fresh and self._adrift and self._whole)

    def _visit_counted(self, prefix: str) -> list[str]:
        """Look at the entries of a new folder as long as there is room, and count the others."""
        with os.scandir(self._place.fd) as found:
            entries = list(found)
        self._entries += len(entries)
        if self._looked < MOST_LISTED:
            entries.sort(key=lambda each: each.name)
        room = max(0, MOST_LISTED - self._looked)
        wanted = entries[:room]
        directories = []
        for at, each in enumerate(entries):
            if each.is_file(follow_symlinks=False):
                continue
            if each.is_dir(follow_symlinks=False):
                directories.append(each.name)
            elif at >= room:
                # Looked at even where there is no room for files and folders any more.
                wanted.append(each)
        unseen = len(entries)
        for each in wanted:
            if self._count < MOST_LISTED and self._look_at_new(prefix, each.name):
                unseen -= 1
        self._total += unseen
        self.is_truncated = self.is_truncated or unseen > 0
        return directories

    def _look_at_new(self, prefix: str, name: str) -> bool:
        """List an entry of a new folder; return False if there is no room for more of its sort."""
        trees.check_stop()
        self._looked += 1
        status = status_of(name, self._place.fd)
        if status is None:
            self._entries -= 1
            return True
        self._blocks.add(status)
        path, mode = prefix + name, status.st_mode
        if weight(path, "added", _type(mode), stat.S_IMODE(mode)) >= PLAIN:
            if self._of_work >= MOST_OF_WORK:
                return False
            self._of_work += 1
        # Nothing was here before, and nothing of this name lies below.
        if is_whiteout(status):
            self._add(path, "deleted", 0, None)
        else:
            self._add(path, "added", mode, status)
        return True

    def _forget_below(self, folder: str) -> None:
        for path in [path for path in self._noted if path.startswith(f"{folder}/")]:
            del self._noted[path]

    def enter(self, name: str) -> bool:
        path = _prefix(self._place) + name
        if not self._place.down(name):
            return False
        if self._adrift or not self._stack.down(name):
            self._adrift += 1
        if self._fresh or path in self._unnoted:
            self._fresh += 1
        self._unnoted.discard(path)
        return True

    def leave(self, _name: str) -> None:
        self._place.up()
        self._fresh = max(0, self._fresh - 1)
        if self._adrift:
            self._adrift -= 1
        else:
            self._stack.up()

    def _below(self, name: str) -> os.stat_result | None:
        found = None if self._adrift else self._stack.look(name)
        return found.status if found else None

    def _judge(self, path: str, before: MarkedEntry | None, now: MarkedEntry, status: os.stat_result) -> None:
        if before is None and not self._whole and now.ctime_ns < self._began:
            # It existed, but was not noted.
            return
        name = path.rpartition("/")[2]
        if now.is_whiteout:
            if before is None or not before.is_whiteout:
                lower = self._below(name)
                mode = lower.st_mode if lower else before.mode if before else 0
                self._add(path, "deleted", mode, lower, lost=True)
            return
        is_folder = stat.S_ISDIR(now.mode)
        lower = self._below(name)
        kind = (_folder_kind if is_folder else _kind)(before, now, lower)
        if kind is None and is_folder and (before is None or before.ctime_ns != now.ctime_ns):
            kind = "modified" if self._has_access_list(name) else None
        if kind:
            existed = before.mode if before else lower.st_mode if lower else None
            is_lost = existed is not None and is_needed(path) and self._is_lost(path, existed, now.mode)
            self._add(path, kind, now.mode, status, lost=is_lost)
        elif is_folder and (before is None or before.ctime_ns != now.ctime_ns) and is_needed(path):
            self._stirred[path] = now.mode, status
        if now.is_opaque and kind == "modified":
            self._add_hidden(path, name)

    def _is_lost(self, path: str, before: int, now: int) -> bool:
        """Tell whether programs that could use a path cannot any more; `before` and `now` are its modes."""
        if stat.S_ISLNK(now):
            return not self._leads(path)
        if stat.S_IFMT(before) != stat.S_IFMT(now):
            return not (stat.S_ISLNK(before) and stat.S_ISREG(now))
        # Rights by name can take away what the bits allow, and the bits do not show them.
        return bool(before & ~now & _USABLE) or self._has_access_list(path.rpartition("/")[2])

    @cached_property
    def _whole_disk(self) -> LayerStack:
        """The tree and the layers below it, opened for the first link that is followed."""
        return self._open_whole_disk()

    def _leads(self, link: str) -> bool:
        """Tell whether a link leads to anything."""
        target = real_path(self._whole_disk, link)
        if f"{target}/".startswith(tuple(f"{each}/" for each in _MADE_BY_THE_KERNEL)):
            return True
        *folder, name = target.split("/")[1:]
        whole = self._whole_disk
        try:
            found = whole.look(name) if name and whole.descend(folder) == len(folder) else None
            return not name or (found is not None and not stat.S_ISLNK(found.status.st_mode))
        finally:
            while whole.depth:
                whole.up()

    def _has_access_list(self, name: str) -> bool:
        place = f"/proc/self/fd/{self._place.fd}/{name}"
        try:
            return bool(os.getxattr(place, _ACCESS_LIST, follow_symlinks=False))
        except OSError:
            return False

    def _add_hidden(self, folder: str, name: str) -> None:
        """Add what a folder had in the layers below, if a new folder has taken its place."""
        if self._adrift or not self._stack.down(name):
            return
        try:
            found = [(each, self._stack.look(each)) for each in self._stack.names()]
        finally:
            self._stack.up()
        inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._place.fd)
        try:
            for each, entry in found:
                trees.check_stop()
                path = f"{folder}/{each}"
                if entry and path not in self._noted and status_of(each, inside) is None:
                    self._add(path, "deleted", entry.status.st_mode, entry.status, lost=True)
        finally:
            os.close(inside)

    def add_vanished(self) -> None:
        """Add noted entries that are gone, unless their folder is gone too."""
        for path, entry in self._noted.items():
            is_aside = any(path.startswith(f"{folder}/") for folder in self._aside)
            if path.rpartition("/")[0] not in self._noted and not entry.is_whiteout and not is_aside:
                self._add(path, "deleted", entry.mode, None, lost=True)

    def add_stirred(self) -> None:
        """Add folders of a system in which something was for a while; the others are explained by changes."""
        for path, (mode, status) in list(self._stirred.items()):
            self._add(path, "modified", mode, status)

    def _add(
        self, path: str, kind: str, mode: int, status: os.stat_result | None, *, lost: bool = False
    ) -> None:
        self._total += 1
        self._stirred.pop(path.rpartition("/")[0], None)
        shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        size = status.st_size if status and not stat.S_ISDIR(mode) else 0
        found = (shown, kind, _type(mode), stat.S_IMODE(mode), size, lost)
        self._listed[weight(*found[:4])].append(found)
        self._count += 1
        self._characters += len(shown)
        while self._count > MOST_LISTED or self._characters > _MOST_LISTED_CHARACTERS:
            self.is_truncated = True
            left_out = next(each for each in reversed(self._listed) if each).pop()
            self._count -= 1
            self._characters -= len(left_out[0])

    def changes(self) -> list[Any]:
        """Return the differences, in order."""
        return sorted(each for listed in self._listed for each in listed)

    def facts(self) -> dict[str, Any]:
        """Return the other content of the report."""
        found: dict[str, Any] = {"total": self._total, "truncated": self.is_truncated, "exact": self._whole}
        if self._is_measured:
            found["used"] = [self._blocks.bytes, self._entries, self._blocks.entries]
        return found


def _kind(before: MarkedEntry | None, now: MarkedEntry, lower: os.stat_result | None) -> str | None:
    if before is None:
        return "modified" if lower else "added"
    if before.is_whiteout:
        return "added"
    is_same = before[:2] == now[:2] and stat.S_IFMT(before.mode) == stat.S_IFMT(now.mode)
    return None if is_same else "modified"


def _folder_kind(before: MarkedEntry | None, now: MarkedEntry, lower: os.stat_result | None) -> str | None:
    """Return the kind of change of a folder, without changes in it or its copying up for them."""
    if before is None:
        if lower is None:
            return "added"
        is_same = (lower.st_mode, lower.st_uid, lower.st_gid) == (now.mode, now.uid, now.gid)
        return None if is_same and not now.is_opaque else "modified"
    if before.is_whiteout:
        return "added"
    is_same = before.inode == now.inode and before[2:] == now[2:]
    return None if is_same else "modified"


_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
_DEVICES = (stat.S_IFCHR, stat.S_IFBLK)


def _type(mode: int) -> str:
    kind = stat.S_IFMT(mode)
    return _TYPES.get(kind) or ("device" if kind in _DEVICES else "other")
