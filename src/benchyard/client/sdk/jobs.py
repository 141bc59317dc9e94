"""Jobs as objects: created once, followed or waited for."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from benchyard.client.listings import all_items
from benchyard.client.methods import S, VerbGroup, call, items
from benchyard.client.operations import Flow, Steps
from benchyard.client.request_fields import JobFields, JobPageFields, TrialFields
from benchyard.client.resources import jobs
from benchyard.client.resources.jobs import PATIENCE_SECONDS, follow_events
from benchyard.models.jobs import BenchmarkJobView, BenchmarkOutcome, JobEvent, RetryKind
from benchyard.models.trials import TrialView


class Job(VerbGroup[S]):
    """Agents x scenarios x attempts, carried to the end by the server."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id

    def __repr__(self) -> str:
        return f"<Job {self.id}>"

    @call
    def get_info(self) -> Steps[BenchmarkJobView]:
        """Return its present state."""
        return (yield from jobs.retrieve(self.id))

    @call
    def wait(self, timeout: float | None = None) -> Steps[BenchmarkJobView]:
        """Wait until it has ended in any state; raises StillWaiting after the timeout."""
        return (yield from jobs.wait(self.id, timeout))

    @call
    def outcomes(self) -> Steps[list[BenchmarkOutcome]]:
        """Return the outcomes of the agents that are done, each with its scenarios."""
        return (yield from jobs.retrieve(self.id)).benchmark_outcomes

    @call
    def trials(self, **query: Unpack[TrialFields]) -> Steps[list[TrialView]]:
        """Return all its trials, also those that were superseded."""
        return (yield from all_items(jobs.trials_of(self.id, query)))

    @items
    def events(self, after: int = 0, patience: float = PATIENCE_SECONDS) -> Flow[JobEvent]:
        """Yield its events after the one with a number, until it has ended; goes on after server restarts."""
        yield from follow_events(self.id, after, patience, jobs.no_notice)

    @call
    def cancel(self) -> Steps[BenchmarkJobView]:
        """End it early; ended trials keep their score."""
        return (yield from jobs.cancel(self.id))

    @call
    def resume(self) -> Steps[BenchmarkJobView]:
        """Go on with its unfinished trials after a cancel."""
        return (yield from jobs.resume(self.id))

    @call
    def retry(
        self, only: RetryKind = "unscored", scenarios: Sequence[str] | None = None
    ) -> Steps[BenchmarkJobView]:
        """Retry its trials that did not pass, crashed, or have no score; only of named scenarios, if any."""
        return (yield from jobs.retry(self.id, only, scenarios))

    @call
    def rescore(self, trial_ids: Sequence[str] | None = None) -> Steps[BenchmarkJobView]:
        """Score the final states of its trials again; all trials that count, unless some are named."""
        return (yield from jobs.rescore(self.id, trial_ids))


class JobOps(VerbGroup[S]):
    """Makes and finds jobs."""

    @call
    def create(self, **fields: Unpack[JobFields]) -> Steps[Job[S]]:
        """Create a job; `spec` is of type `benchmark`, `scenarios` or `harbor`."""
        body: Mapping[str, Any] = fields
        return Job(self.session, (yield from jobs.create(body)).id)

    def from_id(self, job_id: str) -> Job[S]:
        """Return the job of that id, without a request to the server."""
        return Job(self.session, job_id)

    @call
    def list(self, **query: Unpack[JobPageFields]) -> Steps[list[Job[S]]]:
        """List jobs, newest first; all, or at most `limit`."""
        views = yield from all_items(jobs.jobs_of(query))
        return [Job(self.session, view.id) for view in views]
