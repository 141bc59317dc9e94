"""The context of a build: looked at before the engine sees it, and hashed, so that equal builds are found."""

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from benchyard.errors import BuildFailed

_MOST_ENTRIES = 500_000
_PIECE = 1024 * 1024


def check_context(context: Path | None) -> None:
    """Refuse what is no folder, and a folder that is reached through a link."""
    if context is not None and (context.is_symlink() or not context.is_dir()):
        raise BuildFailed(
            f"the context {context.name!r} is not a folder: give the folder that COPY reads from"
        )


def add_context(digest: "hashlib._Hash", context: Path | None) -> None:
    """Add all names, modes and contents to a hash; links count as what they say, never what is there."""
    if context is None:
        return
    for number, (path, status) in enumerate(_entries(context)):
        if number >= _MOST_ENTRIES:
            raise BuildFailed(
                f"the context has more than {_MOST_ENTRIES} entries: leave out what is not copied"
            )
        name = str(path.relative_to(context)).encode(errors="surrogateescape")
        digest.update(b"%d:%s:%o:" % (len(name), name, status.st_mode))
        if stat.S_ISREG(status.st_mode):
            _add_file(digest, path, status)
        elif stat.S_ISLNK(status.st_mode):
            digest.update(os.fsencode(path.readlink()))


def _entries(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        yield Path(entry.path), entry.stat(follow_symlinks=False)
        if entry.is_dir(follow_symlinks=False):
            yield from _entries(Path(entry.path))


def _add_file(digest: "hashlib._Hash", path: Path, status: os.stat_result) -> None:
    digest.update(b"%d:" % status.st_size)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 (a descriptor, so that no link is followed)
        while piece := file.read(_PIECE):
            digest.update(piece)
