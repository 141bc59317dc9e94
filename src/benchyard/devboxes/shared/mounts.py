"""Checks of the host folders that a devbox shows, made before it starts."""

import os
import stat
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from benchyard.devboxes.base import HostFolder
from benchyard.devboxes.layers.stack import LayerStack
from benchyard.errors import StartFailed, UsageError

_MOST = 64
_MAX_PATH = 1024
_NEVER = ("/proc", "/sys")
_OURS = "/dev/.benchyard"
_WHOLE = ("/", "/dev", "/dev/pts", "/dev/shm", "/etc", "/usr")  # noqa: S108 - none to write to
"""Folders a devbox cannot do without: a host folder may be shown below them, not in their place."""


def check_mounts(mounts: Sequence[HostFolder]) -> None:
    """Raise UsageError for impossible targets, StartFailed for missing sources."""
    if len(mounts) > _MOST:
        raise UsageError(f"{len(mounts)} folders to show are too many: {_MOST} are allowed")
    for mount in mounts:
        _check_target(mount.target)
        if not mount.source.is_absolute() or not mount.source.is_dir():
            raise StartFailed(
                f"the folder {mount.source}, to be shown in a devbox, is not there", step="mounts"
            )
    targets = sorted(f"{each.target}/" for each in mounts)
    if any(after.startswith(one) for one, after in pairwise(targets)):
        raise UsageError("the places of two folders to show overlap")


def _check_target(target: str) -> None:
    parts = target.split("/")[1:]
    is_plain = target.startswith("/") and all(part not in ("", ".", "..") for part in parts)
    if not is_plain or "\0" in target or len(os.fsencode(target)) > _MAX_PATH:
        raise UsageError(f"{target[:200]!r} is not a place to show a folder: give a plain absolute path")
    if target in _WHOLE or any(f"{target}/".startswith(f"{place}/") for place in (*_NEVER, _OURS)):
        raise UsageError(f"{target[:200]!r} is not a place to show a folder: choose one that is not in use")


def mount_places(mounts: Sequence[HostFolder]) -> list[tuple[str, str]]:
    """Return sources and targets, as the zygote takes them."""
    return [(str(mount.source), mount.target) for mount in mounts]


def check_mount_points(layers: Sequence[Path], mounts: Sequence[HostFolder]) -> None:
    """Raise StartFailed if layers, topmost first, have no directory on the way to a target (blocks)."""
    with LayerStack([str(layer) for layer in layers]) as stack:
        for mount in mounts:
            _check_point(stack, mount.target.split("/")[1:])


def _check_point(stack: LayerStack, parts: list[str]) -> None:
    if parts[0] == "dev":
        # Made anew by the engine at each start.
        return
    depth = 0
    try:
        for part in parts:
            entry = stack.look(part)
            if entry is None:
                return
            if not stat.S_ISDIR(entry.status.st_mode) or not stack.down(part):
                where = "/".join(parts[: depth + 1])
                message = f"/{where} is not a directory in this image, so nothing can be shown there"
                raise StartFailed(f"{message}; choose a place below /dev", step="mounts")
            depth += 1
    finally:
        for _ in range(depth):
            stack.up()
