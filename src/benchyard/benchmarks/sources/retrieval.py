"""Files of a source on this machine: fetched once, complete and checked."""

import hashlib
import os
from pathlib import Path

from benchyard.benchmarks.sources import git, hub
from benchyard.benchmarks.sources.base import (
    FetchLimits,
    FetchProgress,
    GitTree,
    HubDataset,
    HubDatasets,
    Source,
    part_folder,
    part_name,
)
from benchyard.benchmarks.sources.downloads import Hub

_LIMITS = FetchLimits()


def fetch(
    source: Source,
    cache: Path,
    progress: FetchProgress,
    token: str | None = None,
    limits: FetchLimits = _LIMITS,
) -> Path:
    """Return the folder with a source's files; raises DatasetError. Files in the cache are not fetched again.

    `HF_ENDPOINT` names another hub; `HF_TOKEN` is used if no token is given.
    """
    if isinstance(source, HubDataset):
        place = Hub(os.environ.get("HF_ENDPOINT") or hub.ADDRESS, token or os.environ.get("HF_TOKEN"))
        return hub.fetch(source, cache / "hub", place, progress, limits)
    if isinstance(source, HubDatasets):
        folders = {part: fetch(part, cache, progress, token, limits) for part in source.parts}
        return _together(cache / "together" / hashlib.sha256(source.revision.encode()).hexdigest(), folders)
    return git.fetch(source, cache / "git", progress, limits)


def commit_of(source: Source, folder: Path) -> str:
    """Return the commit that `fetch` gave: for a branch it is known only then."""
    if isinstance(source, HubDatasets):
        commits = {part: commit_of(part, (folder / part_folder(part)).resolve()) for part in source.parts}
        return ", ".join(f"{part_name(part)}@{commit}" for part, commit in commits.items())
    return folder.name if isinstance(source, HubDataset) else git.commit_of(folder)


def _together(folder: Path, found: dict[HubDataset | GitTree, Path]) -> Path:
    """Return a folder that links to the folders of several datasets."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, place in found.items():
        link = folder / part_folder(part)
        # Rename it into place, because another process may do the same.
        fresh = link.with_name(f"{link.name}.{os.getpid()}")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(place.absolute(), target_is_directory=True)
        fresh.replace(link)
    return folder
