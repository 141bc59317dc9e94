"""What a devbox has changed on its disk since it was marked."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchyard.devboxes.base import Rootfs, Trees
from benchyard.devboxes.box import report_lines
from benchyard.errors import Conflict, UsageError
from benchyard.hosts.devbox import Devbox

_MARK = "mark"
_MOST_ASIDE = 16
_MAX_PATH = 4096


class Change(NamedTuple):
    """One path that is not as it was."""

    path: str
    """Absolute; bytes that are no UTF-8 are shown as `\\xff`."""
    kind: str
    """`added`, `modified` or `deleted`."""
    type: str
    """`file`, `folder`, `link`, `device` or `other`: what it is now, or was before it was deleted."""
    mode: int
    """The permission bits."""
    size: int


@dataclass(frozen=True)
class Changes:
    """Every path that is not as it was, or the first of them."""

    changes: tuple[Change, ...]
    total: int
    truncated: bool
    """Whether some are not listed."""
    exact: bool
    """False when there was too much to note: what was not noted is judged by its time alone then."""


async def mark(devbox: Devbox, trees: Trees, name: str = _MARK) -> bool:
    """Remember the disk as it is; False if it holds more than can be remembered."""
    async with devbox.still_disk() as changes:
        return await trees.note(changes, devbox.spec.folder / name)


async def changed_since(devbox: Devbox, trees: Trees, below: Rootfs, name: str) -> Changes:
    """What is different since the mark of that name, which is removed."""
    file = devbox.spec.folder / name
    try:
        async with devbox.still_disk() as disk:
            return await _compared(devbox, trees, (disk, below), file)
    finally:
        file.unlink(missing_ok=True)


async def changed(devbox: Devbox, trees: Trees, below: Rootfs, aside: Sequence[str]) -> Changes:
    """What is different since the mark; raises Conflict if there is none."""
    if len(aside) > _MOST_ASIDE or any(len(path) > _MAX_PATH for path in aside):
        raise UsageError(f"at most {_MOST_ASIDE} folders can be left out of a list of changes")
    require_mark(devbox)
    async with devbox.still_disk() as disk:
        return await compared(devbox, trees, (disk, below), aside)


def require_mark(devbox: Devbox, disk: Path | None = None) -> None:
    """Raise Conflict if there is nothing to compare with, or nothing to be compared."""
    if not (devbox.spec.folder / _MARK).exists() or not (disk or devbox.spec.changes).exists():
        raise Conflict(
            f"devbox {devbox.spec.id} has no mark to be compared with; mark it when it has started"
        )


async def compared(
    devbox: Devbox,
    trees: Trees,
    disk: tuple[Path, Rootfs],
    aside: Sequence[str] = (),
    counted: Sequence[str] = (),
) -> Changes:
    """What is different since the mark on a disk that stands still: its changes, and what lies below them."""
    return await _compared(devbox, trees, disk, devbox.spec.folder / _MARK, aside, counted)


async def _compared(
    devbox: Devbox,
    trees: Trees,
    disk: tuple[Path, Rootfs],
    mark: Path,
    aside: Sequence[str] = (),
    counted: Sequence[str] = (),
) -> Changes:
    changes, below = disk
    report = devbox.spec.folder / f"{_MARK}.{secrets.token_hex(8)}"
    try:
        noted = (changes, mark)
        await trees.compare(noted, below, report, tuple(aside), tuple(counted))
        return await asyncio.to_thread(_read, report)
    finally:
        report.unlink(missing_ok=True)


def _read(report: Path) -> Changes:
    with report.open() as lines:
        found, changes = report_lines.read(lines)
    return Changes(
        tuple(Change(*each) for each in changes), found["total"], found["truncated"], found["exact"]
    )
