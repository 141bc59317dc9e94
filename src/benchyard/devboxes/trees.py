"""File trees handled by this very process, for root and for drivers that map no ids."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

from benchyard.devboxes.base import Trees
from benchyard.devboxes.box.trees import copy_tree, remove_tree, sync_tree, tree_usage
from benchyard.devboxes.box.unpack import unpack_layer
from benchyard.errors import ImageError

P = ParamSpec("P")
T = TypeVar("T")


class LocalTrees(Trees):
    """Trees in threads of this process; owners are kept where this process may set them."""

    def __init__(self, *, keep_owner: bool | None = None) -> None:
        self._keep_owner = os.geteuid() == 0 if keep_owner is None else keep_owner

    async def copy(self, source: Path, target: Path) -> None:
        await _in_thread(copy_tree, str(source), str(target), keep_owner=self._keep_owner)

    async def remove(self, path: Path) -> None:
        await _in_thread(remove_tree, str(path))

    async def usage(self, path: Path) -> tuple[int, int]:
        return await _in_thread(tree_usage, str(path))

    async def unpack(self, archive: Path, target: Path) -> None:
        try:
            await _in_thread(unpack_layer, str(archive), str(target), keep_owner=self._keep_owner)
        except ValueError as error:
            raise ImageError(f"{archive.name}: {error}") from error

    async def sync(self, path: Path) -> None:
        await _in_thread(sync_tree, str(path))


async def _in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run in a thread; when cancelled, wait for its end first, so that nobody clears up under its feet."""
    running = asyncio.ensure_future(asyncio.to_thread(function, *args, **kwargs))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise
