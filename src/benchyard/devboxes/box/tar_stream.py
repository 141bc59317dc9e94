"""Tar archives of the usual compressions, read once from front to back under limits."""

import bz2
import gzip
import io
import lzma
import os
import shutil
import subprocess
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any, cast

from benchyard.devboxes.box import stop

_CHUNK = 256 * 1024
_HEADER_BYTES = 4 * 1024**2
_TRAILER_BYTES = 1024**2
_BROKEN = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, RecursionError)


@dataclass(frozen=True)
class Limits:
    """How much one archive may hold before it is refused."""

    entries: int = 2_000_000
    bytes: int = 64 * 1024**3
    """Of all files together, and of the unpacked stream."""
    path_bytes: int = 4096


@dataclass(frozen=True)
class Member:
    """One entry of an archive, and a reader of its content."""

    info: tarfile.TarInfo
    chunks: Iterator[bytes]


def members(archive: str, limits: Limits) -> Iterator[Member]:
    """The entries of a tar in order; each one's chunks are to be read before the next. Raises ValueError."""
    with _opened(archive) as raw:
        stream = _Forward(raw, limits.bytes)
        stream.budget = _HEADER_BYTES
        with _explained():
            file = cast(IO[bytes], stream)
            tar = tarfile.TarFile(fileobj=file, mode="r", encoding="utf-8", errors="surrogateescape")
        yield from _members(tar, stream, limits)
        with _explained():
            stream.drain(_TRAILER_BYTES)


@contextmanager
def _explained() -> Iterator[None]:
    """Signs of a broken archive become ValueError; decompressors raise OSError without a number."""
    try:
        yield
    except _BROKEN as error:
        raise ValueError(f"not a readable tar archive ({type(error).__name__}: {error})") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise ValueError(f"not a readable tar archive: {error}") from error


def _next(tar: tarfile.TarFile) -> tarfile.TarInfo | None:
    with _explained():
        return tar.next()


def _members(tar: tarfile.TarFile, stream: "_Forward", limits: Limits) -> Iterator[Member]:
    entries = total = 0
    while (info := _next(tar)) is not None:
        entries += 1
        total += info.size
        if entries > limits.entries:
            raise ValueError(f"the archive has more than {limits.entries} entries")
        if info.size < 0 or total > limits.bytes:
            raise ValueError(f"the archive holds more than {limits.bytes} bytes")
        stream.budget = info.size + _HEADER_BYTES
        yield Member(info, _chunks(tar, info))
        cast(Any, tar).members.clear()  # tarfile would keep all of them in memory
        stream.budget = _HEADER_BYTES
    if stream.last.strip(b"\0"):
        raise ValueError(f"the archive is broken at byte {stream.tell()}")


def _chunks(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[bytes]:
    reader = tar.extractfile(info) if info.isreg() else None
    if reader is None:
        return
    left = info.size
    while left > 0:
        with _explained():
            chunk = reader.read(min(_CHUNK, left))
        if not chunk:
            raise ValueError(f"the archive ends inside {info.name!r}")
        left -= len(chunk)
        yield chunk


class _Forward(io.RawIOBase):
    """What tarfile reads from: goes forward only, and never hands out more than its budget and limit."""

    def __init__(self, raw: IO[bytes], limit: int) -> None:
        super().__init__()
        self.budget = 0
        self.last = b""
        self._raw = raw
        self._limit = limit
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self.budget:
            raise ValueError(f"the archive has a header of more than {_HEADER_BYTES} bytes")
        self.budget -= size
        self.last = self._take(size)
        return self.last

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET or offset < self._position:
            raise ValueError("the archive points backwards")
        if not self._skip(offset):
            raise ValueError("the archive is cut short")
        return self._position

    def drain(self, most: int) -> None:
        """Read what follows the end mark, so that checksums of the compression are checked."""
        while most > 0 and (chunk := self._raw.read(min(_CHUNK, most))):
            most -= len(chunk)

    def _take(self, size: int) -> bytes:
        stop.check()
        if self._position + size > self._limit + _HEADER_BYTES:
            raise ValueError(f"the archive unpacks to more than {self._limit} bytes")
        data = self._raw.read(size)
        self._position += len(data)
        return data

    def _skip(self, offset: int) -> bool:
        while self._position < offset:
            if not self._take(min(_CHUNK, offset - self._position)):
                return False
        return True


@contextmanager
def _opened(archive: str) -> Iterator[IO[bytes]]:
    with open(archive, "rb") as plain:
        magic = os.pread(plain.fileno(), 6, 0)
        if magic.startswith(b"\x28\xb5\x2f\xfd"):
            with _zstd(plain) as stream:
                yield stream
        elif magic.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=plain) as gzipped:
                yield cast(IO[bytes], gzipped)
        elif magic == b"\xfd7zXZ\x00":
            with lzma.LZMAFile(plain) as xz:
                yield xz
        elif magic.startswith(b"BZh"):
            with bz2.BZ2File(plain) as bzipped:
                yield bzipped
        else:
            yield plain


@contextmanager
def _zstd(plain: IO[bytes]) -> Iterator[IO[bytes]]:
    program = shutil.which("zstd")
    if program is None:
        raise ValueError("the archive is compressed with zstd: install the package zstd, or unpack it first")
    process = subprocess.Popen(
        [program, "-dcq"], stdin=plain, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    output = cast(IO[bytes], process.stdout)
    try:
        yield output
        if output.read(1) == b"" and process.wait() != 0:
            raise ValueError("not a readable tar archive: zstd could not decompress it")
    finally:
        output.close()
        process.kill()
        process.wait()
