"""Layers that carry only an answer, or the work, from one system over to another.

Both systems are stacks of layers. The content at each of the paths in the second is replaced by the content
there in the first, or removed if there is none. Everything in the first is hostile: only plain files,
folders, and links that stay among the paths are carried; the rest is left out, and listed by name.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchyard.devboxes.layers import report_lines
from benchyard.devboxes.layers.stack import LayerStack, StackEntry, real_path, status_of
from benchyard.devboxes.layers.trees import (
    OPAQUE,
    TreeCursor,
    copy_content,
    create_file,
    make_whiteout,
    set_xattr,
    xattr_names,
)

MOST_ANSWER_BYTES = 1024**3
MOST_ANSWER_ENTRIES = 100_000
REFUSED = "refused"
"""Key of the list in a report."""
REPORT = ".report"
"""Ending of a report's name, which otherwise equals that of its layer."""
_MOST_REFUSED = 1000
_MOST_PATH = 4096
_NOT_LINKABLE = {errno.EMLINK, errno.EPERM, errno.EXDEV}
_RIGHTS = stat.S_ISUID | stat.S_ISGID


@dataclass(frozen=True)
class CarryRules:
    """Rules for the content to carry, and limits on it."""

    only_inner_links: bool
    """Leave out links that may lead elsewhere."""
    drops_rights: bool
    """Carry files that give rights without these rights; else leave the files out."""
    most_entries: int
    most_bytes: int


LayeredSystem = tuple[Sequence[str], Sequence[str]]
"""Layers, topmost first, and the top-level directories of this machine below them."""


class LimitReached(Exception):
    """More content than may be carried."""


def carry_paths(
    source: LayeredSystem, onto: LayeredSystem, paths: Sequence[str], target: str, *, keep_owner: bool = True
) -> None:
    """Fill the new folder `target` with the layer, and write a report to a new file beside it."""
    os.mkdir(target, 0o755)
    with LayerStack(*source) as first, LayerStack(*onto) as second, TreeCursor(target) as place:
        rules = CarryRules(
            only_inner_links=True,
            drops_rights=False,
            most_entries=MOST_ANSWER_ENTRIES,
            most_bytes=MOST_ANSWER_BYTES,
        )
        carrier = Carrier((first, second), place, paths, rules, keep_owner=keep_owner)
        try:
            for path in paths:
                carrier.carry(path, machine=(*source[1], *onto[1]))
            carrier.finish()
            exceeded = None
        except LimitReached as error:
            exceeded = str(error)
    write_report(target, {**carrier.result(), "exceeded": exceeded, "paths": [*paths], "home": None})


def write_report(target: str, told: dict[str, Any]) -> None:
    """Write the report of carried content to a new file beside the layer."""
    with os.fdopen(create_file(f"{target}{REPORT}", None), "w") as file:
        facts = {name: value for name, value in told.items() if name != REFUSED}
        report_lines.write(file, facts, REFUSED, told[REFUSED])


def stays_inside(link: str, leads_to: str, paths: Sequence[str]) -> bool:
    """Tell whether a link at the path `link`, with no links on the way to it, can lead only to `paths`.

    A `..` is resolved only before any name: after a name it may undo the effect of a link.
    """
    here = [] if leads_to.startswith("/") else link.split("/")[1:-1]
    names = [part for part in leads_to.split("/") if part not in ("", ".")]
    while names and names[0] == "..":
        names.pop(0)
        here = here[:-1]
    if ".." in names:
        return False
    place = "/" + "/".join([*here, *names])
    return any(f"{place}/".startswith(f"{path}/") for path in paths)


