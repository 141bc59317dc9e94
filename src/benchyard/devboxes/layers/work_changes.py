"""Differences of one system from another: the work of a run from its start, read without mounting.

Both systems are stacks of layers that share all but their topmost ones, and only what these touch is looked
at. Names, links and contents are hostile: no link is followed, no device is opened, and entries, bytes and
time are bounded.
"""

import json
import os
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, NamedTuple

from benchyard.devboxes.layers.path_weight import is_of_system
from benchyard.devboxes.layers.stack import LayerStack, StackEntry
from benchyard.devboxes.layers.trees import create_file, walk_tree

LayeredSystem = tuple[Sequence[str], Sequence[str]]
"""Layers, topmost first, and the top-level directories of this machine below them."""

MOST_LISTED = 100_000
MOST_LOOKED = 400_000
"""Entries that are looked at in each of the two walks: through the work, and beside it."""
MOST_DIFFED = 1_000
"""Files to read for a diff."""
MOST_FILE_BYTES = 512 * 1024
"""Largest content, before or after, that is read for a diff."""
MOST_BYTES = 16 * 1024**2
_MOST_PATH = 4096
_SECONDS = 20.0
_PIECE = 1024**2
_REPOSITORY = "/.git/"
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
_DEVICES = (stat.S_IFCHR, stat.S_IFBLK)


class WorkEntry(NamedTuple):
    """A path that differs; the facts of a side without it are None."""

    path: str
    change: str
    """`added`, `modified` or `deleted`."""
    type_before: str | None
    type: str | None
    mode_before: int | None
    mode: int | None
    size_before: int | None
    size: int | None
    is_work: bool
    """False beside the work: outside of its folders, hidden in the home, or inside of a `.git`."""


@dataclass(frozen=True)
class WorkScope:
    """The part of a disk that is the work."""

    folders: tuple[str, ...]
    home: str | None = None
    """Home of the user; its hidden files do not count as work."""

    def has(self, path: str) -> bool:
        """Tell whether a path is part of the work."""
        if _REPOSITORY in f"{path}/":
            return False
        folders = self._folders_inside_home() if self._is_hidden(path) else self.folders
        return any(
            is_below(path, folder) and (is_of_system(folder) or not is_of_system(path)) for folder in folders
        )

    def _is_hidden(self, path: str) -> bool:
        if self.home is None or not is_below(path, self.home):
            return False
        return path.removeprefix(self.home.rstrip("/")).lstrip("/").startswith(".")

    def _folders_inside_home(self) -> list[str]:
        home = self.home or "/"
        return [folder for folder in self.folders if is_below(folder, home) and folder != home]


def is_below(path: str, folder: str) -> bool:
    """Tell whether a path is a folder or something in it."""
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")


