"""The work that a run left on its disk, as differences from the start, for the API."""

from typing import Literal

from pydantic import Field

from benchyard.models.base import Model

WorkChange = Literal["added", "modified", "deleted"]
WorkType = Literal["file", "folder", "link", "device", "other"]
WorkScope = Literal["work", "all"]
"""The work alone, or all of the disk, with hidden files and those outside of the working directory."""
WorkSide = Literal["before", "after"]


class WorkFile(Model):
    """A path of a run's disk that is not as it was at the start."""

    path: str
    """Absolute; bytes that are not UTF-8 are shown as `\\\\xff`."""
    change: WorkChange
    type: WorkType | None = None
    """Type of the file now; None if it was deleted."""
    type_before: WorkType | None = None
    mode: int | None = None
    """The permission bits."""
    mode_before: int | None = None
    size: int | None = None
    size_before: int | None = None
    is_work: bool
    """False for files outside of the working directory, hidden ones in the home, and git's own."""


class WorkFilesView(Model):
    """A page of the paths that a run changed, by path; the cursor is the last path."""

    files: list[WorkFile]
    has_more: bool
    total_count: int
    """Paths of the chosen scope."""
    beside_count: int
    """Changed paths that are not the work, whether they are listed or not."""
    start: Literal["run", "image"]
    """Start of the comparison: the disk when the work began, or the image that the devbox was made of.

    The second also counts changes before the work: files put in place, and launch commands.
    """
    truncated: str | None = None
    """Reason why there may be more; None if this is all."""


OPENED_KEY = "benchyard.opened"
"""Key in the metadata of a devbox that was opened on the work of a trial or a run."""


class OpenRequest(Model):
    """The devbox to open on the work of a run."""

    name: str | None = Field(default=None, max_length=200)
