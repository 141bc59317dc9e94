"""The host's side of watched files.

The event queue of a descriptor is limited, and overflows lose all of it. Each scoring has a descriptor of its
own as long as there are enough, so that a devbox that opens thousands of files loses its own events only.
"""

import asyncio
import json
import logging
import os
import struct
from collections.abc import Awaitable, Callable, Sequence

from benchyard.devboxes.base import OpenWatch
from benchyard.devboxes.guest import open_watches
from benchyard.errors import BenchyardError

_logger = logging.getLogger(__name__)

_EVENT = struct.Struct("iIII")
_READ_BYTES = 64 * 1024
_OPENED = 0x20
_OVERFLOW = 0x4000
_MOST_QUEUES = 16
"""By default a user may have 128 descriptors of this kind."""

Add = Callable[[int, int, int], Awaitable[None]]
"""Adds watches to a descriptor: the devbox's root, the descriptor, the list of paths."""


async def add_here(root: int, watcher: int, sheet: int) -> None:
    """Add watches with this process's own rights."""
    await asyncio.to_thread(open_watches.add_watches, root, watcher, sheet)


class Watcher:
    """All watched files of a driver's devboxes."""

    def __init__(self, add: Add = add_here) -> None:
        self._add = add
        self._queues: list[_Queue] = []

    async def watch(self, root: int, paths: Sequence[str]) -> OpenWatch | None:
        """Watch files below a root; None, and a line in the log, if that is not possible."""
        try:
            return await self._idlest().watch(root, paths)
        except (OSError, BenchyardError) as error:
            _logger.warning("files of a devbox cannot be watched: %s", error)
            return None

    def _idlest(self) -> "_Queue":
        known = min(self._queues, key=lambda queue: queue.load, default=None)
        if known is not None and (not known.load or len(self._queues) >= _MOST_QUEUES):
            return known
        try:
            queue = _Queue(self._add)
        except OSError:
            # A user may have a limited number of them; a shared one is better than no watch at all.
            if known is None:
                raise
            return known
        self._queues.append(queue)
        return queue

    def close(self) -> None:
        """Close everything: running watches have no known result then."""
        for queue in self._queues:
            queue.close()
        self._queues.clear()


class _Queue:
    """A descriptor, and the files that it watches."""

    def __init__(self, add: Add) -> None:
        self._add = add
        self._descriptor: int | None = open_watches.open_watcher()
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)
        self._watches: dict[int, list[tuple[_Files, str]]] = {}
        self.load = 0
        """Number of requests with files watched by it."""
        self._adding = 0
        self._early: set[int] = set()
        """Watches that reported before their number was known here."""
        self._lost = 0
        """Number of times the kernel's event queue overflowed."""

    async def watch(self, root: int, paths: Sequence[str]) -> OpenWatch:
        lost = self._lost
        self._adding += 1
        self.load += 1
        try:
            assert self._descriptor is not None
            numbers = await self._added(root, self._descriptor, paths)
            return self._add_files(numbers, paths, is_known=lost == self._lost)
        except BaseException:
            self.load -= 1
            raise
        finally:
            self._adding -= 1
            if not self._adding:
                self._early.clear()

    async def _added(self, root: int, watcher: int, paths: Sequence[str]) -> list[list[int]]:
        """Return the watches of each path."""
        sheet = os.memfd_create("benchyard-watched", os.MFD_CLOEXEC)
        with os.fdopen(sheet, "w+b") as file:
            file.write(json.dumps(list(paths)).encode())
            file.flush()
            await self._add(root, watcher, sheet)
            file.seek(0)
            numbers: list[open_watches.Watches] = json.loads(file.read())
        return [number if isinstance(number, list) else [number] for number in numbers]

    def _add_files(self, numbers: list[list[int]], paths: Sequence[str], *, is_known: bool) -> "_Files":
        files = _Files(
            self, {number for each in numbers for number in each if number >= 0}, is_known=is_known
        )
        files.unwatched = [
            path for each, path in zip(numbers, paths, strict=True) if open_watches.UNWATCHED in each
        ]
        for each, path in zip(numbers, paths, strict=True):
            for number in each:
                if number >= 0:
                    self._watches.setdefault(number, []).append((files, path))
                if number in self._early:
                    files.opened.add(path)
        return files

    def _read(self) -> None:
        """Take in all reports; each watch reports once, so that this has an end."""
        while self._descriptor is not None:
            try:
                data = os.read(self._descriptor, _READ_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                number, mask, _cookie, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size + length
                self._heard(number, mask)

    def _heard(self, number: int, mask: int) -> None:
        if mask & _OVERFLOW:
            self._lose_all()
        elif mask & _OPENED:
            for files, path in self._watches.get(number, ()):
                files.opened.add(path)
            if self._adding:
                self._early.add(number)

    def _lose_all(self) -> None:
        self._lost += 1
        for watch in self._watches.values():
            for files, _path in watch:
                files.is_known = False

    def end(self, files: "_Files", numbers: set[int]) -> None:
        """Take in all reports so far, then remove watches that no other request shares."""
        self._read()
        self.load -= 1
        for number in numbers:
            others = [watch for watch in self._watches.pop(number, ()) if watch[0] is not files]
            if others:
                self._watches[number] = others
            elif self._descriptor is not None:
                open_watches.remove_watch(self._descriptor, number)

    def close(self) -> None:
        """Close everything: running watches have no known result then."""
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None
        self._lose_all()


class _Files(OpenWatch):
    """The files of one request."""

    def __init__(self, queue: _Queue, numbers: set[int], *, is_known: bool) -> None:
        self._queue = queue
        self._numbers = numbers
        self._is_closed = False
        self.opened: set[str] = set()
        self.is_known = is_known

    def close(self) -> list[str] | None:
        if not self._is_closed:
            self._is_closed = True
            self._queue.end(self, self._numbers)
        return sorted(self.opened) if self.is_known else None
