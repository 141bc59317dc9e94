"""Jobs as objects: asked for once, followed or waited for."""

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
        """As it is now."""
        return (yield from jobs.retrieve(self.id))

    @call
    def wait(self, timeout: float | None = None) -> Steps[BenchmarkJobView]:
        """Wait until it has ended, however; raises StillWaiting when the time is over."""
        return (yield from jobs.wait(self.id, timeout))

    @call
    def outcomes(self) -> Steps[list[BenchmarkOutcome]]:
        """What became of the agents that are done, each with its scenarios."""
        return (yield from jobs.retrieve(self.id)).benchmark_outcomes

    @call
    def trials(self, **query: Unpack[TrialFields]) -> Steps[list[TrialView]]:
        """All its trials, those that were superseded too."""
        return (yield from all_items(jobs.trials_of(self.id, query)))

    @items
    def events(self, after: int = 0, patience: float = PATIENCE_SECONDS) -> Flow[JobEvent]:
        """What happens in it, from the event after a number on, until it has ended; outlives restarts."""
        yield from follow_events(self.id, after, patience, jobs.no_notice)

    @call
    def cancel(self) -> Steps[BenchmarkJobView]:
        """End it early; what has ended keeps its score."""
        return (yield from jobs.cancel(self.id))

    @call
    def resume(self) -> Steps[BenchmarkJobView]:
        """Go on with its unfinished trials after a cancel."""
        return (yield from jobs.resume(self.id))

    @call
    def retry(
        self, only: RetryKind = "unscored", scenarios: Sequence[str] | None = None
    ) -> Steps[BenchmarkJobView]:
        """Try again what did not pass, crashed, or has no score; of these scenarios, if any are named."""
        return (yield from jobs.retry(self.id, only, scenarios))

    @call
    def rescore(self, trial_ids: Sequence[str] | None = None) -> Steps[BenchmarkJobView]:
        """Score what its trials left once more; all that count unless some are named."""
        return (yield from jobs.rescore(self.id, trial_ids))


class JobOps(VerbGroup[S]):
    """Makes and finds jobs."""

    @call
    def create(self, **fields: Unpack[JobFields]) -> Steps[Job[S]]:
        """Ask for one: `spec` is of type `benchmark`, `scenarios` or `harbor`."""
        body: Mapping[str, Any] = fields
        return Job(self.session, (yield from jobs.create(body)).id)

    def from_id(self, job_id: str) -> Job[S]:
        """The job of that id; nothing is asked of the server yet."""
        return Job(self.session, job_id)

    @call
    def list(self, **query: Unpack[JobPageFields]) -> Steps[list[Job[S]]]:
        """Newest first; all, or at most `limit`."""
        views = yield from all_items(jobs.jobs_of(query))
        return [Job(self.session, view.id) for view in views]