class Carrier:
    """The layer being made, and its size so far."""

    def __init__(
        self,
        stacks: tuple[LayerStack, LayerStack],
        target: TreeCursor,
        paths: Sequence[str],
        rules: CarryRules,
        *,
        keep_owner: bool,
    ) -> None:
        self._source, self._onto = stacks
        self._target = target
        self._paths = paths
        self._rules = rules
        self._keep_owner = keep_owner
        self._entries = self._bytes = self._on_disk = self._left_out = 0
        self._refused: list[str] = []

    def carry(self, path: str, machine: Sequence[str]) -> None:
        """Carry one path, or its absence."""
        *parents, name = path.split("/")[1:]
        if not parents and name in machine:
            self.refuse(path, "it is this machine's own, not the devbox's")
            return
        for stack in (self._source, self._onto):
            stack.descend(parents)
        try:
            if reason := self._blocked(parents):
                self.refuse(path, reason)
                return
            entry = self._source.look(name) if self._source.depth == len(parents) else None
            there = self._onto.look(name) if self._onto.depth == len(parents) else None
            if entry or there:
                self._make_way(parents)
                if not (entry and self._add(path, name, entry)):
                    self._hide(name, there)
                elif stat.S_ISDIR(entry.status.st_mode):
                    self._close(name)
        finally:
            self._go_back(parents)

    def _blocked(self, parents: list[str]) -> str | None:
        """Return the reason if the way to a path differs between systems: a link is on it; else None."""
        for stack in (self._source, self._onto):
            entry = stack.look(parents[stack.depth]) if stack.depth < len(parents) else None
            if entry and stat.S_ISLNK(entry.status.st_mode):
                return f"/{'/'.join(parents[: stack.depth + 1])} on the way to it is a link"
        return None

    def _make_way(self, parents: list[str]) -> None:
        for name in parents:
            if status_of(name, self._target.fd) is None:
                os.mkdir(name, 0o700, dir_fd=self._target.fd)
            self._target.down(name)

    def _go_back(self, parents: list[str]) -> None:
        """Leave the folders on the way as they are in the target system, if they exist there."""
        for depth in range(len(parents), 0, -1):
            is_made = len(self._target.names) == depth
            for stack in (self._onto, self._source):
                if stack.depth == depth:
                    if is_made:
                        self._attributes(stack.fd, self._target.fd, os.fstat(stack.fd))
                        is_made = False
                    stack.up()
            if len(self._target.names) == depth:
                self._target.up()

    def _hide(self, name: str, there: StackEntry | None) -> None:
        if there is not None:
            make_whiteout(name, self._target.fd)

    def _close(self, name: str) -> None:
        """Mark a folder so that nothing of the layers below shows in it."""
        directory = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._target.fd)
        try:
            os.setxattr(directory, OPAQUE, b"y")
        finally:
            os.close(directory)

    def _add(self, path: str, name: str, found: StackEntry) -> bool:
        """Add one entry with everything in it; return False if it is left out."""
        if reason := self._unwanted(path, name, found):
            self.refuse(path, reason)
            return False
        if stat.S_ISDIR(found.status.st_mode):
            self._count(found.status)
            self._add_folder(path, name)
        elif stat.S_ISLNK(found.status.st_mode):
            self._count(found.status)
            os.symlink(os.readlink(name, dir_fd=found.parent), name, dir_fd=self._target.fd)
            self._settle_link(name, found.status)
        else:
            self._add_file(path, name, found)
        return True

    def _unwanted(self, path: str, name: str, found: StackEntry) -> str | None:
        mode = found.status.st_mode
        if len(path) > _MOST_PATH:
            return "its path is too long"
        if stat.S_ISLNK(mode):
            leads_to = os.readlink(name, dir_fd=found.parent)
            if self._rules.only_inner_links and not stays_inside(path, leads_to, self._paths):
                return f"it is a link that leads elsewhere, to {leads_to[:200]}"
        elif stat.S_ISREG(mode):
            if mode & _RIGHTS and not self._rules.drops_rights:
                return "it is a setuid or setgid program"
        elif not stat.S_ISDIR(mode):
            return "it is neither a file nor a folder nor a link"
        return None

    def _add_folder(self, path: str, name: str) -> None:
        """Walk the folder in both places together, without recursion: it may be of any depth."""
        self._enter(name)
        way = [(path, sorted(self._source.names()))]
        while way:
            here, names = way[-1]
            if not names:
                way.pop()
                self._leave()
                continue
            inner = names.pop()
            below = f"{here}/{inner}"
            entry = self._source.look(inner)
            if entry is None:
                continue
            if not stat.S_ISDIR(entry.status.st_mode):
                self._add(below, inner, entry)
            elif reason := self._unwanted(below, inner, entry):
                self.refuse(below, reason)
            else:
                self._count(entry.status)
                self._enter(inner)
                way.append((below, sorted(self._source.names())))

    def _enter(self, name: str) -> None:
        os.mkdir(name, 0o700, dir_fd=self._target.fd)
        if not (self._target.down(name) and self._source.down(name)):
            raise OSError(errno.EXDEV, "a folder to carry cannot be entered", name)

    def _leave(self) -> None:
        self._attributes(self._source.fd, self._target.fd, os.fstat(self._source.fd))
        self._source.up()
        self._target.up()

    def _add_file(self, path: str, name: str, found: StackEntry) -> None:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            file = os.open(name, flags, dir_fd=found.parent)
        except PermissionError:
            self.refuse(path, "it cannot be read")
            return
        try:
            names = xattr_names(file)
            if "security.capability" in names and not self._rules.drops_rights:
                self.refuse(path, "it is a program with capabilities")
                return
            self._count(found.status)
            gives_rights = "security.capability" in names or bool(found.status.st_mode & _RIGHTS)
            if gives_rights:
                self.refuse(path, "it is a program with rights of its own: it is carried without them")
            is_plain = not gives_rights and all(
                each.startswith("user.") and not each.startswith("user.overlay.") for each in names
            )
            if not (is_plain and found.is_layers and self._share(name, found.parent)):
                self._copy_file(file, name, found.status)
        finally:
            os.close(file)

    def _share(self, name: str, parent: int) -> bool:
        """Link the name to the layer's own file, which never changes; False if that is not possible."""
        try:
            os.link(name, name, src_dir_fd=parent, dst_dir_fd=self._target.fd, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NOT_LINKABLE:
                raise
            return False
        return True

    def _copy_file(self, file: int, name: str, status: os.stat_result) -> None:
        copy = create_file(name, self._target.fd)
        try:
            copy_content(file, copy, status)
            self._attributes(file, copy, status)
        finally:
            os.close(copy)

    def _attributes(
        self, source: int, target: int, status: os.stat_result, *, keep_owner: bool = True
    ) -> None:
        """Copy owner, the user's own attributes, mode and times."""
        if self._keep_owner and keep_owner:
            os.fchown(target, status.st_uid, status.st_gid)
        for name in xattr_names(source):
            if name.startswith("user.") and not name.startswith("user.overlay."):
                set_xattr(target, name, os.getxattr(source, name))
        rights = _RIGHTS if stat.S_ISREG(status.st_mode) else 0
        os.fchmod(target, stat.S_IMODE(status.st_mode) & ~rights)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))

    def _settle_link(self, name: str, status: os.stat_result) -> None:
        if self._keep_owner:
            os.chown(name, status.st_uid, status.st_gid, dir_fd=self._target.fd, follow_symlinks=False)
        times = (status.st_atime_ns, status.st_mtime_ns)
        os.utime(name, ns=times, dir_fd=self._target.fd, follow_symlinks=False)

    def _count(self, status: os.stat_result) -> None:
        self._entries += 1
        if stat.S_ISREG(status.st_mode):
            self._bytes += status.st_size
            self._on_disk += status.st_blocks * 512
        most_entries, most_bytes = self._rules.most_entries, self._rules.most_bytes
        if self._entries > most_entries:
            raise LimitReached(f"the answer has more than {most_entries} files, folders and links")
        if max(self._bytes, self._on_disk) > most_bytes:
            raise LimitReached(f"the answer's files have more than {most_bytes} bytes together")

    def refuse(self, path: str, reason: str) -> None:
        """List an entry that is not carried, or not unchanged."""
        self._left_out += 1
        if len(self._refused) < _MOST_REFUSED:
            text = f"{path[:1000]}: {reason}"
            self._refused.append(text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace"))

    def finish(self) -> None:
        """Give the layer's top folder the attributes of that of the target system."""
        status = os.fstat(self._onto.fd)
        self._attributes(self._onto.fd, self._target.fd, status, keep_owner=False)
        os.fchmod(self._target.fd, stat.S_IMODE(status.st_mode) | 0o700)

    def result(self) -> dict[str, Any]:
        """Return the content of the report."""
        more = self._left_out - len(self._refused)
        refused = [*self._refused, *([f"and {more} more"] if more else [])]
        return {"entries": self._entries, "bytes": self._bytes, REFUSED: refused}


MOST_WORK_ENTRIES = 1_000_000
MOST_WORK_BYTES = 1024**4
"""Files are shared with the disk of the work, which has a separate limit on its size."""


def carry_work(
    source: LayeredSystem,
    onto: LayeredSystem,
    paths: Sequence[str],
    home: str | None,
    target: str,
    *,
    keep_owner: bool = True,
) -> None:
    """Fill the new folder `target` with the layer, and write a report to a new file beside it."""
    os.mkdir(target, 0o755)
    rules = CarryRules(
        only_inner_links=False, drops_rights=True, most_entries=MOST_WORK_ENTRIES, most_bytes=MOST_WORK_BYTES
    )
    with LayerStack(*source) as first, LayerStack(*onto) as second, TreeCursor(target) as place:
        real_home = real_path(second, home) if home else None
        resolved = {real_path(second, path) for path in paths}
        carrier = Carrier((first, second), place, sorted(resolved), rules, keep_owner=keep_owner)
        exceeded = None
        if "/" in resolved:
            resolved.remove("/")
            carrier.refuse("/", "the working directory leads to the whole file system")
        try:
            hidden: set[str] = set()
            for path in _outermost(_parts((first, second), resolved, real_home, hidden)):
                carrier.carry(path, machine=(*source[1], *onto[1]))
            for path in sorted(hidden):
                carrier.refuse(path, "programs read it of a home by themselves: it is as it was at the start")
            carrier.finish()
        except LimitReached as error:
            exceeded = str(error)
    report = {**carrier.result(), "exceeded": exceeded, "paths": sorted(resolved), "home": real_home}
    write_report(target, report)


def _parts(
    stacks: tuple[LayerStack, LayerStack], paths: set[str], home: str | None, hidden: set[str]
) -> Iterator[str]:
    """Yield the paths to carry whole, so that no hidden entry of the home is among them unless it is named.

    Hidden entries in the home of the work are added to `hidden`.
    """
    for path in paths if home is None else {*paths, home}:
        if home is None or not f"{home}/".startswith(f"{path}/"):
            yield path
            continue
        # The home lies here: carry all that lies beside the way to it, and its visible entries.
        here = path
        while here != home:
            following = home.removeprefix(f"{here}/").partition("/")[0]
            for name in _names(stacks, here):
                if name != following:
                    yield f"{here}/{name}"
            here = f"{here}/{following}"
        for name in _names(stacks, home):
            if not name.startswith("."):
                yield f"{home}/{name}"
    if home is not None:
        named = tuple(f"{path}/" for path in paths)
        own = (f"{home}/{name}" for name in _names(stacks[:1], home) if name.startswith("."))
        begun = _names(stacks[1:], home)
        hidden.update(
            path
            for path in own
            if path.rpartition("/")[2] not in begun and not any(each.startswith(f"{path}/") for each in named)
        )


def _names(stacks: Sequence[LayerStack], folder: str) -> set[str]:
    """Return the names of all these systems' entries in a folder; links on the way are not followed."""
    names: set[str] = set()
    parts = folder.split("/")[1:]
    for stack in stacks:
        if stack.descend(parts) == len(parts):
            names.update(stack.names())
        while stack.depth:
            stack.up()
    return names


def _outermost(paths: Iterator[str]) -> list[str]:
    outermost: list[str] = []
    for path in sorted(set(paths), key=lambda each: each.split("/")):
        if not outermost or not f"{path}/".startswith(f"{outermost[-1]}/"):
            outermost.append(path)
    return outermost
