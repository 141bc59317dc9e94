"""What a source is: the files of a benchmark, at one revision, somewhere that is not here."""

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
    """One file of a dataset; what is pinned of it is checked."""

    path: str
    """Inside the dataset."""
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
    """The commit; a branch or tag works too, and is looked up each time the hub can be reached."""
    files: tuple[SourceFile, ...]
    gated: bool = False
    """Whether the hub wants its terms accepted, and a token."""

    def __post_init__(self) -> None:
        if not _DATASET.fullmatch(self.dataset) or ".." in self.dataset:
            raise DatasetError(f"a dataset of the hub is called `owner/name`, not {self.dataset[:200]!r}")
        check_revision(self.revision)


@dataclass(frozen=True)
class GitTree:
    """A git repository at a revision."""

    url: str = field(repr=False)
    """May carry a name and a password, which are shown nowhere."""
    revision: str
    """The commit; a branch or tag works too, and is looked up each time the repository can be reached."""
    paths: tuple[str, ...] = ()
    """Only these folders and files; all if there are none."""

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
        """All of theirs."""
        return ", ".join(f"{part_name(each)}@{each.revision}" for each in self.parts)


Source = HubDataset | HubDatasets | GitTree


def part_name(part: HubDataset | GitTree) -> str:
    """`owner/name` of a part."""
    if isinstance(part, HubDataset):
        return part.dataset
    return "/".join(part.url.removesuffix("/").removesuffix(".git").split("/")[-2:])


def part_folder(part: HubDataset | GitTree) -> str:
    """What the folder of a part is called."""
    return part_name(part).replace("/", "--")


@dataclass(frozen=True)
class FetchLimits:
    """How much is fetched, how long is waited, how often is tried."""

    file_bytes: int = 8 * 1024**3
    """Of one file; also of one file that git writes."""
    seconds: float = 2 * 3600.0
    """For one file, or one repository."""
    silent_seconds: float = 60.0
    """How long the other side may say nothing."""
    attempts: int = 5
    """In a row that brought nothing."""
    pause_seconds: float = 1.0
    """Before the second attempt; doubled for each that follows."""


class FetchProgress(Protocol):
    """Who is told how far a fetch is."""

    def started(self, name: str, total: int | None) -> None:
        """Something begins: its name, and how many bytes it has, where that is known."""

    def advanced(self, count: int) -> None:
        """So many more bytes are there; fewer than 0 where it had to begin anew."""

    def done(self) -> None:
        """What was started last has ended, well or not."""


class SilentProgress:
    """Progress that nobody looks at."""

    def started(self, name: str, total: int | None) -> None:
        """Say nothing."""

    def advanced(self, count: int) -> None:
        """Say nothing."""

    def done(self) -> None:
        """Say nothing."""


def is_commit(revision: str) -> bool:
    """Whether a revision can mean one thing only."""
    return _COMMIT.fullmatch(revision) is not None


def check_revision(revision: str) -> None:
    """Refuse what is neither a commit nor the name of a branch or tag."""
    if not _REVISION.fullmatch(revision) or ".." in revision or "//" in revision:
        raise DatasetError(
            f"{revision[:200]!r} is no revision; give a commit, or the name of a branch or tag"
        )


def check_path(path: str) -> None:
    """Refuse a path that could lead out of its folder."""
    parts = PurePosixPath(path).parts
    odd = any(ord(letter) < 32 or letter == "\\" for letter in path)
    if not parts or path.startswith("/") or ".." in parts or odd or len(path) > _LONGEST_PATH:
        raise DatasetError(f"{path[:200]!r} is no path inside a dataset")
    if ".git" in parts or str(PurePosixPath(path)) in (".", ""):
        raise DatasetError(f"{path[:200]!r} is no path inside a dataset")