def printable(path: str) -> str:
    """Return a path as it is shown: bytes that are not UTF-8 as `\\xff`."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def examine_work(final: LayeredSystem, start: LayeredSystem, wanted: Mapping[str, Any], report: str) -> None:
    """Write the differences of a system from its start, or one file of either, to a new file.

    The file has a line of facts in JSON, a line for each entry, and the contents in their order.
    """
    with os.fdopen(create_file(report, None), "wb") as file:
        if "read" in wanted:
            system = start if wanted["side"] == "before" else final
            with LayerStack(*system) as stack:
                _write_file(stack, wanted["read"], wanted["offset"], wanted["limit"], file)
            return
        with LayerStack(*final) as now, LayerStack(*start) as before:
            _write_changes((now, before), (final[0], start[0]), wanted, file)


@dataclass
class _Found:
    """The differences found so far."""

    entries: list[WorkEntry] = field(default_factory=list)
    total: int = 0
    beside: int = 0
    truncated: str | None = None
    """Reason why there may be more."""


def _write_changes(
    stacks: tuple[LayerStack, LayerStack],
    layers: tuple[Sequence[str], Sequence[str]],
    wanted: Mapping[str, Any],
    file: BinaryIO,
) -> None:
    scope = WorkScope(tuple(wanted["folders"]), wanted["home"])
    paths = tuple(wanted["paths"])
    shared = _shared(*layers)
    own = (len(layers[0]) - shared, len(layers[1]) - shared)
    found = _Found()
    inside = paths or scope.folders
    _Walk(stacks, own, scope, found, only=inside, lists_all=bool(paths) or wanted["all"]).run()
    if not paths:
        _Walk(stacks, own, scope, found, skip=inside, lists_all=wanted["all"]).run()
    found.entries.sort(key=lambda each: (each.path, each.change != "deleted"))
    contents = _contents(stacks, found.entries) if wanted["contents"] else {}
    facts = {"total": found.total, "beside": found.beside, "truncated": found.truncated}
    file.write(json.dumps({**facts, "entries": len(found.entries)}).encode() + b"\n")
    for at, entry in enumerate(found.entries):
        sizes = [None if each is None else len(each) for each in contents.get(at, (None, None))]
        file.write(json.dumps([*entry, *sizes]).encode() + b"\n")
    for pair in contents.values():
        file.writelines(each for each in pair if each is not None)


def _shared(final: Sequence[str], start: Sequence[str]) -> int:
    """Return the number of lowest layers that both systems have."""
    count = 0
    for one, other in zip(reversed(final), reversed(start), strict=False):
        if one != other:
            break
        count += 1
    return count


class _Walk:
    """A walk through two systems at once, to where their own layers have anything."""

    def __init__(
        self,
        stacks: tuple[LayerStack, LayerStack],
        own: tuple[int, int],
        scope: WorkScope,
        found: _Found,
        *,
        only: Sequence[str] | None = None,
        skip: Sequence[str] = (),
        lists_all: bool,
    ) -> None:
        self._stacks = stacks
        self._own = own
        self._scope = scope
        self._found = found
        self._only = only
        self._skip = skip
        self._lists_all = lists_all
        self._names: list[str] = []
        self._sides = [(True, True)]
        self._hides = [False]
        """True for folders of which an own layer hides what lies below, there or in a folder above."""
        self._looked = 0
        self._deadline = time.monotonic() + _SECONDS

    def run(self) -> None:
        """Walk, and add each difference."""
        walk_tree(self._visit, self._enter, self._leave)

    def _visit(self) -> list[str]:
        prefix = "/" + "".join(f"{name}/" for name in self._names)
        if len(prefix) > _MOST_PATH:
            return self._note_cut("paths are too long to be used")
        folders = []
        for name in sorted(self._candidates()):
            if not self._concerns(prefix + name):
                continue
            self._looked += 1
            if self._looked > MOST_LOOKED:
                return self._note_cut(f"more than {MOST_LOOKED} entries were changed")
            if time.monotonic() > self._deadline:
                return self._note_cut(f"it takes more than {_SECONDS:g} s to look at all")
            now, before = self._entries(name)
            self._judge(prefix + name, name, now, before)
            if _is_folder(now) or _is_folder(before):
                folders.append(name)
        return folders[::-1]

    def _note_cut(self, reason: str) -> list[str]:
        self._found.truncated = self._found.truncated or reason
        return []

    def _concerns(self, path: str) -> bool:
        if any(is_below(path, each) for each in self._skip):
            return False
        return self._only is None or any(is_below(path, each) or is_below(each, path) for each in self._only)

    def _candidates(self) -> set[str]:
        """Return the names that the own layers of either system touch here."""
        names: set[str] = set()
        is_hiding = self._hides[-1]
        for stack, count, is_here in zip(self._stacks, self._own, self._sides[-1], strict=True):
            if is_here:
                touched, hides = stack.touched(count)
                names |= touched
                is_hiding = is_hiding or hides
        self._hides[-1] = is_hiding
        if is_hiding or self._sides[-1] != (True, True):
            for stack, is_here in zip(self._stacks, self._sides[-1], strict=True):
                names.update(stack.listed() if is_here else ())
        return names

    def _entries(self, name: str) -> list[StackEntry | None]:
        sides = zip(self._stacks, self._sides[-1], strict=True)
        return [stack.look(name) if is_here else None for stack, is_here in sides]

    def _enter(self, name: str) -> bool:
        now, before = self._entries(name)
        ways = []
        for stack, entry in zip(self._stacks, (now, before), strict=True):
            ways.append(entry is not None and stat.S_ISDIR(entry.status.st_mode) and stack.down(name))
        if not any(ways):
            return False
        self._sides.append((ways[0], ways[1]))
        self._hides.append(self._hides[-1])
        self._names.append(name)
        return True

    def _leave(self, _name: str) -> None:
        self._hides.pop()
        for stack, is_here in zip(self._stacks, self._sides.pop(), strict=True):
            if is_here:
                stack.up()
        self._names.pop()

    def _judge(self, path: str, name: str, now: StackEntry | None, before: StackEntry | None) -> None:
        if now is None and before is None:
            return
        if now is not None and before is not None:
            if _type(now) == _type(before):
                if not self._is_same(name, now, before):
                    self._add(path, "modified", now, before)
                return
            self._add(path, "deleted", None, before)
            before = None
        self._add(path, "added" if now else "deleted", now, before)

    def _is_same(self, name: str, now: StackEntry, before: StackEntry) -> bool:
        one, other = now.status, before.status
        if (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino):
            return True
        if stat.S_IMODE(one.st_mode) != stat.S_IMODE(other.st_mode):
            return False
        if stat.S_ISREG(one.st_mode):
            return one.st_size == other.st_size and self._has_same_bytes(name, now, before)
        if stat.S_ISLNK(one.st_mode):
            return _target(name, now) == _target(name, before)
        return stat.S_ISDIR(one.st_mode) or one.st_rdev == other.st_rdev

    def _has_same_bytes(self, name: str, now: StackEntry, before: StackEntry) -> bool:
        with _opened(name, now) as one, _opened(name, before) as other:
            while True:
                piece = one.read(_PIECE)
                if piece != other.read(_PIECE):
                    return False
                if not piece:
                    return True
                if time.monotonic() > self._deadline:
                    # Not known to be the same.
                    return False

    def _add(self, path: str, change: str, now: StackEntry | None, before: StackEntry | None) -> None:
        is_work = self._scope.has(path)
        if path in self._scope.folders and change == "modified":
            is_work = False
        if not (is_work or self._lists_all):
            self._found.beside += 1
            return
        self._found.total += 1
        self._found.beside += not is_work
        if len(self._found.entries) >= MOST_LISTED:
            self._note_cut(f"more than {MOST_LISTED} paths differ")
            return
        facts = (_type(before), _type(now), _mode(before), _mode(now), _size(before), _size(now))
        self._found.entries.append(WorkEntry(path, change, *facts, is_work))


def _contents(
    stacks: tuple[LayerStack, LayerStack], entries: Sequence[WorkEntry]
) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Return before and after of files, in their order; None for a side that is absent or too large.

    Where they are too many, new files are left out first.
    """
    made: dict[int, tuple[bytes | None, bytes | None]] = {}
    left = MOST_BYTES
    for at, entry in sorted(enumerate(entries), key=lambda each: each[1].change == "added"):
        if not {entry.type, entry.type_before} & {"file", "link"}:
            continue
        size = (entry.size or 0) + (entry.size_before or 0)
        if len(made) >= MOST_DIFFED or size > left:
            break
        if max(entry.size or 0, entry.size_before or 0) > MOST_FILE_BYTES:
            continue
        now, before = stacks
        pair = (
            _read(before, entry.path) if entry.change != "added" else None,
            _read(now, entry.path) if entry.change != "deleted" else None,
        )
        left -= sum(len(each) for each in pair if each is not None)
        made[at] = pair
    return dict(sorted(made.items()))


