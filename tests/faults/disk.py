"""A small disk of its own for a data folder: filled to the last block, or cut off as when the power goes."""

import fcntl
import os
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchyard.testing.contracts.driver_fixture import PATIENCE_SECONDS, holders

_MIB = 1024**2
_EXT4_IOC_SHUTDOWN = 0x8004587D
_WITHOUT_FLUSH = 2


class SmallDisk:
    """A filesystem mounted at `data`."""

    def __init__(self, data: Path, source: str | Path, options: list[str]) -> None:
        self.data = data
        self._source = source
        self._options = options
        self._device = ""
        self._ballast = data / "ballast"

    def power_on(self) -> None:
        """Mount it; skips the test where that is not possible."""
        source = self._source
        if isinstance(source, Path):
            # A new device each time: who copied all mounts of the machine may still have the old one.
            source = self._device = _output("losetup", "--find", "--show", source)
        _output("mount", *self._options, source, self.data)

    def unmount(self) -> None:
        """Take it away; fails if anything on it stays open."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while subprocess.run(["umount", "-q", self.data], check=False).returncode:
            assert time.monotonic() < deadline, f"processes that stay: {holders(self.data)}"
            time.sleep(0.1)
        if self._device:
            _output("losetup", "--detach", self._device)

    def cut_power(self) -> None:
        """From now on nothing reaches the disk, not even what was written before and not synced (ext4)."""
        descriptor = os.open(self.data, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _EXT4_IOC_SHUTDOWN, struct.pack("I", _WITHOUT_FLUSH))
        finally:
            os.close(descriptor)

    def fill(self) -> None:
        """Take every block that is free; what is freed by others stays free until this is called again."""
        with self._ballast.open("ab") as file:
            size, piece = file.tell(), 16 * _MIB
            while piece >= 4096:
                try:
                    os.posix_fallocate(file.fileno(), size, piece)
                    size += piece
                except OSError:
                    piece //= 2

    def leave(self, mebibytes: int) -> None:
        """Take every block but some."""
        self.fill()
        os.truncate(self._ballast, self._ballast.stat().st_size - mebibytes * _MIB)

    def free(self) -> None:
        """Give everything back."""
        self._ballast.unlink(missing_ok=True)


def _output(*command: str | Path) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this machine has no small disk for a test: {done.stderr.strip()}")
    return done.stdout.strip()


@contextmanager
def small_disk(folder: Path, kind: str, mebibytes: int) -> Iterator[SmallDisk]:
    """Mount one, in memory (`tmpfs`) or in a file (`ext4`); gone afterwards."""
    data = folder / "data"
    data.mkdir()
    if kind == "tmpfs":
        disk = SmallDisk(data, "tmpfs", ["-t", "tmpfs", "-o", f"size={mebibytes}m,nr_inodes=0"])
    else:
        image = folder / "disk.img"
        with image.open("wb") as file:
            file.truncate(mebibytes * _MIB)
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", image], check=True)
        disk = SmallDisk(data, image, ["-t", "ext4"])
    disk.power_on()
    try:
        yield disk
    finally:
        disk.unmount()
