"""Trees handled in threads of this process."""

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from benchyard.devboxes import local_trees as module
from benchyard.devboxes.base import Rootfs
from benchyard.devboxes.local_trees import LocalTrees
from benchyard.devboxes.native.trees import RootTrees
from benchyard.devboxes.native.zygote import ZygoteProcess
from benchyard.errors import ImageError


def test_every_verb_reaches_the_disk(tmp_path: Path) -> None:
    async def run() -> tuple[int, int]:
        trees = LocalTrees()
        (tmp_path / "a").mkdir()
        (tmp_path / "a/f").write_text("x")
        await trees.copy(tmp_path / "a", tmp_path / "b")
        await trees.sync(tmp_path / "b")
        usage = await trees.usage(tmp_path / "b")
        await trees.remove(tmp_path / "a")
        await trees.remove(tmp_path / "a")
        return usage

    size, entries = asyncio.run(run())
    assert entries == 1
    assert size > 0
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_invalid_tar_is_an_image_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "broken.tar").write_bytes(b"x" * 1000)
    (tmp_path / "target").mkdir()
    with pytest.raises(ImageError, match=r"broken\.tar: not a readable tar"):
        asyncio.run(LocalTrees().unpack(tmp_path / "broken.tar", tmp_path / "target"))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give files away")
def test_owners_can_be_left_behind(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/f").write_text("x")
    os.chown(tmp_path / "a/f", 12345, 12345)
    asyncio.run(LocalTrees(keep_owner=False).copy(tmp_path / "a", tmp_path / "b"))
    assert (tmp_path / "b/f").stat().st_uid == 0


def test_a_cancelled_verb_ends_before_the_cancellation_is_felt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(path: str) -> None:
        started.set()
        go_on.wait(30)
        ended.set()

    monkeypatch.setattr(module, "remove_tree", slow)

    async def run() -> None:
        task = asyncio.create_task(LocalTrees().remove(tmp_path))
        await asyncio.to_thread(started.wait, 30)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(run())


def test_a_removal_that_is_cancelled_ends_soon_and_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(50):
        (tree / str(number)).touch()
    begun, goes_on = threading.Event(), threading.Event()
    unlink = os.unlink

    def slow(*arguments: Any, **options: Any) -> None:
        unlink(*arguments, **options)
        begun.set()
        assert goes_on.wait(30)

    async def run() -> None:
        removal = asyncio.create_task(LocalTrees().remove(tree))
        assert await asyncio.to_thread(begun.wait, 30)
        removal.cancel()
        await asyncio.sleep(0)
        goes_on.set()
        with pytest.raises(asyncio.CancelledError):
            await removal

    with monkeypatch.context() as patched:
        patched.setattr(os, "unlink", slow)
        asyncio.run(run())
    assert len(list(tree.iterdir())) == 49
    asyncio.run(LocalTrees().remove(tree))
    assert not tree.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="these are the trees of root")
@pytest.mark.parametrize("is_long", [False, True])
def test_long_work_in_a_child_process_has_the_same_result(tmp_path: Path, *, is_long: bool) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    children: list[dict[str, Any]] = []

    class Noted(ZygoteProcess):
        async def ask(self, message: dict[str, Any], *rest: Any) -> Any:
            children.append(message)
            return await super().ask(message, *rest)

    async def run() -> None:
        zygote = Noted(tmp_path)
        # Before a thread has begun, or never.
        trees = RootTrees(zygote, moment=-1.0 if is_long else 60.0)
        try:
            assert await trees.note(tree, tmp_path / "mark")
            for number in range(20_000 if is_long else 20):
                (tree / str(number)).touch()
            _, entries = await trees.usage(tree)
            assert entries == (20_000 if is_long else 20)
            await trees.compare((tree, tmp_path / "mark"), Rootfs(()), tmp_path / "report", ())
            assert json.loads((tmp_path / "report").read_text())["total"] == entries
            await trees.remove(tree)
        finally:
            zygote.close()

    asyncio.run(run())
    assert not tree.exists()
    wanted = ["usage", "compare", "remove_slowly"] if is_long else []
    assert [each["call"] for each in children] == wanted


@pytest.mark.skipif(os.geteuid() != 0, reason="these are the trees of root")
def test_many_files_are_walked_apart_from_the_start_and_remains_without_a_thread(tmp_path: Path) -> None:
    tree, children = tmp_path / "tree", list[str]()
    tree.mkdir()

    class Noted(ZygoteProcess):
        async def ask(self, message: dict[str, Any], *rest: Any) -> Any:
            children.append(message["call"])
            return await super().ask(message, *rest)

    async def run() -> None:
        zygote = Noted(tmp_path)
        trees = RootTrees(zygote, moment=60.0)
        try:
            for number in range(300):
                (tree / str(number)).touch()
            assert (await trees.usage(tree))[1] == 300
            assert children == []
            assert (await trees.usage(tree, 1024**3))[1] == 300
            await trees.remove(tree)
            assert children == ["usage", "remove_slowly"]
            (tmp_path / "empty").mkdir()
            (tmp_path / "link").symlink_to(tmp_path / "empty")
            for name in ("link", "empty", "missing"):
                await trees.remove(tmp_path / name)
        finally:
            zygote.close()

    asyncio.run(run())
    assert not tree.exists()
    assert not (tmp_path / "link").is_symlink()
    assert not (tmp_path / "empty").exists()
    assert len(children) == 2
