"""Users' copies of a source's files on this machine: a folder, a file or a tar."""

import lzma
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from benchyard.benchmarks.sources.base import GitTree, HubDataset, SourceFile, check_path
from benchyard.benchmarks.sources.downloads import is_whole
from benchyard.benchmarks.sources.records import is_data
from benchyard.errors import DatasetError, TooLarge

_MOST_FILES = 100_000
_SHOWN = 10


def files_in_copy(source: HubDataset, given: Path) -> dict[str, Path]:
    """Map the path of each file of a dataset to its place in a file or folder; raises DatasetError.

    A file is found by its path, by its own name, by a name with the same beginning, or by being the only one.
    The folder that `fetch` gave works too.
    """
    if not given.exists():
        raise DatasetError(f"{given} is not there; give the file or folder with {_names(source.files)}")
    if given.is_file() and len(source.files) == 1:
        return {source.files[0].path: given}
    root = given if given.is_dir() else given.parent
    known = [root / file.path for file in source.files]
    there = known if all(path.is_file() for path in known) else list(_below(given))
    files = {file.path: _match(file, root, there, only=len(source.files) == 1) for file in source.files}
    missing = [file for file in source.files if files[file.path] is None]
    if missing:
        raise DatasetError(f"{given} lacks {_names(missing)}; {_what_is_there(given, there)}")
    return {path: place for path, place in files.items() if place is not None}


def tree_in_copy(source: GitTree, given: Path) -> Path:
    """Return the folder of a repository's copy that has all that the source names; raises DatasetError.

    If the given folder holds only one folder, like archives of repositories, that one may be it.
    """
    if not given.is_dir():
        raise DatasetError(f"{given} is not a folder; give the folder of a copy of the repository")
    inner = [path for path in given.iterdir() if path.is_dir() and not path.is_symlink()]
    for folder in (given, *inner[: len(inner) == 1]):
        if all(os.path.lexists(folder / path) for path in source.paths):
            return folder
    missing = [path for path in source.paths if not os.path.lexists(given / path)]
    names = ", ".join(missing[:_SHOWN])
    raise DatasetError(f"{given} lacks {names}; give the folder that has it, as in the repository")


def is_official(source: HubDataset, found: Mapping[str, Path]) -> bool:
    """Tell whether every file matches its pin; False also if a file is not pinned."""
    return all(file.sha256 is not None and is_whole(file, found[file.path]) for file in source.files)


def _match(file: SourceFile, root: Path, there: list[Path], *, only: bool) -> Path | None:
    exact = root / file.path
    if exact.is_file():
        return exact
    name = PurePosixPath(file.path).name
    stem = name.partition(".")[0]
    for rule in (
        lambda path: path.name == name,
        lambda path: is_data(path) and path.name.startswith(stem),
        lambda path: only and is_data(path),
    ):
        candidates = [path for path in there if rule(path)]
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            names = ", ".join(str(path) for path in candidates[:_SHOWN])
            raise DatasetError(f"several files could be {file.path}: {names}; give the file itself")
    return None


def _below(given: Path) -> Iterator[Path]:
    """Yield the files of a folder, in a stable order; hidden folders and links to folders are not entered."""
    count = 0
    for here, folders, names in os.walk(given if given.is_dir() else given.parent):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            count += 1
            if count > _MOST_FILES:
                raise TooLarge(f"{given} has more than {_MOST_FILES} files; give a folder with the data only")
            yield Path(here) / name


def _names(wanted: "tuple[SourceFile, ...] | list[SourceFile]") -> str:
    names = ", ".join(PurePosixPath(file.path).name for file in wanted[:_SHOWN])
    return names + (f" and {len(wanted) - _SHOWN} more" if len(wanted) > _SHOWN else "")


def _what_is_there(given: Path, there: list[Path]) -> str:
    data = [
        str(path.relative_to(given if given.is_dir() else given.parent)) for path in there if is_data(path)
    ]
    return f"of data there is: {', '.join(data[:_SHOWN])}" if data else "there is no data file in it"


ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.xz")

_TEXTS = ("", ".md", ".txt")
MOST_FILES = 200_000
MOST_BYTES = 16 * 1024**3


def unpack(given: Path, work: Path) -> Path:
    """Return the given folder or file; an archive is unpacked below `work`.

    A folder that holds only an archive, and texts such as a licence, counts as that archive.
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
        raise DatasetError(
            f"{given}: this is not a tar archive, or it is half-downloaded: {error}; get it again"
        ) from error
    except OSError as error:
        raise DatasetError(f"{error.filename or given}: {error.strerror or error}") from error
    return folder


def _only_archive(folder: Path) -> Path | None:
    if not folder.is_dir():
        return None
    there = [path for path in folder.iterdir() if path.suffix.lower() not in _TEXTS]
    is_one = len(there) == 1 and there[0].is_file() and there[0].name.lower().endswith(ENDINGS)
    return there[0] if is_one else None


class _Unpacking:
    """Writes files first and links last, so that nothing is ever written through a link."""

    def __init__(self, folder: Path, given: Path) -> None:
        self._folder = folder
        self._given = given
        self._bytes = 0

    def all(self, tar: tarfile.TarFile) -> None:
        """Unpack every member; raises DatasetError for one that would lead out."""
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
        # Below another link, the link would be at another place than its name says, and so would its target.
        above = place.relative_to(self._folder).parents
        if any((self._folder / parent).is_symlink() for parent in above):
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
    """Tell whether `..` follows a name: its meaning then depends on links on the way."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ".." in parts[next((at for at, part in enumerate(parts) if part != ".."), len(parts)) :]
