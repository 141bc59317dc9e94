"""Opening a file of the devbox as one of its users, in a process made for it, which hands it to the host."""

import contextlib
import errno
import os
import socket
import stat
from typing import Any, NoReturn

from benchyard.devboxes.box import trees, users, wire

_PARENT_MODE = 0o755
_MOST_TRIES = 10
"""Of making a file anew, where somebody puts another one in its place each time."""


def answer(connection: socket.socket, message: dict[str, Any], *, can_change_user: bool) -> NoReturn:
    """Open it, send the descriptor or the error, and end (in a forked child of the first process)."""
    reply: dict[str, Any] = {"seq": message["seq"], "ok": True}
    opened: list[int] = []
    try:
        opened.append(_open_as(message, can_change_user=can_change_user))
        if message["write"]:
            # Its other end closes with this process: a program can be run once nobody here can write it.
            opened.append(os.pipe2(os.O_CLOEXEC)[0])
    except (OSError, LookupError, ValueError) as error:
        number = error.errno if isinstance(error, OSError) else None
        reply = {"seq": message["seq"], "ok": False, "errno": number, "text": str(error)}
    try:
        wire.send(connection, reply, opened)
        for descriptor in opened:
            os.close(descriptor)
    finally:
        os._exit(0)


def _open_as(message: dict[str, Any], *, can_change_user: bool) -> int:
    user = users.find(message["user"])
    path = users.expand(message["path"], user)
    user.become(can_change=can_change_user)
    os.umask(0o022)
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
        # A file that the kernel makes up may take nothing and fail at nothing, for ever.
        if os.fstat(descriptor).st_dev == os.stat("/proc").st_dev:
            raise OSError(22, "not a file on disk", path)
        if message["truncate"]:
            os.ftruncate(descriptor, 0)
    return descriptor


def _open_fresh(message: dict[str, Any], path: str, flags: int, *, can_change_user: bool) -> int:
    """A new file, and who it and a folder made for it belong to."""
    group = users.find(message["group_of"]).gid if message.get("group_of") else None
    owner = users.find(message["emptied_for"]) if message.get("emptied_for") else None
    descriptor = create_fresh(path, flags, message["mode"])
    if group is not None and can_change_user:
        os.fchown(descriptor, -1, group)
    if owner is not None and can_change_user:
        # Not what somebody may have put in its place meanwhile.
        os.chown(os.path.dirname(path), owner.uid, owner.gid, follow_symlinks=False)
    return descriptor


def _remove_folder(folder: str) -> None:
    """Remove a folder, or what stands in its place or in the place of a folder above it."""
    above = ""
    for part in folder.strip("/").split("/")[:-1]:
        above += f"/{part}"
        if os.path.lexists(above) and not os.path.isdir(above):
            os.unlink(above)
    trees.remove_tree(folder)


def create_fresh(path: str, flags: int, mode: int, parent: int | None = None) -> int:
    """Make a file in the place of whatever has its name; raises OSError for a directory."""
    for _ in range(_MOST_TRIES):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path, dir_fd=parent)
        try:
            return os.open(path, flags | os.O_EXCL | os.O_NOFOLLOW, mode, dir_fd=parent)
        except FileExistsError:
            continue
    raise OSError(errno.EEXIST, "another file is put in its place again and again", path)
