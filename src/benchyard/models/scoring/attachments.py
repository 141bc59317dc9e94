"""Archives that are stored beside scenarios: the same files always make the same bytes."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchyard.errors import UsageError

MOST_PACKED_BYTES = 256 * 1024**2
"""Limit on all files of an archive together."""
MOST_PACKED_FILES = 100_000
_MOST_PLAIN_BYTES = MOST_PACKED_BYTES + MOST_PACKED_FILES * 2048
"""Limit on an uncompressed archive: its files, and a header for each of them."""
_MODES = 0o777


@dataclass(frozen=True)
class PackedFile:
    """A file in an archive."""

    content: bytes
    mode: int = 0o644


def pack_files(files: Mapping[str, PackedFile]) -> bytes:
    """Pack these files into a compressed archive."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name in sorted(files):
            about = tarfile.TarInfo(name)
            about.size = len(files[name].content)
            about.mode = files[name].mode & _MODES
            archive.addfile(about, io.BytesIO(files[name].content))
    return gzip.compress(plain.getvalue(), compresslevel=6, mtime=0)


def unpack_files(archive: bytes) -> Iterator[tuple[str, PackedFile]]:
    """Yield the files of an archive with their paths; raises UsageError if it is invalid or too large."""
    left = MOST_PACKED_BYTES
    try:
        with tarfile.open(fileobj=_Bounded(archive), mode="r|") as opened:
            for count, about in enumerate(opened):
                left -= about.size
                if left < 0 or about.size < 0:
                    raise UsageError(f"an attachment holds more than {MOST_PACKED_BYTES} bytes")
                if count >= MOST_PACKED_FILES:
                    raise UsageError(f"an attachment holds more than {MOST_PACKED_FILES} files")
                content = opened.extractfile(about) if about.isreg() else None
                if content is not None:
                    yield _inner(about.name), PackedFile(content.read(), about.mode & _MODES)
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, RecursionError) as error:
        # The library raises the last two for invalid headers, and for headers that follow each other.
        raise UsageError(f"an attachment is not an archive of files: {error}") from error


class _Bounded(io.RawIOBase):
    """The content of a compressed archive, limited as a whole: headers are read whole, regardless of size."""

    def __init__(self, archive: bytes) -> None:
        self._plain = gzip.GzipFile(fileobj=io.BytesIO(archive))
        self._left = _MOST_PLAIN_BYTES

    def read(self, size: int = -1) -> bytes:
        """Read at most this many bytes; raises UsageError over the limit."""
        content = self._plain.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise UsageError(f"an attachment holds more than {MOST_PACKED_BYTES} bytes")
        return content


def _inner(name: str) -> str:
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise UsageError(f"an attachment has a file outside of itself: {name[:200]!r}")
    return name
