"""A folder that a person wrote, or somebody else did: reads stay inside it and are bounded."""

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
"""Of one script, patch or statement: what the wire takes."""
MOST_YAML_BYTES = 4 * 1024**2
MOST_FILES = 1000
_SHOWN = 200


def _inner(value: str) -> str:
    parts = PurePosixPath(value).parts
    if not parts or value.startswith("/") or ".." in parts or "\0" in value:
        raise PydanticCustomError("outside", "must be a path inside the folder, without `..`")
    return value


InnerPath = Annotated[str, StringConstraints(min_length=1, max_length=1024), AfterValidator(_inner)]
"""A path inside the folder that the file lies in."""


class BoundedFolder:
    """Reads files of one folder; nothing outside of it is ever read, whatever links are in it."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            raise UsageError(f"there is no folder {str(path)[:_SHOWN]}")
        self.path = path
        self._real = Path(os.path.realpath(path))

    def text(self, name: str, limit: int = MOST_TEXT_BYTES) -> str:
        """The text of a file, as it is; raises UsageError if it cannot be had, or is no UTF-8."""
        try:
            return self.data(name, limit).decode()
        except UnicodeDecodeError as error:
            raise UsageError(f"{self.path / name}: this is not UTF-8 text") from error

    def data(self, name: str, limit: int) -> bytes:
        """The bytes of a file; raises UsageError if it cannot be had, TooLarge if it is over the limit."""
        path = self.inside(name)
        try:
            # Not to wait for the other end of a pipe.
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
        """Whether there is something of that name."""
        return os.path.lexists(self.path / name)

    def mode(self, name: str) -> int:
        """The permissions of a file, as far as git keeps them."""
        return 0o755 if self.inside(name).stat().st_mode & 0o100 else 0o644

    def inside(self, name: str) -> Path:
        """The real path of a name; raises UsageError where a link leads out of the folder."""
        path = Path(os.path.realpath(self.path / name))
        if path != self._real and self._real not in path.parents:
            raise UsageError(f"{self.path / name}: a link leads out of the folder {self.path}")
        return path

    def files(self, name: str) -> Iterator[str]:
        """The files a path names: itself, or all below it, in a stable order; links are not entered."""
        path = self.inside(name)
        if not path.is_dir():
            yield name
            return
        count = 0
        for here, folders, files in os.walk(path, onerror=_complain):
            folders.sort()
            for each in sorted(files):
                count += 1
                if count > MOST_FILES:
                    raise TooLarge(f"{self.path / name}: it has more than {MOST_FILES} files")
                below = (Path(here) / each).relative_to(path)
                yield (PurePosixPath(name) / below.as_posix()).as_posix()


def write(folder: Path, name: str, content: bytes, mode: int = 0o644) -> None:
    """Write a file of a folder, in the place of whatever had its name; links are replaced, not followed."""
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
    """All files below a path of a folder, by their path below it; links to files in it are those files."""
    found: dict[str, PackedFile] = {}
    for each in folder.files(name):
        content = folder.data(each, limit)
        limit -= len(content)
        inner = each.removeprefix(name).lstrip("/") or each.rpartition("/")[2]
        found[inner] = PackedFile(content, folder.mode(each))
    return found
