"""Jobs: make, look up, list, follow, wait for, cancel, resume, retry, rescore; and their trials."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from benchyard.client.core import Flow, Request, Steps, at, fetch, pause
from benchyard.client.job_events import PATIENCE_SECONDS, Told, follow
from benchyard.client.listing import Listed, listing
from benchyard.client.pages import pages
from benchyard.client.verbs import Group, S, call, items
from benchyard.client.wanted import JobPageFields, TrialFields, body_of
from benchyard.errors import StillWaiting
from benchyard.models.base import RenameRequest
from benchyard.models.job_plans import JobPlanView
from benchyard.models.jobs import (
    ENDED_JOBS,
    ArtifactListView,
    BenchmarkJobView,
    JobEvent,
    JobRequest,
    RescoreRequest,
    RetryKind,
    RetryRequest,
)
from benchyard.models.removals import RemovalView
from benchyard.models.trials import SuspectRule, TrialView

FIRST_LOOK_SECONDS = 0.1
LATER_LOOKS_SECONDS = 2.0
_PATH = "/v1/benchmark_jobs"
_PAUSE_FOR_EACH_LOOK = 10.0
"""A large job takes a while to be told: whoever waits for it must not keep the server busy."""


def silent(_: bool) -> None:  # noqa: FBT001 (what it is told is in the name of its type)
    """For whom it does not matter whether the server is away."""


class Jobs(Group[S]):
    """The jobs of a server."""

    @call
    def create(self, request: JobRequest | Mapping[str, Any]) -> Steps[BenchmarkJobView]:
        """Ask for a job; it is planned and run whether or not anybody waits."""
        return (yield from create(request))

    @call
    def plan(
        self, request: JobRequest | Mapping[str, Any], pending_secrets: Sequence[str] = ()
    ) -> Steps[JobPlanView]:
        """What a job would be, what is missing for it, and what the like cost before; nothing is started.

        Pending secrets are those that will be made before it is created.
        """
        return (yield from plan(request, pending_secrets))

    @call
    def get(self, id: str, *, suspect: SuspectRule | None = None) -> Steps[BenchmarkJobView]:
        """Look one up, with what became of its agents; raises NotFound.

        `suspect` counts suspect scores by another rule than the job's own.
        """
        return (yield from retrieve(id, suspect))

    retrieve = get

    @listing
    def list(self, **query: Unpack[JobPageFields]) -> Listed[BenchmarkJobView]:
        """Newest first, all or those of a name or of some states; without their scenarios."""
        return jobs_of(query)

    @call
    def cancel(self, id: str) -> Steps[BenchmarkJobView]:
        """End one early; what has ended keeps its score."""
        return (yield from _post(id, "cancel"))

    @call
    def resume(self, id: str) -> Steps[BenchmarkJobView]:
        """Go on with the unfinished trials of one that was cancelled."""
        return (yield from _post(id, "resume"))

    @call
    def retry(
        self, id: str, only: RetryKind = "unscored", scenarios: Sequence[str] | None = None
    ) -> Steps[BenchmarkJobView]:
        """Try again what did not pass, crashed, or has no score; of these scenarios, if any are named."""
        return (yield from retry(id, only, scenarios))

    @call
    def rescore(self, id: str, trial_ids: Sequence[str] | None = None) -> Steps[BenchmarkJobView]:
        """Score what trials left once more; all that count unless some are named."""
        return (yield from rescore(id, trial_ids))

    @call
    def rename(self, id: str, name: str) -> Steps[BenchmarkJobView]:
        """Give one another name."""
        return (yield from _post(id, "rename", RenameRequest(name=name)))

    @call
    def pin(self, id: str, *, pinned: bool = True) -> Steps[BenchmarkJobView]:
        """Keep one however old its results are, or no longer."""
        return (yield from _post(id, "pin" if pinned else "unpin"))

    @call
    def delete(self, id: str) -> Steps[RemovalView]:
        """Delete one that has ended, with its trials, runs and files; raises Conflict while it runs."""
        return (yield from delete(id))

    @items
    def trials(self, id: str, **query: Unpack[TrialFields]) -> Flow[TrialView]:
        """All trials of one, those that were superseded too."""
        listed = trials_of(id, query)
        yield from pages(Request("GET", listed.path, listed.query), "trials", TrialView, query.get("limit"))

    @call
    def trial(self, id: str) -> Steps[TrialView]:
        """Look a trial up by its own id; raises NotFound."""
        return (yield from fetch(Request("GET", at("/v1/trials/{}", id)), TrialView))

    @items
    def events(
        self, id: str, after: int = 0, patience: float = PATIENCE_SECONDS, told: Told = silent
    ) -> Flow[JobEvent]:
        """What happens in one, from the event after a number on, until it has ended.

        Goes on after a restart of the server; raises ServerUnreachable when that is away for longer than the
        patience. `told` hears False when it is away and True when it is back.
        """
        yield from follow(id, after, patience, told)

    @call
    def wait(self, id: str, timeout: float | None = None) -> Steps[BenchmarkJobView]:
        """Wait until one has ended, however; raises StillWaiting when the time is over."""
        return (yield from wait(id, timeout))

    @call
    def artifacts(self, id: str, starting_after: str | None = None) -> Steps[ArtifactListView]:
        """The files that are kept with a page of its trials."""
        return (
            yield from fetch(
                Request("GET", at(_PATH + "/{}/artifacts", id), {"starting_after": starting_after}),
                ArtifactListView,
            )
        )


def create(request: JobRequest | Mapping[str, Any]) -> Steps[BenchmarkJobView]:
    """Ask for a job."""
    body = request if isinstance(request, JobRequest) else body_of(request)
    return (yield from fetch(Request("POST", _PATH, json=body), BenchmarkJobView))


def plan(request: JobRequest | Mapping[str, Any], pending_secrets: Sequence[str] = ()) -> Steps[JobPlanView]:
    """Ask what a job would be."""
    wanted = (
        request.model_dump(mode="json", exclude_none=True) if isinstance(request, JobRequest) else request
    )
    body = body_of({**wanted, "pending_secrets": list(pending_secrets)})
    return (yield from fetch(Request("POST", f"{_PATH}/plan", json=body), JobPlanView))


def retrieve(id: str, suspect: SuspectRule | None = None) -> Steps[BenchmarkJobView]:
    """Look a job up."""
    query = {"suspect": suspect} if suspect else {}
    return (yield from fetch(Request("GET", at(_PATH + "/{}", id), query), BenchmarkJobView))


def jobs_of(query: JobPageFields) -> Listed[BenchmarkJobView]:
    """The jobs of a server."""
    return Listed(_PATH, "jobs", BenchmarkJobView, query)


def cancel(id: str) -> Steps[BenchmarkJobView]:
    """End a job early."""
    return (yield from _post(id, "cancel"))


def resume(id: str) -> Steps[BenchmarkJobView]:
    """Go on with a job that was cancelled."""
    return (yield from _post(id, "resume"))


def retry(id: str, only: RetryKind, scenarios: Sequence[str] | None = None) -> Steps[BenchmarkJobView]:
    """Try again what did not pass, crashed, or has no score."""
    named = None if scenarios is None else list(scenarios)
    return (yield from _post(id, "retry", RetryRequest(only=only, scenarios=named)))


def rescore(id: str, trial_ids: Sequence[str] | None) -> Steps[BenchmarkJobView]:
    """Score again."""
    wanted = RescoreRequest(trial_ids=None if trial_ids is None else list(trial_ids))
    return (yield from _post(id, "rescore", wanted))


def delete(id: str) -> Steps[RemovalView]:
    """Delete a job that has ended."""
    return (yield from fetch(Request("POST", at(_PATH + "/{}/delete", id)), RemovalView))


def trials_of(id: str, query: TrialFields) -> Listed[TrialView]:
    """The trials of a job."""
    return Listed(at(_PATH + "/{}/trials", id), "trials", TrialView, query)


def wait(id: str, timeout: float | None) -> Steps[BenchmarkJobView]:
    """Look again and again until a job has ended."""
    deadline = None if timeout is None else time.monotonic() + timeout
    delay = FIRST_LOOK_SECONDS
    while True:
        begin = time.monotonic()
        view = yield from retrieve(id)
        if view.state in ENDED_JOBS:
            return view
        now = time.monotonic()
        if deadline is not None and now >= deadline:
            raise StillWaiting(f"job {id} is still {view.state.value}")
        next_look = max(delay, (now - begin) * _PAUSE_FOR_EACH_LOOK)
        yield from pause(next_look if deadline is None else min(next_look, max(0.0, deadline - now)))
        delay = min(delay * 2, LATER_LOOKS_SECONDS)


def _post(
    id: str, verb: str, body: RetryRequest | RescoreRequest | RenameRequest | None = None
) -> Steps[BenchmarkJobView]:
    path = at(_PATH + "/{}/{}", id, verb)
    return (yield from fetch(Request("POST", path, json=body), BenchmarkJobView))
