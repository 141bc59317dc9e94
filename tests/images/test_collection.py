"""Collection: what was not used for longest goes, and what is needed stays."""

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

from benchyard.devboxes.local_trees import LocalTrees
from benchyard.images.builders.base import Builder, BuildRecipe, BuiltImage, Log
from benchyard.images.collection import Collector
from benchyard.images.store import Image, ImageIdentity, ImageStore

T = TypeVar("T")
MEGABYTE = 1024**2


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


class Cache(Builder):
    """A builder that has a cache and builds nothing."""

    def __init__(self, folder: Path, used: float) -> None:
        self.file = folder / "builder" / "cache"
        self.file.parent.mkdir()
        self.file.write_bytes(os.urandom(MEGABYTE))
        self._used = used

    async def build(self, recipe: BuildRecipe, identity: ImageIdentity, log: Log) -> BuiltImage:
        raise NotImplementedError

    async def pull(self, reference: str, identity: ImageIdentity, log: Log) -> Image:
        raise NotImplementedError

    async def forget(self) -> bool:
        was_there = self.file.exists()
        self.file.unlink(missing_ok=True)
        return was_there

    def last_used(self) -> float:
        return self._used


async def filled(store: ImageStore, tmp_path: Path, names: str) -> dict[str, Image]:
    """Images of a megabyte each, used in the order of their names, long ago."""
    await store.open()
    made = {}
    for number, name in enumerate(names):
        root = tmp_path / f"root-{name}"
        (root / "usr").mkdir(parents=True)
        (root / "usr/data").write_bytes(os.urandom(MEGABYTE))
        made[name] = await store.import_archive(root, name)
        record = tmp_path / "store/images" / f"{made[name].id}.json"
        os.utime(record, (1000 + number, 1000 + number))
    return made


def test_the_longest_unused_goes_first_and_no_more_than_needed(store: ImageStore, tmp_path: Path) -> None:
    async def scene() -> None:
        await filled(store, tmp_path, "abc")
        collector = Collector(store, tmp_path / "store", LocalTrees(), Cache(tmp_path / "store", 1001.5))
        used = await collector.used_bytes()
        assert (await collector.collect(used)).removed == ()
        done = await collector.collect(used - MEGABYTE // 2)
        assert (done.removed, done.cleared_cache) == (("a",), False)
        assert done.freed_bytes >= MEGABYTE
        assert done.used_bytes == await collector.used_bytes() < used
        done = await collector.collect(done.used_bytes - MEGABYTE * 3 // 2)
        assert (done.removed, done.cleared_cache) == (("b",), True)
        assert [image.name for image in await store.list()] == ["c", "host"]

    run(scene())


def test_needed_images_stay_at_any_age(store: ImageStore, tmp_path: Path) -> None:
    async def scene() -> None:
        made = await filled(store, tmp_path, "abcdef")
        collector = Collector(store, tmp_path / "store", LocalTrees(), Cache(tmp_path / "store", 0))
        collector.pins.set(made["a"].id)
        collector.aliases.set("ubuntu", "b")
        store.hold(made["c"], "dbx_1")

        async def needed() -> set[str]:
            return {made["d"].id}

        collector.protect(needed)
        (tmp_path / "changes").mkdir()
        await store.add_layer(made["e"], tmp_path / "changes", "snp_1", move=True)
        done = await collector.collect(0)
        assert set(done.removed) == {"e", "f"}
        left = {image.name for image in await store.list()}
        assert left == {"host", "a", "b", "c", "d", "snp_1"}
        store.rootfs(await store.get("snp_1"))
        collector.pins.remove(made["a"].id)
        await store.release("dbx_1")
        assert set((await collector.collect(0)).removed) == {"a", "c"}

    run(scene())


def test_a_devbox_that_starts_makes_its_image_young(store: ImageStore, tmp_path: Path) -> None:
    async def scene() -> None:
        made = await filled(store, tmp_path, "ab")
        store.hold(made["a"], "dbx_1")
        await store.release("dbx_1")
        collector = Collector(store, tmp_path / "store", LocalTrees(), Cache(tmp_path / "store", 9e12))
        done = await collector.collect(await collector.used_bytes() - 1)
        assert done.removed == ("b",)

    run(scene())
