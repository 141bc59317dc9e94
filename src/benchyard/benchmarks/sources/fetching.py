"""A source's files, on this machine: fetched once, whole and checked."""

import os
from pathlib import Path

from benchyard.benchmarks.sources import git, hub
from benchyard.benchmarks.sources.asking import Hub
from benchyard.benchmarks.sources.base import HubDataset, Limits, Progress, Source

_LIMITS = Limits()


def fetch(
    source: Source, cache: Path, progress: Progress, token: str | None = None, limits: Limits = _LIMITS
) -> Path:
    """The folder with a source's files; raises DatasetError. What the cache has is not fetched again.

    `HF_ENDPOINT` names another hub; `HF_TOKEN` is the token where none is given.
    """
    if isinstance(source, HubDataset):
        place = Hub(os.environ.get("HF_ENDPOINT") or hub.ADDRESS, token or os.environ.get("HF_TOKEN"))
        return hub.fetch(source, cache / "hub", place, progress, limits)
    return git.fetch(source, cache / "git", progress, limits)
