"""Space on disk: how much the server uses, by kind, and whether it runs short."""

import asyncio
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from sqlalchemy import Connection, func, select, text

from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.boot import FINAL_KIND
from benchyard.models.runs import RUN_KEY
from benchyard.models.server import DiskView, KindView
from benchyard.store.database import Store
from benchyard.store.json_columns import body_field, metadata_value
from benchyard.store.tables import TABLES

_REMEMBERED_SECONDS = 10.0
_MOST_FILES = 2_000_000
"""Most files counted for one answer; the answer says when there are more."""


class _Budget:
    """Number of files that may still be counted."""

    def __init__(self, files: int) -> None:
        self.left = files

    @property
    def is_spent(self) -> bool:
        return self.left <= 0


class DiskUse:
    """Counts the disk use of each kind, one count at a time; the last answer is reused for a short while."""

    def __init__(self, tools: EngineContext, store: Store) -> None:
        self._tools = tools
        self._store = store
        self._counting = asyncio.Lock()
        self._last: tuple[float, DiskView] | None = None

    async def view(self) -> DiskView:
        """Return the disk use of each kind now."""
        async with self._counting:
            if self._last is None or time.monotonic() - self._last[0] > _REMEMBERED_SECONDS:
                found = await self._count()
                self._last = time.monotonic(), found
            return self._last[1]

    async def _count(self) -> DiskView:
        data = self._tools.settings.data
        budget = _Budget(_MOST_FILES)
        host = data / "host" / "devboxes"
        executions, disks = await asyncio.to_thread(_devboxes, host, budget)
        images, n_images = (await self._tools.trees.usage(data / "images"))[0], 0
        finals = final_bytes = 0
        for image in await self._tools.images.list():
            n_images += image.kind != FINAL_KIND
            if image.kind == FINAL_KIND:
                finals += 1
                final_bytes += image.size_bytes
        final_bytes = min(final_bytes, images)
        users, trials = await self._store.read(_objects)
        kinds = [
            KindView(
                kind="images",
                size_bytes=images - final_bytes,
                count=n_images,
                what="images, layers, snapshots",
            ),
            KindView(kind="final states", size_bytes=final_bytes, count=finals, what="for `rescore`"),
            KindView(
                kind="devboxes", size_bytes=disks[0], count=disks[1], what="disks of devboxes that live"
            ),
            KindView(
                kind="executions", size_bytes=executions[0], count=executions[1], what="outputs of commands"
            ),
            KindView(kind="objects", size_bytes=users[0], count=users[1], what="uploaded by users"),
            KindView(
                kind="trial files", size_bytes=trials[0], count=trials[1], what="logs, traces, trajectories"
            ),
        ]
        database, where = await self._database(data)
        kinds.append(KindView(kind="database", size_bytes=database, what=where))
        for kind, folders, what in _FOLDERS:
            size, count = await asyncio.to_thread(_tree, [data / folder for folder in folders], budget)
            kinds.append(KindView(kind=kind, size_bytes=size, count=count, what=what))
        counted = sum(each.size_bytes for each in kinds if each.kind != "database" or where != _ELSEWHERE)
        disk = await asyncio.to_thread(os.statvfs, data)
        return DiskView(
            data=str(data),
            kinds=kinds,
            total_bytes=counted,
            free_bytes=disk.f_bavail * disk.f_frsize,
            is_complete=not budget.is_spent,
        )

    async def _database(self, data: Path) -> tuple[int, str]:
        def database_bytes(connection: Connection) -> int | None:
            if connection.dialect.name != "postgresql":
                return None
            return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())

        size = await self._store.read(database_bytes)
        if size is not None:
            return size, _ELSEWHERE
        url = self._tools.settings.database_url
        file = Path(url.removeprefix("sqlite:///")) if url else data / "benchyard.db"
        parts = [Path(f"{file}{suffix}") for suffix in ("", "-wal", "-shm")]
        return sum([_size(part) for part in parts]), "SQLite"


_ELSEWHERE = "Postgres; not in the total"
_FOLDERS = (
    ("agents and kits", ["kits"], "installed agents, environments of scorers"),
    ("model calls", ["gateway"], "of jobs and runs under way"),
    ("logs", ["logs", "server.log"], "of devboxes, and of a server that was started for you"),
    ("other", ["driver", "host/shells", "reserve", "tls"], "of the driver; space set aside for ends"),
)


def _objects(connection: Connection) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return sizes and numbers of users' own objects, and of the objects of runs."""
    own = TABLES["objects"]
    is_of_run = metadata_value(own.c.body, RUN_KEY).is_not(None)
    size = body_field(own.c.body, "size_bytes")
    query = select(is_of_run, size, func.count()).where(own.c.status != "DELETED").group_by(is_of_run, size)
    found = {True: [0, 0], False: [0, 0]}
    for of_run, each, count in connection.execute(query):
        found[bool(of_run)][0] += int(each or 0) * count
        found[bool(of_run)][1] += count
    return (found[False][0], found[False][1]), (found[True][0], found[True][1])


def _devboxes(folder: Path, budget: _Budget) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return sizes and numbers of the outputs of devboxes, and of their disks."""
    outputs = disks = n_outputs = n_disks = 0
    for each in sorted(folder.iterdir()) if folder.is_dir() else ():
        size, count = _tree([each / "executions"], budget)
        outputs, n_outputs = outputs + size, n_outputs + bool(count)
        if (each / "changes").exists():
            n_disks += 1
        try:
            rest = [path for path in each.iterdir() if path.name != "executions"]
        except OSError:
            # The folder has just been removed, or is a file.
            rest = []
        disks += _tree(rest, budget)[0]
    return (outputs, n_outputs), (disks, n_disks)


def _tree(paths: Sequence[Path], budget: _Budget) -> tuple[int, int]:
    """Return the bytes on disk and the number of files below these paths; links are not followed."""
    size = count = 0
    waiting = [os.fspath(path) for path in paths]
    while waiting and not budget.is_spent:
        here = waiting.pop()
        budget.left -= 1
        try:
            found = os.lstat(here)
            size += found.st_blocks * 512
            if os.path.isdir(here) and not os.path.islink(here):  # noqa: PTH112, PTH114
                waiting.extend(entry.path for entry in os.scandir(here))
            else:
                count += 1
        except OSError:
            # The file has just been removed, or the folder belongs to a user of a devbox.
            continue
    return size, count


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


SHORT_BYTES = 64 * 1024**2
"""With more than this free, a failed write for lack of space was not to the server's disk."""


def is_short(data: Path) -> bool:
    """Tell whether the disk of the data folder is full, or nearly.

    A devbox has folders in memory too, which fill up apart from all disks: a link can lead into one.
    """
    return shutil.disk_usage(data).free < SHORT_BYTES
