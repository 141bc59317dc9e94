"""Output of commands in files: followed as it grows, its last lines, and the limit on its size."""

import asyncio
import os
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from benchyard.devboxes.base import DevboxLimits
from benchyard.errors import UsageError

CHUNK_BYTES = 64 * 1024
MAX_TAIL_BYTES = 1024 * 1024
_STREAMS = ("stdout", "stderr")
_FIRST_DELAY_SECONDS = 0.01
_LONGEST_DELAY_SECONDS = 0.2


def check_stream(stream: str) -> str:
    """Return the name if it is that of a stream; else raise UsageError."""
    if stream not in _STREAMS:
        raise UsageError(f"{stream!r} is not a stream of an execution; there are: {', '.join(_STREAMS)}")
    return stream


async def follow(path: Path, offset: int, done: asyncio.Event) -> AsyncGenerator[bytes, None]:
    """Yield the content from a byte offset on, until `done` is set and all of it was read."""
    delay = _FIRST_DELAY_SECONDS
    while True:
        is_last = done.is_set()
        before = offset
        async for data in read(path, offset):
            offset += len(data)
            yield data
        if is_last:
            return
        delay = _FIRST_DELAY_SECONDS if offset > before else min(delay * 1.5, _LONGEST_DELAY_SECONDS)
        await _either(done, delay)


async def _either(done: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await done.wait()
    except TimeoutError:
        return


async def read(path: Path, offset: int) -> AsyncGenerator[bytes, None]:
    """Yield the present content from a byte offset on; no bytes while the file does not exist."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        while data := os.pread(descriptor, CHUNK_BYTES, offset):
            offset += len(data)
            yield data
    finally:
        os.close(descriptor)


def size(path: str | Path) -> int:
    """Return the bytes in the file; 0 while it does not exist."""
    try:
        return os.stat(path).st_size  # noqa: PTH116  (done for every command)
    except FileNotFoundError:
        return 0


def tail(path: Path, lines: int) -> tuple[str, bool]:
    """Return the last lines as text, at most MAX_TAIL_BYTES of them, and True if anything was left out."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return "", False
    try:
        end = os.fstat(descriptor).st_size
        start = end
        blocks: list[bytes] = []
        breaks = 0
        while start > 0 and end - start < MAX_TAIL_BYTES and breaks <= lines:
            until, start = start, max(0, start - CHUNK_BYTES)
            blocks.insert(0, os.pread(descriptor, until - start, start))
            breaks += blocks[0].count(b"\n")
    finally:
        os.close(descriptor)
    data = b"".join(blocks)
    kept = _last_lines(data, lines)
    if len(kept) == len(data) and start > 0:
        kept = _from_whole_character(kept)
    return kept.decode(errors="replace"), len(kept) < end


def _last_lines(data: bytes, lines: int) -> bytes:
    if lines <= 0:
        return b""
    # A newline at the very end closes the last line, it does not begin another.
    position = len(data) - 1 if data.endswith(b"\n") else len(data)
    for _ in range(lines):
        position = data.rfind(b"\n", 0, position)
        if position < 0:
            return data
    return data[position + 1 :]


def _from_whole_character(data: bytes) -> bytes:
    start = 0
    while start < min(3, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]


LEAST_BYTES = 1024**2
"""Bytes always granted to a stream: a command without any output could not report why it failed."""
MOST_SPARE_BYTES = 1024**3
_SPARE_PART = 20


@dataclass
class OutputBudget:
    """The limit on all outputs of this machine together."""

    most_bytes: int | None = None
    kept_bytes: int = 0
    """Bytes of outputs at the last measurement, and of those completed since then."""
    spare_bytes: int = 0
    """Bytes of the disk to leave to others."""

    def measure_disk(self, folder: Path) -> None:
        """Set the space left to others: a part of the disk that holds the outputs."""
        disk = os.statvfs(folder)
        self.spare_bytes = min(MOST_SPARE_BYTES, disk.f_blocks * disk.f_frsize // _SPARE_PART)

    def stream_bytes(self, limits: DevboxLimits, used_bytes: int) -> int:
        """Return the limit of each stream of a devbox's next command, given the bytes already used."""
        if self.most_bytes is not None and self.kept_bytes >= self.most_bytes:
            return min(LEAST_BYTES, limits.output_bytes)
        if limits.all_output_bytes is None:
            return limits.output_bytes
        left = (limits.all_output_bytes - used_bytes) // 2
        return min(limits.output_bytes, max(left, LEAST_BYTES))


def tree_bytes(folder: Path) -> int:
    """Return the bytes of the outputs below a folder of executions; blocks."""
    total = 0
    try:
        with os.scandir(folder) as executions:
            for execution in executions:
                for stream in ("stdout", "stderr"):
                    try:
                        total += os.stat(f"{execution.path}/{stream}").st_size  # noqa: PTH116  (many of them)
                    except OSError:
                        continue
    except OSError:
        return 0
    return total
