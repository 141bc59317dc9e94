"""Folders that are made once: by tasks, by processes, after crashes, and within a size."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benchyard.errors import ScorerFailed
from benchyard.hosts.kits import SPARED_SECONDS, KitFolders

MAKES = """
import asyncio, os, sys
from pathlib import Path
from benchyard.hosts.kits import KitFolders

async def fill(folder):
    (folder / "file").write_text(str(os.getpid()))
    if len(sys.argv) > 2:
        print("filling", flush=True)
        await asyncio.sleep(600)
    await asyncio.sleep(0.3)

print(asyncio.run(KitFolders(Path(sys.argv[1])).folder("key", fill)).joinpath("file").read_text())
"""
PATIENCE_SECONDS = 60


async def small(folder: Path) -> None:
    (folder / "file").write_bytes(b"x" * 100_000)


def process(root: Path, *more: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", MAKES, str(root), *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_a_folder_is_filled_once_for_all_who_ask(tmp_path: Path) -> None:
    kits, fills = KitFolders(tmp_path / "kits"), []

    async def fill(folder: Path) -> None:
        fills.append(folder)
        await asyncio.sleep(0.05)
        await small(folder)

    async def ask() -> set[Path]:
        return set(await asyncio.gather(*(kits.folder("key", fill) for _ in range(20))))

    (made,) = asyncio.run(ask())
    assert len(fills) == 1
    assert (made / "file").exists()
    assert asyncio.run(ask()) == {made}
    assert len(fills) == 1
    assert asyncio.run(KitFolders(tmp_path / "kits").folder("other", fill)) != made


def test_a_folder_is_filled_once_for_all_processes(tmp_path: Path) -> None:
    asking = [process(tmp_path) for _ in range(3)]
    said = {one.communicate(timeout=PATIENCE_SECONDS)[0] for one in asking}
    assert len(said) == 1


def test_a_fill_that_fails_leaves_nothing_and_is_tried_again(tmp_path: Path) -> None:
    kits = KitFolders(tmp_path)

    async def fails(folder: Path) -> None:
        (folder / "half").mkdir()
        raise ScorerFailed("no network")

    with pytest.raises(ScorerFailed, match="no network"):
        asyncio.run(kits.folder("key", fails))
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == []
    assert [path.name for path in asyncio.run(kits.folder("key", small)).iterdir()] == ["file"]


def test_half_made_kit_of_a_killed_process_is_made_again(tmp_path: Path) -> None:
    killed = process(tmp_path, "hang")
    assert killed.stdout is not None
    assert killed.stdout.readline() == "filling\n"
    asyncio.run(KitFolders(tmp_path).sweep())
    assert len(list(tmp_path.glob("*.partial"))) == 1, "somebody is busy with it"
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=PATIENCE_SECONDS)
    asyncio.run(KitFolders(tmp_path).sweep())
    assert list(tmp_path.glob("*.partial")) == []
    (tmp_path / f"{next(tmp_path.glob('*.lock')).stem}.partial").mkdir()
    assert process(tmp_path).communicate(timeout=PATIENCE_SECONDS)[0].strip().isdigit()


def test_trimming_takes_downloads_then_what_was_not_asked_for_the_longest(tmp_path: Path) -> None:
    kits = KitFolders(tmp_path)

    async def live() -> None:
        made = {key: await kits.folder(key, small) for key in ("new", "old", "older", "oldest", "held")}
        (kits.downloads("uv") / "wheel").write_bytes(b"x" * 100_000)
        ages = {"old": 1, "older": 2, "oldest": 3, "held": 4}
        for key, age in ages.items():
            moment = time.time() - SPARED_SECONDS - age
            os.utime(made[key].with_name(f"{made[key].name}.used"), (moment, moment))

        def left() -> list[str]:
            return [key for key, folder in made.items() if folder.exists()]

        held = {made["held"]}
        assert await kits.trim(700_000, held) > 600_000
        assert (kits.downloads("uv") / "wheel").exists()
        assert await kits.trim(550_000, held) <= 550_000
        assert left() == ["new", "old", "older", "oldest", "held"]
        assert not (kits.downloads("uv") / "wheel").exists()
        await kits.trim(450_000, held)
        assert left() == ["new", "old", "older", "held"]
        await kits.folder("older", small)
        await kits.trim(350_000, held)
        assert left() == ["new", "older", "held"]
        assert await kits.trim(0, held) > 300_000
        assert left() == ["new", "older", "held"]
        await kits.folder("old", small)
        assert left() == ["new", "old", "older", "held"]

    asyncio.run(live())
