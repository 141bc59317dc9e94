"""Files and folders of the devbox, opened, made and listed by processes forked for each request."""

import contextlib
import errno
import json
import os
import socket
import stat
from typing import Any, NoReturn

from benchyard.devboxes.guest import users, wire
from benchyard.devboxes.layers import trees

_PARENT_MODE = 0o755
_MOST_TRIES = 10
"""Attempts to make a file anew while a program keeps putting another one in its place."""


def answer_open(connection: socket.socket, message: dict[str, Any], *, can_change_user: bool) -> NoReturn:
    """Open the files, send descriptors or the error, and end (in a forked child of the first process).

    Further files of the same user are listed under `more`, folders to make before that under `folders`.
    """
    reply: dict[str, Any] = {"seq": message["seq"], "ok": True}
    opened: list[int] = []
    try:
        user = users.find(message["user"])
        for folder in message.get("folders", ()):
            _make(**folder, can_change_user=can_change_user)
            reply["folders"] = reply.get("folders", 0) + 1
        user.become(can_change=can_change_user)
        os.umask(0o022)
        for each in (message, *message.get("more", ())):
            reply["path"] = each["path"]
            opened.append(_open(each, users.expand(each["path"], user), can_change_user=can_change_user))
        if message["write"]:
            # Its other end closes with this process: a program can be run once no process here can write it.
            opened.append(os.pipe2(os.O_CLOEXEC)[0])
    except (OSError, LookupError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        reply |= {"ok": False, "errno": number, "text": str(error)}
    try:
        wire.send(connection, reply, opened if reply["ok"] else [])
        for descriptor in opened:
            os.close(descriptor)
    finally:
        os._exit(0)


def _open(message: dict[str, Any], path: str, *, can_change_user: bool) -> int:
    flags = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    if message["write"]:
        if message.get("emptied_for"):
            _remove_folder(os.path.dirname(path))
        os.makedirs(os.path.dirname(path), _PARENT_MODE, exist_ok=True)
        flags |= os.O_WRONLY | os.O_CREAT
        if message.get("fresh"):
            return _open_fresh(message, path, flags, can_change_user=can_change_user)
        descriptor = os.open(path, flags, message["mode"])
    else:
        descriptor = os.open(path, flags | os.O_RDONLY)
    kind = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(kind):
        raise OSError(21 if stat.S_ISDIR(kind) else 22, "not a regular file", path)
    if message["write"]:
        # A pseudo-file of the kernel may accept nothing and report no error, for ever.
        if os.fstat(descriptor).st_dev == os.stat("/proc").st_dev:
            raise OSError(22, "not a file on disk", path)
        if message["truncate"]:
            os.ftruncate(descriptor, 0)
    return descriptor


def _open_fresh(message: dict[str, Any], path: str, flags: int, *, can_change_user: bool) -> int:
    """Open a new file and set the owner of it and of a folder made for it."""
    group = users.find(message["group_of"]).gid if message.get("group_of") else None
    owner = users.find(message["emptied_for"]) if message.get("emptied_for") else None
    descriptor = create_fresh(path, flags, message["mode"])
    if group is not None and can_change_user:
        os.fchown(descriptor, -1, group)
    if owner is not None and can_change_user:
        # Do not follow a link that a program may have put in its place meanwhile.
        os.chown(os.path.dirname(path), owner.uid, owner.gid, follow_symlinks=False)
    return descriptor


def _remove_folder(folder: str) -> None:
    """Remove a folder, or the entry that stands in its place or in the place of a folder above it."""
    above = ""
    for part in folder.strip("/").split("/")[:-1]:
        above += f"/{part}"
        if os.path.lexists(above) and not os.path.isdir(above):
            os.unlink(above)
    trees.remove_tree(folder)


def create_fresh(path: str, flags: int, mode: int, parent: int | None = None) -> int:
    """Make a file in the place of any entry of that name; raise OSError for a directory."""
    for _ in range(_MOST_TRIES):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path, dir_fd=parent)
        try:
            return os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=parent)
        except FileExistsError:
            continue
    raise OSError(errno.EEXIST, "it is replaced by another file again and again", path)


_MODE = 0o755
_MOST_SEEN = 100_000
"""Most entries looked at in search of files."""


def answer_folders(connection: socket.socket, message: dict[str, Any], *, can_change_user: bool) -> NoReturn:
    """Carry out the request, report the result, and end (in a forked child of the first process)."""
    reply: dict[str, Any] = {"seq": message["seq"], "ok": True}
    sheets: list[int] = []
    try:
        if message["op"] == "folders":
            for folder in message["folders"]:
                _make(**folder, can_change_user=can_change_user)
        else:
            users.find(message["user"]).become(can_change=can_change_user)
            sheets.append(_sheet(_files(message["folder"], message["newer_than"], message["most"])))
    except (OSError, LookupError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        reply = {"seq": message["seq"], "ok": False, "errno": number, "text": str(error)}
    try:
        wire.send(connection, reply, sheets)
    finally:
        os._exit(0)


def _make(path: str, owner: str | None, *, only_new: bool, can_change_user: bool) -> None:
    if only_new and os.path.isdir(path):
        return
    os.umask(0o022)
    os.makedirs(path, _MODE, exist_ok=True)
    os.chmod(path, _MODE)
    if owner is not None and can_change_user:
        user = users.find(owner)
        os.chown(path, user.uid, user.gid)


def _files(folder: str, newer_than: str | None, most: int) -> list[str]:
    """Return the relative paths of plain files below a folder; names that are not text are left out."""
    least = -1 if newer_than is None else os.stat(newer_than).st_mtime_ns
    files: list[str] = []
    left, seen = [""], 0
    while left and seen < _MOST_SEEN and len(files) < most:
        inner = left.pop()
        try:
            with os.scandir(f"{folder}/{inner}") as entries:
                for entry in entries:
                    seen += 1
                    if seen > _MOST_SEEN or len(files) >= most:
                        break
                    if entry.is_dir(follow_symlinks=False):
                        left.append(f"{inner}{entry.name}/")
                    elif _is_wanted(entry, least):
                        files.append(inner + entry.name)
        except OSError:
            if not inner:
                raise
    return files


def _is_wanted(entry: "os.DirEntry[str]", least: int) -> bool:
    try:
        entry.name.encode()
    except UnicodeEncodeError:
        return False
    return entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime_ns > least


def _sheet(found: list[str]) -> int:
    sheet = os.memfd_create("benchyard-files", os.MFD_CLOEXEC)
    view = memoryview(json.dumps(found).encode())
    while view:
        view = view[os.write(sheet, view) :]
    return sheet
