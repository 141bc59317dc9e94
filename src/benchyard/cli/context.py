"""A folder as a build context: packed without what its `.dockerignore` leaves out."""

import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchyard.cli.dockerignore import FILE, Ignored
from benchyard.errors import UsageError

_PACKED = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)


@contextmanager
def packed_context(folder: Path, dockerfile: Path | None = None) -> Iterator[Path]:
    """A tgz of the folder's content, gone afterwards; links are packed as links."""
    ignored = ignored_in(folder, dockerfile)
    with tempfile.NamedTemporaryFile(prefix="benchyard-context-", suffix=".tgz") as file:
        try:
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=1) as tar:
                for path in included(folder, ignored):
                    _add(tar, folder / path, path)
            file.flush()
        except OSError as error:
            raise UsageError(f"the context {folder} could not be packed: {error}") from error
        yield Path(file.name)


def ignored_in(folder: Path, dockerfile: Path | None = None) -> Ignored:
    """The rules for a folder; those of a Dockerfile.dockerignore beside the Dockerfile come first."""
    beside = dockerfile.with_name(dockerfile.name + FILE) if dockerfile else None
    for place in (beside, folder / FILE):
        if place and place.is_file():
            try:
                return Ignored(place.read_text(encoding="utf-8-sig").splitlines())
            except UnicodeDecodeError as error:
                raise UsageError(f"{place} is not UTF-8 text") from error
    return Ignored([])


def included(folder: Path, ignored: Ignored) -> Iterator[str]:
    """The paths of a context, folders before what is in them, in a stable order."""
    for here, folders, files in os.walk(folder, onerror=_complain):
        above = Path(here).relative_to(folder).as_posix()
        prefix = "" if above == "." else f"{above}/"
        links = [name for name in folders if Path(here, name).is_symlink()]
        folders.sort()
        for name in sorted([*folders, *files]):
            if not ignored.leaves_out(prefix + name):
                yield prefix + name
            elif name in folders and not ignored.may_bring_back:
                folders.remove(name)
        folders[:] = [name for name in folders if name not in links]


def _add(tar: tarfile.TarFile, path: Path, name: str) -> None:
    if not any(kind(path.lstat().st_mode) for kind in _PACKED):
        return
    member = tar.gettarinfo(path, arcname=name)
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    if not member.isreg():
        tar.addfile(member)
        return
    with path.open("rb") as content:
        tar.addfile(member, content)


def _complain(error: OSError) -> None:
    raise error
