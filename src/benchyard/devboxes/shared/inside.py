"""The inside of a devbox, as its first process reports it."""

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from benchyard.devboxes.base import (
    MOST_PROCESSES,
    MOST_WATCHED,
    DevboxProcess,
    DevboxProcesses,
    Inside,
    NewFolder,
    OpenFile,
    OpenWatch,
)
from benchyard.devboxes.shared import connections
from benchyard.devboxes.shared.running_devbox import RunningDevbox
from benchyard.devboxes.shared.watches import Watcher
from benchyard.errors import DevboxError, StillWaiting

_PATIENCE_SECONDS = 30.0
_MOST_BYTES = 16 * 1024 * 1024

GetRunning = Callable[[str], RunningDevbox]
"""Returns the running devbox of an id; raises DevboxGone."""


class FirstProcessInside(Inside):
    """The inside of a devbox, as answered by its first process."""

    def __init__(self, get: GetRunning, watcher: Watcher) -> None:
        self._get = get
        self._watcher = watcher

    async def processes(self, devbox_id: str) -> DevboxProcesses:
        (sheet,) = await self._ask(devbox_id, {"op": "processes", "most": MOST_PROCESSES})
        with os.fdopen(sheet, "rb") as file:
            file.seek(0)
            report = json.loads(file.read(_MOST_BYTES))
        return DevboxProcesses((DevboxProcess(**process) for process in report["processes"]), report["total"])

    async def kill_all(self, devbox_id: str) -> None:
        await self._ask(devbox_id, {"op": "kill_all"})

    async def set_tracing(self, devbox_id: str, *, allowed: bool) -> None:
        await self._ask(devbox_id, {"op": "tracing", "allowed": allowed})

    async def make_folders(self, devbox_id: str, folders: Sequence[NewFolder]) -> bool:
        await self._ask(devbox_id, {"op": "folders", "folders": [asdict(folder) for folder in folders]})
        return True

    async def open_in_folders(
        self, devbox_id: str, folders: Sequence[NewFolder], requests: Sequence[OpenFile]
    ) -> list[int] | None:
        return await self._get(devbox_id).open_in_folders(folders, requests)

    async def files(
        self, devbox_id: str, folder: str, user: str, newer_than: str | None, most: int
    ) -> list[str] | None:
        request = {"op": "files", "folder": folder, "user": user, "newer_than": newer_than, "most": most}
        (sheet,) = await self._ask(devbox_id, request)
        with os.fdopen(sheet, "rb") as file:
            file.seek(0)
            report: list[str] = json.loads(file.read(_MOST_BYTES))
        return report

    async def listen(self, devbox_id: str, port: int = 0) -> tuple[int, int]:
        return await connections.listen(self._get(devbox_id).ask, devbox_id, port)

    async def watch(self, devbox_id: str, paths: Sequence[str]) -> OpenWatch | None:
        if len(paths) > MOST_WATCHED:
            return None
        root = await self.root(devbox_id)
        try:
            return await self._watcher.watch(root, paths)
        finally:
            os.close(root)

    async def root(self, devbox_id: str) -> int:
        """Return a descriptor of the devbox's root, which cannot be read from; the caller closes it."""
        (root,) = await self._ask(devbox_id, {"op": "root"})
        return root

    async def _ask(self, devbox_id: str, request: dict[str, Any]) -> list[int]:
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                reply, descriptors = await self._get(devbox_id).ask(request)
        except TimeoutError as error:
            message = f"devbox {devbox_id} did not answer; it may be frozen for a snapshot"
            raise StillWaiting(message) from error
        if not reply["ok"]:
            reason = reply.get("text", "something in it forks faster than it can be killed")
            raise DevboxError(f"the inside of devbox {devbox_id} could not be examined: {reason}")
        return descriptors
