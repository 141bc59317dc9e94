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
_FIRST_UID = 1000
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
            rows = _read_rows(os.open("passwd", flags, dir_fd=found.parent))
    except OSError:
        return False
    return _is_known(_row_of(rows, name), uid)


async def ensure_user(driver: Driver, spec: DevboxSpec, name: str, uid: int | None) -> bool:
    """Ensure that the devbox has this user, with this uid if one is given; return True if it had."""
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be a user's name: use lower case letters, digits, '_' and '-'")
    rows = await _rows(driver, spec.id, "/etc/passwd")
    known = _row_of(rows, name)
    if _is_known(known, uid):
        return True
    if uid is None:
        taken = {int(row[2]) for row in rows if len(row) > 2 and row[2].isdigit()}
        uid = next(number for number in range(_FIRST_UID, 65534) if number not in taken)
    number = str(uid)
    home = known[5] if known else f"/home/{name}"
    shell = known[6] if known else "/bin/bash"
    mine = [name, "x", number, number, "", home, shell]
    await _write(driver, spec.id, "/etc/passwd", [*(row for row in rows if row[0] != name), mine])
    groups = await _rows(driver, spec.id, "/etc/group")
    others = [row for row in groups if row[0] != name]
    await _write(driver, spec.id, "/etc/group", [*others, [name, "x", number, ""]])
    await _run_as_root(driver, spec, ("/bin/sh", "-c", _MAKE_HOME, "sh", home, number, name))
    return False


def _row_of(rows: list[list[str]], name: str) -> list[str] | None:
    return next((row for row in rows if row[0] == name and len(row) >= 7), None)


def _is_known(row: list[str] | None, uid: int | None) -> bool:
    return row is not None and (uid is None or row[2] == str(uid))


async def _rows(driver: Driver, devbox_id: str, path: str) -> list[list[str]]:
    try:
        descriptor = await driver.open_file(devbox_id, OpenFile(path))
    except NotFound:
        return []
    return _read_rows(descriptor)


def _read_rows(descriptor: int) -> list[list[str]]:
    with os.fdopen(descriptor, "rb") as file:
        text = file.read(_MAX_FILE_BYTES).decode(errors="surrogateescape")
    return [line.split(":") for line in text.splitlines() if line]


async def _write(driver: Driver, devbox_id: str, path: str, rows: list[list[str]]) -> None:
    descriptor = await driver.open_file(devbox_id, OpenFile(path, write=True))
    text = "".join(":".join(row) + "\n" for row in rows)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode(errors="surrogateescape"))


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
