"""Where the data of a public benchmark comes from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SourceFile:
    """One file of a data set."""

    path: str
    sha256: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class HubDataset:
    """A data set on the Hugging Face hub, as it was at one commit."""

    dataset: str
    revision: str
    files: tuple[SourceFile, ...]
    gated: bool = False
    """Whether a token of somebody who accepted its terms is needed."""


@dataclass(frozen=True)
class GitTree:
    """A git repository at one commit."""

    url: str
    revision: str
    paths: tuple[str, ...] = ()
    """Only these folders; all if there are none."""


Source = HubDataset | GitTree
