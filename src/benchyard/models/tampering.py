"""What was done to the devbox of a run beside the work itself."""

from pydantic import Field

from benchyard.models.base import Model


class ChangedFile(Model):
    """One path that is not as it was when the devbox began to run."""

    path: str
    kind: str
    """`added`, `modified` or `deleted`."""
    type: str
    """`file`, `folder`, `link`, `device` or `other`."""
    mode: int | None = None
    size: int | None = None


class LeftProcess(Model):
    """A process that ran when the work was over."""

    pid: int
    user: str
    command: str


class TamperReport(Model):
    """What was done to the devbox beside the work itself: facts, not a verdict.

    None stands for what could not be found out; an empty list means that there was nothing.
    """

    changed_outside: list[ChangedFile] | None = None
    """Outside the working directory; without one, outside the user's home."""
    changed_outside_total: int | None = None
    changed_inside_total: int | None = None
    special_inside: list[ChangedFile] | None = None
    """Links, devices and setuid files in the working directory: more than they seem to whoever opens them."""
    processes: list[LeftProcess] | None = None
    opened_by_scorers: list[str] | None = None
    """Changed files, inside and outside, that the scorers opened."""
    refused: list[str] = Field(default_factory=list)
    """What was not taken over from the answer, and why."""
    notes: list[str] = Field(default_factory=list)
    """Why something is unknown."""
