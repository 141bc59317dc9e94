"""Folders of the host shown in a devbox's new root: read-only, wherever the image's links lead."""

import errno
import os
from typing import Any

from benchyard.devboxes.box import syscalls
from benchyard.devboxes.box.syscalls import MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, MS_REMOUNT

_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def show(request: dict[str, Any]) -> None:
    """Mount what the request names below the working directory, the new root, before it becomes that."""
    sources = request.get("mount_places") or [source for source, _target in request["mounts"]]
    for source, (_source, target) in zip(sources, request["mounts"], strict=True):
        _bind(source, _point(target, make=True))
        point = _point(target, make=False)
        try:
            path = f"/proc/self/fd/{point}"
            # What the host's mount forbids cannot be allowed here.
            kept = os.fstatvfs(point).f_flag & MS_NOEXEC
            syscalls.mount(None, path, None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | kept)
        finally:
            os.close(point)


def _bind(source: str, point: int) -> None:
    try:
        syscalls.mount(source, f"/proc/self/fd/{point}", None, MS_BIND)
    finally:
        os.close(point)


def _point(target: str, *, make: bool) -> int:
    """A descriptor of the place, reached one step at a time so that no link is followed."""
    here = os.open(".", _PLACE)
    for part in target.split("/")[1:]:
        try:
            there = _step(part, here, make=make)
        except NotADirectoryError as error:
            message = f"{part!r} on the way to it is a link or a file in this image"
            raise OSError(errno.ENOTDIR, message, target) from error
        finally:
            os.close(here)
        here = there
    return here


def _step(part: str, here: int, *, make: bool) -> int:
    try:
        return os.open(part, _PLACE, dir_fd=here)
    except FileNotFoundError:
        if not make:
            raise
    os.mkdir(part, 0o755, dir_fd=here)
    return os.open(part, _PLACE, dir_fd=here)
