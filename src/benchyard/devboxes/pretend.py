"""A driver without devboxes: each start and each command succeeds at once and does nothing.

For measuring the engine by itself: the cost of a job with devboxes that cost nothing. Scores mean nothing.
"""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from benchyard.devboxes.base import (
    Capability,
    Command,
    Control,
    DevboxSpec,
    DevboxUsage,
    Driver,
    Event,
    ExecutionEnded,
    OpenFile,
    Status,
)
from benchyard.devboxes.local_trees import LocalTrees
from benchyard.errors import DevboxGone, NotFound

_logger = logging.getLogger(__name__)


_STATUS = json.dumps(asdict(Status(0))).encode()


class PretendDriver(Driver):
    """Driver that only remembers the ids of started devboxes."""

    capabilities = frozenset({Capability.HOST_VIEW})
    pretends = True

    def __init__(self, folder: Path, options: Mapping[str, str]) -> None:
        self.folder = folder
        self.options = options
        self.trees = LocalTrees()
        self._running: set[str] = set()
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _logger.warning(
            "the pretend driver runs nothing: its scores mean nothing; it measures the engine only"
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.clear()

    async def start(self, spec: DevboxSpec) -> None:
        self._running.add(spec.id)

    async def find(self, spec: DevboxSpec) -> bool:
        return spec.id in self._running

    async def stop(self, devbox_id: str) -> None:
        self._running.discard(devbox_id)

    async def exec(self, devbox_id: str, command: Command) -> None:
        self._require(devbox_id)
        self._end(f"{command.folder}/status.json")
        self._events.put_nowait(ExecutionEnded(devbox_id, command.id))

    async def control(self, devbox_id: str, execution_id: str, control: Control) -> bool:
        return False

    async def open_file(self, devbox_id: str, request: OpenFile) -> int:
        self._require(devbox_id)
        if not request.write:
            raise NotFound(f"{request.path} is not there: nothing is")
        return os.memfd_create("pretend")

    async def freeze(self, devbox_id: str) -> None:
        self._require(devbox_id)

    async def thaw(self, devbox_id: str) -> None:
        self._require(devbox_id)

    async def usage(self, devbox_id: str) -> DevboxUsage:
        self._require(devbox_id)
        return DevboxUsage()

    async def events(self) -> AsyncIterator[Event]:
        while True:
            yield await self._events.get()

    def _end(self, path: str) -> None:
        """Write the status of a successful command: a link to one file, since new files cost the disk."""
        try:
            os.link(f"{self.folder}/status.json", path)
        except OSError:
            # The file does not exist yet, or has as many names as the disk allows.
            fresh = self.folder / "status.json.part"
            fresh.write_bytes(_STATUS)
            fresh.replace(self.folder / "status.json")
            os.link(f"{self.folder}/status.json", path)

    def _require(self, devbox_id: str) -> None:
        if devbox_id not in self._running:
            raise DevboxGone(f"devbox {devbox_id} does not run")
