"""A folder written by any person: reads stay inside it and are bounded."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, StringConstraints
from pydantic_core import PydanticCustomError

from benchyard.errors import TooLarge, UsageError
from benchyard.models.scoring.attachments import MOST_PACKED_BYTES, PackedFile

MOST_TEXT_BYTES = 1024**2
"""Most bytes of one script, patch or statement, as on the wire."""
MOST_YAML_BYTES = 4 * 1024**2
MOST_FILES = 1000
_SHOWN = 200


def _inner(value: str) -> str:
    parts = PurePosixPath(value).parts
    if not parts or value.startswith("/") or ".." in parts or "\0" in value:
        raise PydanticCustomError("outside", "must be a path inside the folder, without `..`")
    return value


InnerPath = Annotated[str, StringConstraints(min_length=1, max_length=1024), AfterValidator(_inner)]
"""A path inside the folder of the file that names it."""


class BoundedFolder:
    """Reads files of one folder; never reads anything outside of it, whatever links it has."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise UsageError(f"there is no folder {str(path)[:_SHOWN]}")
        self.path = path
        self._real = Path(os.path.realpath(path))

    def text(self, name: str, limit: int = MOST_TEXT_BYTES) -> str:
        """Return the text of a file, unchanged; raises UsageError if it cannot be read or is not UTF-8."""
        try:
            return self.data(name, limit).decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"{self.path / name}: this is not UTF-8 text") from error

    def data(self, name: str, limit: int) -> bytes:
        """Return the bytes of a file; raises UsageError if it is unreadable, TooLarge if over the limit."""
        path = self.inside(name)
        try:
            # O_NONBLOCK: do not wait for the other end of a pipe.
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise UsageError(f"{self.path / name}: this is not a file")
                content = file.read(limit + 1)
        except OSError as error:
            raise UsageError(f"{self.path / name}: {error.strerror}") from error
        if len(content) > limit:
            raise TooLarge(f"{self.path / name}: it is larger than {limit} bytes")
        return content

    def has(self, name: str) -> bool:
        """Tell whether there is a file or folder of that name."""
        return os.path.lexists(self.path / name)

    def mode(self, name: str) -> int:
        """Return the permissions of a file, as far as git keeps them."""
        return 0o755 if self.inside(name).stat().st_mode & 0o100 else 0o644

    def inside(self, name: str) -> Path:
        """Return the real path of a name; raises UsageError if a link leads out of the folder."""
        path = Path(os.path.realpath(self.path / name))
        if path != self._real and self._real not in path.parents:
            raise UsageError(f"{self.path / name}: a link leads out of the folder {self.path}")
        return path

    def files(self, name: str) -> Iterator[str]:
        """Yield the files a path names: itself, or all below it, in a stable order; links are not entered."""
        path = self.inside(name)
        if not path.is_dir():
            yield name
            return
        count = 0
        for here, folders, files in os.walk(path, onerror=_complain):
            folders.sort()
            for file in sorted(files):
                count += 1
                if count > MOST_FILES:
                    raise TooLarge(f"{self.path / name}: it has more than {MOST_FILES} files")
                below = (Path(here) / file).relative_to(path)
                yield (PurePosixPath(name) / below.as_posix()).as_posix()


def write(folder: Path, name: str, content: bytes, mode: int = 0o644) -> None:
    """Write a file of a folder, replacing a file of that name; links are replaced, not followed."""
    target = folder
    for part in PurePosixPath(name).parts[:-1]:
        target = target / part
        if target.is_symlink() or not target.is_dir():
            target.unlink(missing_ok=True)
            target.mkdir(parents=True)
    target = folder / name
    if target.is_dir() and not target.is_symlink():
        raise UsageError(f"{target}: a folder is in the way")
    target.unlink(missing_ok=True)
    target.write_bytes(content)
    target.chmod(mode)


def _complain(error: OSError) -> None:
    raise UsageError(f"{error.filename}: {error.strerror}") from error


def packed_files(folder: BoundedFolder, name: str, limit: int = MOST_PACKED_BYTES) -> dict[str, PackedFile]:
    """Return all files below a path of a folder, by their path below it; links to files count as files."""
    files: dict[str, PackedFile] = {}
    for file in folder.files(name):
        content = folder.data(file, limit)
        limit -= len(content)
        inner = file.removeprefix(name).lstrip("/") or file.rpartition("/")[2]
        files[inner] = PackedFile(content, folder.mode(file))
    return files
