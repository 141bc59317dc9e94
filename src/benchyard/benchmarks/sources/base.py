"""Source types: the files of a benchmark, at one revision, at a remote place."""

import re
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Protocol

from benchyard.errors import DatasetError

_COMMIT = re.compile(r"[0-9a-f]{40}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")
_DATASET = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_PATH = 1024


@dataclass(frozen=True)
class SourceFile:
    """A file of a dataset; pinned properties are checked."""

    path: str
    """Path inside the dataset."""
    sha256: str | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        check_path(self.path)
        if self.sha256 is not None and not _SHA256.fullmatch(self.sha256):
            raise DatasetError(
                f"{self.path}: a sha256 has 64 hexadecimal digits, and this is {self.sha256!r}"
            )


@dataclass(frozen=True)
class HubDataset:
    """Files of a dataset on the Hugging Face hub."""

    dataset: str
    """`owner/name`."""
    revision: str
    """The commit, or a branch or tag, which is looked up each time the hub can be reached."""
    files: tuple[SourceFile, ...]
    gated: bool = False
    """True if the hub requires its terms to be accepted, and a token."""

    def __post_init__(self) -> None:
        if not _DATASET.fullmatch(self.dataset) or ".." in self.dataset:
            raise DatasetError(f"a dataset of the hub is called `owner/name`, not {self.dataset[:200]!r}")
        check_revision(self.revision)


@dataclass(frozen=True)
class GitTree:
    """A git repository at a revision."""

    url: str = field(repr=False)
    """Address; a name and a password in it are never shown."""
    revision: str
    """The commit, or a branch or tag, which is looked up each time the repository can be reached."""
    paths: tuple[str, ...] = ()
    """The folders and files to fetch; empty for all."""

    def __post_init__(self) -> None:
        check_revision(self.revision)
        for path in self.paths:
            check_path(path)


@dataclass(frozen=True)
class HubDatasets:
    """Several datasets that make one benchmark, of the hub or of git; each is a folder, `owner--name`."""

    parts: tuple[HubDataset | GitTree, ...]

    @property
    def revision(self) -> str:
        """Revisions of all of them."""
        return ", ".join(f"{part_name(part)}@{part.revision}" for part in self.parts)


Source = HubDataset | HubDatasets | GitTree


def part_name(part: HubDataset | GitTree) -> str:
    """Return `owner/name` of a part."""
    if isinstance(part, HubDataset):
        return part.dataset
    return "/".join(part.url.removesuffix("/").removesuffix(".git").split("/")[-2:])


def part_folder(part: HubDataset | GitTree) -> str:
    """Return the name of the folder of a part."""
    return part_name(part).replace("/", "--")


@dataclass(frozen=True)
class FetchLimits:
    """Limits of size, waiting and attempts."""

    file_bytes: int = 8 * 1024**3
    """Most bytes of one file; also of one file that git writes."""
    seconds: float = 2 * 3600.0
    """Seconds for one file, or one repository."""
    silent_seconds: float = 60.0
    """Seconds without any data before a connection is given up."""
    attempts: int = 5
    """Attempts in a row that brought no data."""
    pause_seconds: float = 1.0
    """Seconds before the second attempt; doubled for each that follows."""


class FetchProgress(Protocol):
    """Receiver of the progress of a fetch."""

    def started(self, name: str, total: int | None) -> None:
        """Note that a fetch begins: its name, and its number of bytes if that is known."""

    def advanced(self, count: int) -> None:
        """Note that so many more bytes are there; fewer than 0 if it had to begin again."""

    def done(self) -> None:
        """Note that the fetch started last has ended, with or without success."""


class SilentProgress:
    """Progress that is not shown."""

    def started(self, name: str, total: int | None) -> None:
        """Ignore it."""

    def advanced(self, count: int) -> None:
        """Ignore it."""

    def done(self) -> None:
        """Ignore it."""


def is_commit(revision: str) -> bool:
    """Tell whether a revision is a full commit, which never changes its meaning."""
    return _COMMIT.fullmatch(revision) is not None


def check_revision(revision: str) -> None:
    """Raise DatasetError unless it is a commit or a valid name of a branch or tag."""
    if not _REVISION.fullmatch(revision) or ".." in revision or "//" in revision:
        raise DatasetError(
            f"{revision[:200]!r} is not a revision; give a commit, or the name of a branch or tag"
        )


def check_path(path: str) -> None:
    """Raise DatasetError for a path that could lead out of its folder."""
    parts = PurePosixPath(path).parts
    odd = any(ord(letter) < 32 or letter == "\\" for letter in path)
    if not parts or path.startswith("/") or ".." in parts or odd or len(path) > _LONGEST_PATH:
        raise DatasetError(f"{path[:200]!r} is not a path inside a dataset")
    if ".git" in parts or str(PurePosixPath(path)) in (".", ""):
        raise DatasetError(f"{path[:200]!r} is not a path inside a dataset")
