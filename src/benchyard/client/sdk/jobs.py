"""Jobs as objects: created once, followed or waited for."""

from typing import Unpack

from benchyard.client.listings import all_items
from benchyard.client.methods import NounObject, S, VerbGroup, bound, call, items
from benchyard.client.operations import Flow, Steps
from benchyard.client.request_fields import JobFields, JobPageFields, TrialFields
from benchyard.client.resources.jobs import (
    PATIENCE_SECONDS,
    Jobs,
    follow_events,
    no_notice,
    trials_of,
)
from benchyard.models.jobs import BenchmarkJobView, BenchmarkOutcome, JobEvent
from benchyard.models.trials import TrialView


class Job(NounObject[S]):
    """Agents x scenarios x attempts, carried to the end by the server."""

    wait = bound(Jobs.wait)
    cancel = bound(Jobs.cancel)
    resume = bound(Jobs.resume)
    retry = bound(Jobs.retry)
    rescore = bound(Jobs.rescore)

    @call
    def get_info(self) -> Steps[BenchmarkJobView]:
        """Return its present state."""
        return (yield from Jobs(self.session).get.steps(self.id))

    @call
    def outcomes(self) -> Steps[list[BenchmarkOutcome]]:
        """Return the outcomes of the agents that are done, each with its scenarios."""
        return (yield from self.get_info.steps()).benchmark_outcomes

    @call
    def trials(self, **query: Unpack[TrialFields]) -> Steps[list[TrialView]]:
        """Return all its trials, also those that were superseded."""
        return (yield from all_items(trials_of(self.id, query)))

    @items
    def events(self, after: int = 0, patience: float = PATIENCE_SECONDS) -> Flow[JobEvent]:
        """Yield its events after the one with a number, until it has ended; goes on after server restarts."""
        yield from follow_events(self.id, after, patience, no_notice)


class JobOps(VerbGroup[S]):
    """Makes and finds jobs."""

    @call
    def create(self, **fields: Unpack[JobFields]) -> Steps[Job[S]]:
        """Create a job; `spec` is of type `benchmark`, `scenarios` or `harbor`."""
        return Job(self.session, (yield from Jobs(self.session).create.steps(fields)).id)

    def from_id(self, job_id: str) -> Job[S]:
        """Return the job of that id, without a request to the server."""
        return Job(self.session, job_id)

    @call
    def list(self, **query: Unpack[JobPageFields]) -> Steps[list[Job[S]]]:
        """List jobs, newest first; all, or at most `limit`."""
        views = yield from Jobs(self.session).list.steps(**query)
        return [Job(self.session, view.id) for view in views]
