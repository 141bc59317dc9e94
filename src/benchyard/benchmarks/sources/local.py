"""A source's files in a copy that somebody has on this machine."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from benchyard.benchmarks.sources.base import GitTree, HubDataset, SourceFile
from benchyard.benchmarks.sources.download import is_whole
from benchyard.benchmarks.sources.records import is_data
from benchyard.errors import DatasetError, TooLarge

_MOST_FILES = 100_000
_SHOWN = 10


def files(source: HubDataset, given: Path) -> dict[str, Path]:
    """The path of each file of a dataset -> where it is in a file or folder; raises DatasetError.

    A file is known by its path, by its own name, by a name that begins like its own, or by being the only
    one. The folder that `fetch` gave works too.
    """
    if not given.exists():
        raise DatasetError(f"{given} is not there; give the file or folder with {_names(source.files)}")
    if given.is_file() and len(source.files) == 1:
        return {source.files[0].path: given}
    root = given if given.is_dir() else given.parent
    known = [root / file.path for file in source.files]
    there = known if all(path.is_file() for path in known) else list(_below(given))
    found = {file.path: _match(file, root, there, only=len(source.files) == 1) for file in source.files}
    missing = [file for file in source.files if found[file.path] is None]
    if missing:
        raise DatasetError(f"{given} lacks {_names(missing)}; {_what_is_there(given, there)}")
    return {path: place for path, place in found.items() if place is not None}


def tree(source: GitTree, given: Path) -> Path:
    """The folder of a copy of a repository, where all that the source names is there; raises DatasetError.

    Where what was given holds one folder only, as archives of repositories do, that may be it.
    """
    if not given.is_dir():
        raise DatasetError(f"{given} is no folder; give the folder of a copy of the repository")
    inner = [path for path in given.iterdir() if path.is_dir() and not path.is_symlink()]
    for folder in (given, *inner[: len(inner) == 1]):
        if all(os.path.lexists(folder / path) for path in source.paths):
            return folder
    missing = [path for path in source.paths if not os.path.lexists(given / path)]
    told = ", ".join(missing[:_SHOWN])
    raise DatasetError(f"{given} lacks {told}; give the folder that has it, as in the repository")


def is_official(source: HubDataset, found: Mapping[str, Path]) -> bool:
    """Whether every file is the one that was pinned; False too where a file is not pinned."""
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
            told = ", ".join(str(path) for path in candidates[:_SHOWN])
            raise DatasetError(f"several files could be {file.path}: {told}; give the file itself")
    return None


def _below(given: Path) -> Iterator[Path]:
    """The files of a folder, in a stable order; hidden folders and links to folders are not entered."""
    count = 0
    for here, folders, names in os.walk(given if given.is_dir() else given.parent):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            count += 1
            if count > _MOST_FILES:
                raise TooLarge(f"{given} has more than {_MOST_FILES} files; give a folder with the data only")
            yield Path(here) / name


def _names(wanted: "tuple[SourceFile, ...] | list[SourceFile]") -> str:
    told = ", ".join(PurePosixPath(file.path).name for file in wanted[:_SHOWN])
    return told + (f" and {len(wanted) - _SHOWN} more" if len(wanted) > _SHOWN else "")


def _what_is_there(given: Path, there: list[Path]) -> str:
    data = [
        str(path.relative_to(given if given.is_dir() else given.parent)) for path in there if is_data(path)
    ]
    return f"of data there is: {', '.join(data[:_SHOWN])}" if data else "there is no data file in it"
