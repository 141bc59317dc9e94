"""A copy that somebody has as a tar: unpacked into a folder, out of which nothing in it can lead."""

import lzma
import os
import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from benchyard.benchmarks.sources.base import check_path
from benchyard.errors import DatasetError, TooLarge

ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.xz")

_TEXTS = ("", ".md", ".txt")
MOST_FILES = 200_000
MOST_BYTES = 16 * 1024**3


def unpacked(given: Path, work: Path) -> Path:
    """The folder of what was given: an archive is unpacked below `work`, anything else is what it is.

    A folder with an archive, and beside it nothing but texts such as a licence, is that archive.
    """
    given = _only_archive(given) or given
    if not (given.is_file() and given.name.lower().endswith(ENDINGS)):
        return given
    folder = work / "unpacked"
    try:
        folder.mkdir(parents=True)
        with tarfile.open(given, "r|*") as tar:
            _Unpacking(folder, given).all(tar)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DatasetError(f"{given}: this is no tar, or half-downloaded: {error}; get it again") from error
    except OSError as error:
        raise DatasetError(f"{error.filename or given}: {error.strerror or error}") from error
    return folder


def _only_archive(folder: Path) -> Path | None:
    if not folder.is_dir():
        return None
    there = [each for each in folder.iterdir() if each.suffix.lower() not in _TEXTS]
    is_one = len(there) == 1 and there[0].is_file() and there[0].name.lower().endswith(ENDINGS)
    return there[0] if is_one else None


class _Unpacking:
    """Writes files first and links last, so that nothing is ever written through a link."""

    def __init__(self, folder: Path, given: Path) -> None:
        self._folder = folder
        self._given = given
        self._bytes = 0

    def all(self, tar: tarfile.TarFile) -> None:
        """Unpack every member, or raise DatasetError for one that would lead out."""
        links: list[tarfile.TarInfo] = []
        for count, member in enumerate(tar, start=1):
            self._bytes += member.size
            if count > MOST_FILES or self._bytes > MOST_BYTES:
                raise TooLarge(f"{self._given} has more than {MOST_FILES} files, or than {MOST_BYTES} bytes")
            if ".git" in PurePosixPath(member.name).parts:
                continue  # Of a repository only the files count.
            if member.issym():
                links.append(member)
            else:
                self._one(tar, member)
        for member in links:
            self._link(member)

    def _one(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        if member.isdir() and PurePosixPath(member.name) == PurePosixPath():
            return
        target = self._place(member.name)
        if member.isdir():
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if member.islnk():
            shutil.copy2(self._place(member.linkname), target, follow_symlinks=False)
            return
        content = tar.extractfile(member) if member.isreg() else None
        if content is None:
            raise DatasetError(f"{self._given}: {member.name[:200]!r} is neither a file nor a folder")
        with target.open("xb") as file:
            shutil.copyfileobj(content, file)
        target.chmod(0o755 if member.mode & 0o100 else 0o644)

    def _link(self, member: tarfile.TarInfo) -> None:
        place = self._place(member.name)
        end = os.path.normpath(PurePosixPath(member.name).parent / member.linkname)
        if member.linkname.startswith("/") or end.startswith("..") or _turns_back(member.linkname):
            raise DatasetError(f"{self._given}: the link {member.name[:200]!r} leads out of the archive")
        # Below another link it would be somewhere else than its name says, and so would be where it leads.
        above = place.relative_to(self._folder).parents
        if any((self._folder / each).is_symlink() for each in above):
            raise DatasetError(f"{self._given}: the link {member.name[:200]!r} is below another link")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(member.linkname)

    def _place(self, name: str) -> Path:
        try:
            check_path(name)
        except DatasetError as error:
            raise DatasetError(f"{self._given}: {error.message}") from error
        return self._folder / name


def _turns_back(path: str) -> bool:
    """Whether there is a `..` after a name: where that leads depends on what links are on the way."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ".." in parts[next((at for at, part in enumerate(parts) if part != ".."), len(parts)) :]
