"""Deletion of results: the removals under way, and their reports."""

from typing import Literal

from pydantic import Field

from benchyard.models.base import Columns, Model, Record, WireBool, WireFloat

RemovalKind = Literal["job", "benchmark_run", "scenario_run"]


class RemovedRun(Model):
    """A scenario run that is being removed, and its devbox."""

    id: str
    devbox_id: str


class Removal(Record):
    """Results that are being removed; stored until all are gone, so that a restarted server continues."""

    kind: RemovalKind
    subject: str
    """The id of the job or the run."""
    benchmark_run_ids: list[str] = Field(default_factory=list)
    runs: list[RemovedRun] = Field(default_factory=list)
    grant_ids: list[str] = Field(default_factory=list)
    """Grants with calls that the gateway may have stored."""
    scenario_ids: list[str] = Field(default_factory=list)
    """Scenarios with old revisions that may have become unused."""

    def columns(self) -> Columns:
        """Index by the removed job or run."""
        return Columns(name=self.subject, status=self.kind)


class RemovalView(Model):
    """A deletion that was done, or that would be."""

    id: str
    kind: RemovalKind
    name: str | None = None
    n_trials: int = 0
    n_scenario_runs: int = 0
    n_objects: int = 0
    """Number of logs, traces and trajectories of its runs."""
    size_bytes: int = 0
    """Size of its objects and final states."""


class BenchmarkDeleteRequest(Model):
    """Options for deleting a benchmark."""

    with_scenarios: WireBool = False
    """True if its scenarios are deleted too, except those that other benchmarks use."""


class DeletedView(Model):
    """A definition that was deleted."""

    id: str
    name: str
    scenario_ids: list[str] = Field(default_factory=list)
    """For a benchmark: the scenarios that were deleted with it."""


class CollectResultsRequest(Model):
    """The age from which results are removed."""

    keep_days: WireFloat | None = Field(default=None, gt=0, le=36500)
    """Days that results are kept; None is the server's own --keep-results."""
    dry_run: WireBool = False


class CollectedResultsView(Model):
    """The old results that were removed, or would be."""

    keep_days: float
    dry_run: bool
    removed: list[RemovalView] = Field(default_factory=list)
    """The oldest first; at most a thousand."""
    n_removed: int = 0
    size_bytes: int = 0
    n_pinned: int = 0
    """Number of jobs that are old enough but pinned."""
    n_baselines: int = 0
    """Number of jobs that are old enough and not pinned, but named by a baseline."""
