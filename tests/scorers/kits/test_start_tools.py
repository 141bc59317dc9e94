"""Tools of an image as a kit: they run by themselves, and of no hostile image anything is believed."""

import asyncio
import os
import struct
import subprocess
from pathlib import Path

import pytest

from benchyard.devboxes import elf
from benchyard.devboxes.base import Rootfs
from benchyard.hosts.kits import KitFolders
from benchyard.scorers.kits import start_tools

HOST = ("bin", "lib", "lib64", "usr")


def own_dirs() -> list[str]:
    """This machine's folders of programs, and its links to them."""
    return [name for name in HOST if Path("/", name).is_dir() and not Path("/", name).is_symlink()]


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    made = tmp_path / "layer"
    made.mkdir()
    for name in HOST:
        if Path("/", name).is_symlink():
            (made / name).symlink_to(Path("/", name).readlink())
    return made


def test_tools_of_an_image_are_found_once(tmp_path: Path, layer: Path) -> None:
    async def make() -> None:
        kits = KitFolders(tmp_path / "kits")
        rootfs = Rootfs((layer,), tuple(own_dirs()))
        kit = await start_tools.make(rootfs, kits)
        assert kit is not None
        assert kit == await start_tools.make(rootfs, kits)
        names = {each.name for each in (kit.source / "bin").iterdir()}
        assert {"bash", "cat", "grep", "sed", "diff", "find", "stat"} <= names
        assert "python3" not in names
        for name in ("bash", "cat"):
            content = (kit.source / "bin" / name).read_bytes()
            assert elf.loader(content) == f"{kit.target}/loader"
        assert f'PATH="{kit.target}/bin:$PATH"' in (kit.source / start_tools.ENVIRONMENT).read_text()

    asyncio.run(make())


def test_an_image_without_a_shell_has_no_kit(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    rootfs = Rootfs((tmp_path / "empty",), ())
    assert asyncio.run(start_tools.make(rootfs, KitFolders(tmp_path / "kits"))) is None


def test_an_invalid_shell_has_no_kit(tmp_path: Path) -> None:
    """Whatever it is: nothing of an image is run on this machine, or makes its reader fail the scoring."""
    hostile = elf.MAGIC + bytes(10) + struct.pack("<Q", 2**60) * 20
    for number, content in enumerate((b"#!/bin/sh\ntouch /tmp/run-on-the-host\n", hostile, hostile[:70])):
        folder = tmp_path / str(number)
        (folder / "usr/bin").mkdir(parents=True)
        (folder / "usr/bin/bash").write_bytes(content)
        (folder / "usr/bin/cat").symlink_to("/../../etc/passwd")
        assert asyncio.run(start_tools.make(Rootfs((folder,), ()), KitFolders(tmp_path / "kits"))) is None


def test_libraries_of_a_program_are_listed() -> None:
    told = elf.needed_libraries(Path("/bin/bash").resolve().read_bytes())
    listed = subprocess.run(["ldd", "/bin/bash"], capture_output=True, text=True, check=True).stdout
    assert told
    assert all(name in listed for name in told)
    assert os.sep not in "".join(told)
