"""Creation of the user who runs commands, where an image lacks it, without `useradd` in the devbox."""

import asyncio
import os
import re
import stat
import time

from benchyard.devboxes.base import Command, DevboxSpec, Driver, OpenFile, Rootfs, read_status
from benchyard.devboxes.layers.stack import LayerStack
from benchyard.errors import NotFound, StartFailed, UsageError

_NAME = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_UID = re.compile(rb"^[^:\n]*:[^:\n]*:([0-9]{1,10})(?![^:\n])", re.M)
"""Pattern of the third field of a row, if it is a number."""
_FIELDS = 7
_FIRST_UID, _LAST_UID = 1000, 65534
_MAX_FILE_BYTES = 1024 * 1024
_PATIENCE_SECONDS = 30.0
_MAKE_HOME = """\
mkdir -p "$1" && chown -R "$2:$2" "$1" && chmod 755 "$1" || exit
[ -d /etc/sudoers.d ] || exit 0
umask 227 && echo "$3 ALL=(ALL:ALL) NOPASSWD: ALL" > "/etc/sudoers.d/benchyard-$3"
"""


def has_user(rootfs: Rootfs, name: str, uid: int | None) -> bool:
    """Tell whether an image's files show that it has this user; False also if they are not read (blocks).

    Looking here costs less than having the devbox open a file.
    """
    try:
        with LayerStack([str(layer) for layer in rootfs.layers], rootfs.host_dirs) as stack:
            found = stack.look("passwd") if stack.descend(["etc"]) == 1 else None
            if found is None or not stat.S_ISREG(found.status.st_mode):
                return False
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            content = _read(os.open("passwd", flags, dir_fd=found.parent))
    except OSError:
        return False
    return _is_known(_row_of(content, name), uid)


async def ensure_user(driver: Driver, spec: DevboxSpec, name: str, uid: int | None) -> bool:
    """Ensure that the devbox has this user, with this uid if one is given; return True if it had."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be a user's name: use lower case letters, digits, '_' and '-'")
    # Whoever worked in the devbox wrote these files: they are read and written in threads.
    users = await _content(driver, spec.id, "/etc/passwd")
    known = await asyncio.to_thread(_row_of, users, name)
    if _is_known(known, uid):
        return True
    number = str(await asyncio.to_thread(_free_uid, users) if uid is None else uid)
    home = known[5] if known else f"/home/{name}"
    shell = known[6] if known else "/bin/bash"
    await _write(driver, spec.id, "/etc/passwd", users, [name, "x", number, number, "", home, shell])
    groups = await _content(driver, spec.id, "/etc/group")
    await _write(driver, spec.id, "/etc/group", groups, [name, "x", number, ""])
    await _run_as_root(driver, spec, ("/bin/sh", "-c", _MAKE_HOME, "sh", home, number, name))
    return False


def _row_of(content: bytes, name: str) -> list[str] | None:
    own = f"{name}:".encode()
    rows = (
        line.decode(errors="surrogateescape").split(":") for line in _lines(content) if line.startswith(own)
    )
    return next((row for row in rows if len(row) >= _FIELDS), None)


def _is_known(row: list[str] | None, uid: int | None) -> bool:
    return row is not None and (uid is None or row[2] == str(uid))


def _free_uid(content: bytes) -> int:
    """Return the first uid of ordinary users that is free; raises UsageError if there is none."""
    taken = {int(found[1]) for found in _UID.finditer(content)}
    free = (number for number in range(_FIRST_UID, _LAST_UID) if number not in taken)
    if (uid := next(free, None)) is None:
        raise UsageError("the image's /etc/passwd leaves no number for another user: use another image")
    return uid


def _lines(content: bytes) -> list[bytes]:
    return content.split(b"\n")


async def _content(driver: Driver, devbox_id: str, path: str) -> bytes:
    try:
        descriptor = await driver.open_file(devbox_id, OpenFile(path))
    except NotFound:
        return b""
    return await asyncio.to_thread(_read, descriptor)


def _read(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        return file.read(_MAX_FILE_BYTES)


async def _write(driver: Driver, devbox_id: str, path: str, content: bytes, row: list[str]) -> None:
    """Write a file with another row, in the place of those of the same name."""
    descriptor = await driver.open_file(devbox_id, OpenFile(path, write=True))
    await asyncio.to_thread(_rewrite, descriptor, content, row)


def _rewrite(descriptor: int, content: bytes, row: list[str]) -> None:
    name = row[0].encode()
    own = name + b":"
    others = [line for line in _lines(content) if line and line != name and not line.startswith(own)]
    with os.fdopen(descriptor, "wb") as file:
        file.write(b"\n".join([*others, ":".join(row).encode(errors="surrogateescape"), b""]))


async def _run_as_root(driver: Driver, spec: DevboxSpec, argv: tuple[str, ...]) -> None:
    folder = spec.folder / "setup"
    await driver.trees.remove(folder)
    folder.mkdir(mode=0o700)
    await driver.exec(spec.id, Command("benchyard-user", argv, folder, timeout_seconds=_PATIENCE_SECONDS))
    deadline = time.monotonic() + 2 * _PATIENCE_SECONDS
    while (status := read_status(folder)) is None:
        if time.monotonic() > deadline:
            raise StartFailed("making the devbox's user did not end", step="user")
        await asyncio.sleep(0.005)
    said = (folder / "stderr").read_text(errors="replace")[-500:]
    await driver.trees.remove(folder)
    if status.exit_status != 0:
        raise StartFailed(f"the devbox's user could not be made: {said}", step="user")
