"""Answers: some paths of a frozen disk, carried over onto the state from which the work began."""

import asyncio
import posixpath
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchyard.devboxes.box import report_lines
from benchyard.errors import ScorerFailed, UsageError
from benchyard.images.store import Image, ImageStore

_MOST_PATHS = 256
_MOST_CHARACTERS = 32 * 1024


@dataclass(frozen=True)
class Carried:
    """What became of an answer."""

    entries: int
    """Files, folders and links."""
    bytes: int
    refused: list[str]
    """What was left out: each path, and why."""
    paths: tuple[str, ...] = ()
    """Where it is whole as it was left."""
    home: str | None = None
    """Where only what is visible is as it was left, unless one of the paths leads to it."""

    def has(self, path: str) -> bool:
        """Whether something is as it was left, and not as it was at the start."""
        named = [each for each in self.paths if f"{path}/".startswith(f"{each}/")]
        if self.home is None or not path.startswith(f"{self.home}/"):
            return bool(named)
        is_visible = not path.removeprefix(f"{self.home}/").startswith(".")
        return is_visible or any(each.startswith(f"{self.home}/") for each in named)


def checked(paths: Sequence[str]) -> tuple[str, ...]:
    """The outermost of these absolute paths, in order; raises UsageError for what cannot be one."""
    if len(paths) > _MOST_PATHS or sum(map(len, paths)) > _MOST_CHARACTERS:
        raise UsageError(
            f"an answer has at most {_MOST_PATHS} paths, of {_MOST_CHARACTERS} characters in all"
        )
    found: list[str] = []
    for path in sorted({posixpath.normpath(path) for path in paths if _is_plain(path)}):
        if not found or not path.startswith(f"{found[-1]}/"):
            found.append(path)
    return tuple(found)


def _is_plain(path: str) -> bool:
    if not path.startswith("/") or ".." in path.split("/") or not path.strip("/") or "\0" in path:
        raise UsageError(f"{path[:200]!r} is not a path of an answer: give an absolute one, without '..'")
    return True


async def make_image(
    store: ImageStore, stacks: tuple[Image, Image], paths: tuple[str, ...], image_id: str
) -> Carried:
    """Make an image of the second one that has these paths as the first one has them."""
    source, onto = (store.rootfs(each) for each in stacks)
    return await _with_layer(store, stacks, partial(store.trees.carry, source, onto, paths), image_id)


async def make_work_image(
    store: ImageStore,
    stacks: tuple[Image, Image],
    paths: tuple[str, ...],
    home: str | None,
    image_id: str,
) -> Carried:
    """Make an image of the second one that has the work in these paths and the home as the first one has."""
    source, onto = (store.rootfs(each) for each in stacks)
    carry = partial(store.trees.carry_work, source, onto, paths, home)
    return await _with_layer(store, stacks, carry, image_id)


async def _with_layer(
    store: ImageStore,
    stacks: tuple[Image, Image],
    carry: Callable[[Path], Awaitable[Path]],
    image_id: str,
) -> Carried:
    source, onto = stacks
    async with store.scratch() as scratch:
        layer = scratch / "answer"
        report = await carry(layer)
        told, refused = await asyncio.to_thread(_read, report)
        if told["exceeded"]:
            raise ScorerFailed(f"{told['exceeded']}: name fewer paths, or let the agent leave less there")
        await store.add_layer(onto, layer, image_id, move=True, kind=source.kind)
    return Carried(told["entries"], told["bytes"], refused, tuple(told["paths"]), told["home"])


def _read(report: Path) -> tuple[dict[str, Any], list[str]]:
    with report.open() as lines:
        return report_lines.read(lines)
