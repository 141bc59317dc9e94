"""Folders made, and files listed, without any program of the devbox, in a process made for it."""

import json
import os
import socket
from typing import Any, NoReturn

from benchyard.devboxes.box import users, wire

_MODE = 0o755
_MOST_SEEN = 100_000
"""Entries that are looked at in search of files."""


def answer(connection: socket.socket, message: dict[str, Any], *, can_change_user: bool) -> NoReturn:
    """Do what is asked, tell how it went, and end (in a forked child of the first process)."""
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
    """The paths of plain files below a folder, from there on; names that are no text are left out."""
    least = -1 if newer_than is None else os.stat(newer_than).st_mtime_ns
    found: list[str] = []
    left, seen = [""], 0
    while left and seen < _MOST_SEEN and len(found) < most:
        inner = left.pop()
        try:
            with os.scandir(f"{folder}/{inner}") as entries:
                for each in entries:
                    seen += 1
                    if seen > _MOST_SEEN or len(found) >= most:
                        break
                    if each.is_dir(follow_symlinks=False):
                        left.append(f"{inner}{each.name}/")
                    elif _is_wanted(each, least):
                        found.append(inner + each.name)
        except OSError:
            if not inner:
                raise
    return found


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
