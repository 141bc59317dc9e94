"""A room for scorers over a driver: a devbox with their kits, and what they may do in it."""

import asyncio
import itertools
import os
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from benchyard.devboxes.base import Command, OpenFile, Status, read_status
from benchyard.errors import NotFound, ScorerFailed, UsageError
from benchyard.hosts.kits import Kit
from benchyard.scorers.base import AS_USUAL, How, Ran, Room
from benchyard.testing.yard import Yard

_GIVES_UP_SECONDS = 60.0
"""How long after its time a command may take to be gone."""
_STRICT: dict[str, Any] = {"strict": True} if "strict" in {one.name for one in fields(Command)} else {}


class ScoringRoom(Room):
    """One scorer's sight of a devbox of a yard."""

    def __init__(self, yard: Yard, devbox: str, *, user: str = "root", seconds: float = 60.0) -> None:
        self.working_directory = "/tmp"  # noqa: S108  it is the devbox's
        self.user = user
        self.seconds = seconds
        self.environment: dict[str, str] = {}
        """Of the devbox: as an image or a scenario sets it."""
        self._yard = yard
        self._devbox = devbox
        self._began: float | None = None
        self._numbers = itertools.count(1)

    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> str:
        whole = os.path.normpath(f"{self.working_directory}/{path}" if path[:1] != "/" else path)
        try:
            await self._write(OpenFile(whole, self.user, write=True, mode=mode), content)
        except UsageError as error:
            raise ScorerFailed(f"{path} cannot be written: {error.message}") from error
        return whole

    async def keep(self, name: str, content: bytes) -> str:
        path = f"/run/room-{id(self)}/{name}"
        request = OpenFile(path, write=True, mode=0o640, fresh=True, group_of=self.user)
        await self._write(request, content)
        return path

    async def _write(self, request: OpenFile, content: bytes) -> None:
        descriptor = await self._yard.driver.open_file(self._devbox, request)
        with os.fdopen(descriptor, "wb") as file:
            await asyncio.to_thread(file.write, content)

    async def clear(self, folder: str, user: str | None = None) -> None:
        marker = f"{folder}/.fresh"
        request = OpenFile(marker, "root", write=True, fresh=True, emptied_for=user or "root")
        os.close(await self._yard.driver.open_file(self._devbox, request))

    async def fetch(self, path: str, limit: int) -> bytes | None:
        whole = os.path.normpath(f"{self.working_directory}/{path}" if path[:1] != "/" else path)
        try:
            descriptor = await self._yard.driver.open_file(self._devbox, OpenFile(whole, "root"))
        except NotFound:
            return None
        except UsageError as error:
            raise ScorerFailed(f"{whole} could not be read: {error.message}") from error
        with os.fdopen(descriptor, "rb") as file:
            content = await asyncio.to_thread(file.read, limit + 1)
        if len(content) > limit:
            raise ScorerFailed(f"{whole} is larger than {limit} bytes")
        return content

    async def run(self, argv: Sequence[str], how: How = AS_USUAL) -> Ran:
        self._began = self._began or time.monotonic()
        left = self.seconds - (time.monotonic() - self._began)
        if left <= 0:
            return Ran(exit_status=137, stdout=b"", stderr=b"", timed_out=True)
        command = await self._yard.begin(
            self._devbox,
            argv=tuple(argv),
            user=how.user or self.user,
            cwd=how.cwd or self.working_directory,
            env={**self.environment, **how.env},
            timeout_seconds=left,
            **_STRICT,
        )
        async with asyncio.timeout(left + _GIVES_UP_SECONDS):
            status = await _ended(command.folder)
        return _ran(command.folder, status, how.most_output)


async def _ended(folder: Path) -> Status:
    while True:
        if status := read_status(folder):
            return status
        await asyncio.sleep(0.01)


def _ran(folder: Path, status: Status, most: int) -> Ran:
    killed = status.exit_status - 128 if 128 < status.exit_status <= 192 else None
    return Ran(
        status.exit_status,
        _end(folder / "stdout", most),
        _end(folder / "stderr", most),
        timed_out=status.timed_out,
        signal=getattr(status, "signal", killed),
        truncated=status.stdout_truncated,
    )


def _end(path: Path, most: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - most))
        return file.read(most)


async def devbox_with(yard: Yard, kits: Sequence[Kit], **changes: Any) -> str:
    """Start a devbox that shows these kits; skips the test where the driver cannot show folders."""
    if not kits:
        return await yard.devbox(**changes)
    if "mounts" not in {one.value for one in yard.driver.capabilities}:
        pytest.skip("the driver cannot show folders of the host in a devbox")
    return await yard.devbox(mounts=tuple(kits), **changes)
