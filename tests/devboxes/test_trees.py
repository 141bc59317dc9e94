"""Trees handled in threads of this process."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from benchyard.devboxes import trees as module
from benchyard.devboxes.trees import LocalTrees
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


def test_what_is_no_tar_is_an_image_error_that_names_the_file(tmp_path: Path) -> None:
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
