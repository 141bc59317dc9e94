"""Deleted results: what is being removed, and what was."""

from typing import Literal

from pydantic import Field

from benchyard.models.base import Columns, Model, Record, WireBool, WireFloat

RemovalKind = Literal["job", "benchmark_run", "scenario_run"]


class RemovedRun(Model):
    """A scenario run that is being removed, and its devbox."""

    id: str
    devbox_id: str


class Removal(Record):
    """Results that are being removed; kept until nothing is left of them, so that a new server can go on."""

    kind: RemovalKind
    subject: str
    """The id of the job or the run."""
    benchmark_run_ids: list[str] = Field(default_factory=list)
    runs: list[RemovedRun] = Field(default_factory=list)
    grant_ids: list[str] = Field(default_factory=list)
    """What the gateway may have kept calls of."""
    scenario_ids: list[str] = Field(default_factory=list)
    """Scenarios whose old revisions may not be needed any more."""

    def columns(self) -> Columns:
        """Found by what is removed."""
        return Columns(name=self.subject, status=self.kind)


class RemovalView(Model):
    """What was deleted, or would be."""

    id: str
    kind: RemovalKind
    name: str | None = None
    n_trials: int = 0
    n_scenario_runs: int = 0
    n_objects: int = 0
    """Logs, traces and trajectories of its runs."""
    size_bytes: int = 0
    """Of its objects and final states."""


class BenchmarkDeleteRequest(Model):
    """How a benchmark is deleted."""

    with_scenarios: WireBool = False
    """Whether its scenarios go too, as far as no other benchmark has them."""


class DeletedView(Model):
    """A definition that was deleted."""

    id: str
    name: str
    scenario_ids: list[str] = Field(default_factory=list)
    """Of a benchmark: the scenarios that went with it."""


class CollectResultsRequest(Model):
    """Which results are old enough to be removed."""

    keep_days: WireFloat | None = Field(default=None, gt=0, le=36500)
    """How old they may be; None is the server's own --keep-results."""
    dry_run: WireBool = False


class CollectedResultsView(Model):
    """What a pass over old results removed, or would remove."""

    keep_days: float
    dry_run: bool
    removed: list[RemovalView] = Field(default_factory=list)
    """The oldest first; at most a thousand are listed."""
    n_removed: int = 0
    size_bytes: int = 0
    n_pinned: int = 0
    """Jobs that are old enough and pinned."""
