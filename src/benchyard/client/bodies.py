"""Request bodies and targets of downloads: paths, bytes and open files."""

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from benchyard.client.operations import Body

Source = Path | bytes | BinaryIO
Target = Path | BinaryIO
Progress = Callable[[int], None]
"""Called with the number of further bytes that have passed."""

Sized = Callable[[int], None]
"""Called with the number of bytes to come, before the first."""

Meter = Callable[[str, int | None], AbstractContextManager[Progress]]
"""Shows the bytes that pass in its block, by the transfer's name and, where it is known, its size."""

CHUNK = 1024 * 1024


def no_progress(count: int) -> None:
    """Ignore the progress of a transfer."""


def no_meter(name: str, size: int | None) -> AbstractContextManager[Progress]:
    """Show nothing."""
    return nullcontext(no_progress)


def body_from(source: Source, progress: Progress = no_progress) -> Body:
    """Return the source as a request body."""
    return Body(
        lambda: chunks_of(source, progress), length=size_of(source), repeatable=not _reads_once(source)
    )


def multipart(path: str, source: Source, progress: Progress = no_progress) -> Body:
    """Return the form of a file upload: the part `path`, then the part `file`."""
    boundary = secrets.token_hex(16)
    name = path.rsplit("/", 1)[-1] or "file"
    safe = "".join(c if c.isprintable() and c not in '"\\' else "_" for c in name)
    head = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="path"\r\n\r\n{path}\r\n'
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{safe}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    ).encode()
    tail = f"\r\n--{boundary}--\r\n".encode()

    def chunks() -> Iterator[bytes]:
        yield head
        yield from chunks_of(source, progress)
        yield tail

    size = size_of(source)
    length = None if size is None else len(head) + size + len(tail)
    kind = f"multipart/form-data; boundary={boundary}"
    return Body(chunks, kind, length, repeatable=not _reads_once(source))


def size_of(source: Source) -> int | None:
    """Return the number of bytes to come; None if it is not known in advance."""
    if isinstance(source, bytes):
        return len(source)
    if isinstance(source, Path):
        return source.stat().st_size if source.is_file() else None
    return None


def chunks_of(source: Source, progress: Progress = no_progress) -> Iterator[bytes]:
    """Yield the source's bytes, never empty ones; a file is sent with the size it has when it is opened."""
    for chunk in _chunks(source):
        progress(len(chunk))
        yield chunk


@contextmanager
def open_target(target: Target) -> Iterator[BinaryIO]:
    """Open the target of a download; a path appears only when the download is complete."""
    if not isinstance(target, Path):
        yield target
        return
    if target.exists() and not target.is_file():
        with target.open("wb") as file:
            yield file
        return
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        partial.chmod(target.stat().st_mode & 0o7777 if target.exists() else 0o666 & ~_umask())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def _chunks(source: Source) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield from (source[start : start + CHUNK] for start in range(0, len(source), CHUNK))
    elif isinstance(source, Path):
        with source.open("rb") as file:
            yield from _limited(file, os.fstat(file.fileno()).st_size if source.is_file() else None)
    else:
        yield from _limited(source, None)


def _limited(file: BinaryIO, limit: int | None) -> Iterator[bytes]:
    left = limit
    while left is None or left > 0:
        chunk = file.read(CHUNK if left is None else min(CHUNK, left))
        if not chunk:
            return
        left = None if left is None else left - len(chunk)
        yield chunk


def _reads_once(source: Source) -> bool:
    return not isinstance(source, bytes) and not (isinstance(source, Path) and source.is_file())


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
