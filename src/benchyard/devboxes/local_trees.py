"""File trees handled by this process itself, for root and for drivers that map no ids."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from benchyard.devboxes.base import Rootfs, Trees
from benchyard.devboxes.layers import trees
from benchyard.devboxes.layers.carry import REPORT, carry_paths, carry_work
from benchyard.devboxes.layers.changes import compare_tree, note_tree
from benchyard.devboxes.layers.merge import merge_layers
from benchyard.devboxes.layers.pack import pack_layer
from benchyard.devboxes.layers.trees import copy_tree, remove_tree, sync_tree, tree_usage
from benchyard.devboxes.layers.unpack import ArchiveLimits, unpack_layer
from benchyard.devboxes.layers.work_changes import examine_work
from benchyard.errors import ImageError

_PATIENCE = 20
"""Longest wait for a thread's share of the processor, as a multiple of that share."""

P = ParamSpec("P")
T = TypeVar("T")


class LocalTrees(Trees):
    """Trees in threads of this process; owners are kept where this process may set them."""

    def __init__(self, *, keep_owner: bool | None = None) -> None:
        self._keep_owner = os.geteuid() == 0 if keep_owner is None else keep_owner

    async def copy(self, source: Path, target: Path, *, link: bool = False) -> None:
        await _run_stoppable(copy_tree, str(source), str(target), keep_owner=self._keep_owner, link=link)

    async def remove(self, path: Path) -> None:
        await _run_stoppable(remove_tree, str(path))

    async def usage(self, path: Path, most: int | None = None) -> tuple[int, int]:
        return await _run_in_thread(tree_usage, str(path), most)

    async def unpack(self, archive: Path, target: Path) -> None:
        try:
            await _run_stoppable(unpack_layer, str(archive), str(target), keep_owner=self._keep_owner)
        except ValueError as error:
            raise ImageError(f"{archive.name}: {error}") from error

    async def pack(
        self, source: Path, archive: Path, names: tuple[str, ...] = (), *, plain: bool = False
    ) -> tuple[str, int]:
        try:
            return await _run_in_thread(
                pack_layer,
                str(source),
                str(archive),
                names,
                keep_owner=self._keep_owner or bool(names),
                plain=plain,
            )
        except ValueError as error:
            raise ImageError(str(error)) from error

    async def merge(self, stack: Rootfs, count: int, target: Path) -> None:
        layers = [str(layer) for layer in stack.layers]
        try:
            await _run_in_thread(
                merge_layers,
                layers[:count],
                layers[count:],
                stack.host_dirs,
                str(target),
                keep_owner=self._keep_owner,
            )
        except ValueError as error:
            raise ImageError(str(error)) from error

    async def carry(self, source: Rootfs, onto: Rootfs, paths: tuple[str, ...], target: Path) -> Path:
        stacks = [([str(layer) for layer in place.layers], place.host_dirs) for place in (source, onto)]
        await _run_in_thread(
            carry_paths, stacks[0], stacks[1], paths, str(target), keep_owner=self._keep_owner
        )
        return target.with_name(target.name + REPORT)

    async def carry_work(
        self, source: Rootfs, onto: Rootfs, paths: tuple[str, ...], home: str | None, target: Path
    ) -> Path:
        stacks = [([str(layer) for layer in place.layers], place.host_dirs) for place in (source, onto)]
        await _run_in_thread(
            carry_work, stacks[0], stacks[1], paths, home, str(target), keep_owner=self._keep_owner
        )
        return target.with_name(target.name + REPORT)

    async def note(self, tree: Path, manifest: Path) -> bool:
        return await _run_in_thread(note_tree, str(tree), str(manifest))

    async def compare(
        self,
        noted: tuple[Path, Path],
        below: Rootfs,
        report: Path,
        aside: tuple[str, ...],
        counted: tuple[str, ...] = (),
    ) -> None:
        tree, manifest = map(str, noted)
        layers = [str(layer) for layer in below.layers]
        await _run_in_thread(
            compare_tree, tree, manifest, (layers, below.host_dirs), str(report), aside, counted
        )

    async def examine(self, final: Rootfs, start: Rootfs, wanted: Mapping[str, Any], report: Path) -> None:
        stacks = [([str(layer) for layer in place.layers], place.host_dirs) for place in (final, start)]
        await _run_stoppable(examine_work, stacks[0], stacks[1], wanted, str(report))

    async def sync(self, path: Path) -> None:
        await _run_in_thread(sync_tree, str(path))


async def unpack_plain(archive: Path, target: Path, most_entries: int, most_bytes: int) -> None:
    """Unpack a tar that is not a layer into an existing folder: files, folders and links readable for all.

    Owners, further rights, devices and attributes are left out. Raises ImageError over a limit.
    """
    limits = ArchiveLimits(entries=most_entries, bytes=most_bytes)
    try:
        await _run_in_thread(
            unpack_layer, str(archive), str(target), keep_owner=False, limits=limits, plain=True
        )
    except ValueError as error:
        raise ImageError(str(error)) from error


async def _run_stoppable(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run in a thread, which ends soon when this is cancelled, with its result half made."""
    return await _run_flagged(trees.StopFlag(), function, *args, **kwargs)


async def run_within(seconds: float, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run in a thread until it has used the processor for so long, then raise Stopped.

    A thread that waits for a busy machine delays no other work, but may not wait for ever. It ends soon when
    this is cancelled too.
    """
    loop, flag = asyncio.get_running_loop(), trees.StopFlag()
    last = loop.time() + seconds * _PATIENCE
    clocks: list[tuple[int, float]] = []

    def timed(*args: P.args, **kwargs: P.kwargs) -> T:
        clocks.append((time.pthread_getcpuclockid(threading.get_ident()), time.thread_time()))
        return function(*args, **kwargs)

    def look() -> None:
        used = max((time.clock_gettime(clock) - began for clock, began in clocks), default=0.0)
        if used >= seconds or loop.time() >= last:
            flag.stop()
        else:
            timers.append(loop.call_later(seconds / 2, look))

    timers = [loop.call_later(seconds, look)]
    try:
        return await _run_flagged(flag, timed, *args, **kwargs)
    finally:
        timers[-1].cancel()


async def _run_flagged(
    flag: trees.StopFlag, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    def run() -> T:
        with flag:
            return function(*args, **kwargs)

    running = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        flag.stop()
        await asyncio.wait([running])
        # Retrieved, so that no warning about an unread exception is logged.
        running.exception()
        raise


async def _run_in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run in a thread; when cancelled, wait for its end first, so that its files are not cleared under it."""
    running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