def _read(stack: LayerStack, path: str) -> bytes | None:
    with _StackPath(stack, path) as target:
        entry = target.entry
        if entry is None or not entry.is_layers:
            # Content of this machine's own files is never shown.
            return None
        if stat.S_ISLNK(entry.status.st_mode):
            return os.fsencode(_target(target.name, entry))
        if not stat.S_ISREG(entry.status.st_mode):
            return None
        with _opened(target.name, entry) as file:
            content = file.read(MOST_FILE_BYTES + 1)
        return content if len(content) <= MOST_FILE_BYTES else None


def _write_file(stack: LayerStack, path: str, offset: int, limit: int, file: BinaryIO) -> None:
    with _StackPath(stack, path) as target:
        entry = target.entry
        facts: dict[str, Any] = {"type": _type(entry), "size": _size(entry), "is_machines": False}
        content = b""
        if entry is not None and not entry.is_layers:
            facts["is_machines"] = True
        elif entry is not None and stat.S_ISLNK(entry.status.st_mode):
            content = os.fsencode(_target(target.name, entry))[offset : offset + limit]
        elif entry is not None and stat.S_ISREG(entry.status.st_mode):
            with _opened(target.name, entry) as source:
                source.seek(offset)
                content = source.read(limit)
        file.write(json.dumps(facts).encode() + b"\n" + content)


class _StackPath:
    """A path in a stack, found by its real or its printable name; goes back up at the end."""

    def __init__(self, stack: LayerStack, path: str) -> None:
        self._stack = stack
        self._parts = [part for part in path.split("/") if part]
        self.name = ""
        self.entry: StackEntry | None = None

    def __enter__(self) -> "_StackPath":
        parents, last = self._parts[:-1], self._parts[-1:]
        for part in parents:
            name = self._real(part)
            entry = self._stack.look(name) if name is not None else None
            if name is None or not _is_folder(entry) or not self._stack.down(name):
                return self
        if last:
            self.name = self._real(last[0]) or ""
            self.entry = self._stack.look(self.name) if self.name else None
        return self

    def __exit__(self, *_: object) -> None:
        while self._stack.depth:
            self._stack.up()

    def _real(self, part: str) -> str | None:
        if part in (".", ".."):
            return None
        try:
            if len(os.fsencode(part)) <= 255 and self._stack.look(part) is not None:
                return part
        except (UnicodeEncodeError, ValueError):
            return None
        return next((name for name in self._names(part)), None)

    def _names(self, part: str) -> Iterator[str]:
        if "\\x" in part:
            yield from (name for name in self._stack.names() if printable(name) == part)


def _opened(name: str, entry: StackEntry) -> BinaryIO:
    descriptor = os.open(name, _READ, dir_fd=entry.parent)
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise OSError(f"{printable(name)!r} is no file any more")
    return file


def _target(name: str, entry: StackEntry) -> str:
    return os.readlink(name, dir_fd=entry.parent)


def _is_folder(entry: StackEntry | None) -> bool:
    return entry is not None and stat.S_ISDIR(entry.status.st_mode)


def _type(entry: StackEntry | None) -> str | None:
    if entry is None:
        return None
    kind = stat.S_IFMT(entry.status.st_mode)
    return _TYPES.get(kind) or ("device" if kind in _DEVICES else "other")


def _mode(entry: StackEntry | None) -> int | None:
    return None if entry is None else stat.S_IMODE(entry.status.st_mode)


def _size(entry: StackEntry | None) -> int | None:
    if entry is None:
        return None
    return 0 if stat.S_ISDIR(entry.status.st_mode) else entry.status.st_size
