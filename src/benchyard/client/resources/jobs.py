"""Jobs: make, look up, list, follow, wait for, cancel, resume, retry, rescore; their trials and reports."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import httpx

from benchyard.client.event_streams import EventParser
from benchyard.client.listings import ListingSpec, items_of_pages, listing
from benchyard.client.methods import S, call, items
from benchyard.client.operations import (
    READ_TIMEOUT,
    TRANSFER_TIMEOUT,
    Emit,
    Flow,
    Request,
    Steps,
    at,
    backoff,
    fetch,
    open_body,
    pause,
    read,
)
from benchyard.client.report_views import JobReport
from benchyard.client.request_fields import JobPageFields, TrialFields, body_of
from benchyard.client.resources.judges import JudgeVerbs
from benchyard.client.trial_frames import FrameKind, frame_of
from benchyard.errors import Conflict, ServerUnreachable, StillWaiting
from benchyard.models.base import RenameRequest
from benchyard.models.comparisons import ComparisonView, GateView
from benchyard.models.job_plans import JobPlanView
from benchyard.models.jobs import (
    ENDED_JOBS,
    ArtifactListView,
    BenchmarkJobView,
    JobEvent,
    JobRequest,
    JobRescoreRequest,
    JobState,
    RetryKind,
    RetryRequest,
)
from benchyard.models.removals import RemovalView
from benchyard.models.reports.job_report import TableView
from benchyard.models.reports.problems import BenchmarkProblemsView, ProblemsView
from benchyard.models.reports.trends import ScorerNoiseView
from benchyard.models.results.annotations import AnnotationRequest
from benchyard.models.trials import SuspectRule, TrialView

SILENCE_SECONDS = 60.0
PATIENCE_SECONDS = 600.0
LONGEST_PAUSE = 5.0
LARGEST_FRAME = 4 * 1024**2

OnReconnect = Callable[[bool], None]
"""Called with False when the server is away, and with True when it is back."""


@dataclass
class _StreamPosition:
    """Position up to which a stream was followed."""

    seq: int
    state: JobState | None = None
    failures: int = 0
    heard: float = 0.0


def follow_events(id: str, after: int, patience: float, told: OnReconnect) -> Flow[JobEvent]:
    """Yield each event after a number, once, until the job has ended and all its events have come.

    A stopping server ends its streams as if they were complete, so the end of a stream is believed only when
    the job has ended, and either its final event has come or asking again brings no more.
    """
    place = _StreamPosition(after, heard=time.monotonic())
    while True:
        begin = place.seq
        try:
            yield from _connection(id, place, told)
            view = yield from fetch(Request("GET", at(f"{_PATH}/{{}}", id), _SHORT), BenchmarkJobView)
        except (httpx.TransportError, ServerUnreachable, StillWaiting) as error:
            yield from _away(place, patience, told, error)
            continue
        _heard(place, told)
        if view.state in ENDED_JOBS and (place.state is view.state or place.seq == begin):
            return
        # Do not ask in a tight loop for streams that a stopping server cuts at once.
        yield from pause(backoff(0))


def _connection(id: str, place: _StreamPosition, told: OnReconnect) -> Flow[JobEvent]:
    path = at("/v1/benchmark_jobs/{}/events", id)
    yield from open_body(Request("GET", path, {"after": place.seq}, timeout=SILENCE_SECONDS))
    _heard(place, told)
    parser = EventParser(JobEvent, "an event of a job", LARGEST_FRAME)
    while chunk := (yield from read()):
        place.heard = time.monotonic()
        for event in parser.feed(chunk):
            if event.seq > place.seq:
                place.seq = event.seq
                place.state = event.state or place.state
                yield Emit(event)


def _heard(place: _StreamPosition, told: OnReconnect) -> None:
    if place.failures:
        told(True)
    place.failures = 0
    place.heard = time.monotonic()


def _away(place: _StreamPosition, patience: float, told: OnReconnect, error: Exception) -> Steps[None]:
    if time.monotonic() - place.heard > patience:
        raise ServerUnreachable(
            f"the server was away for more than {patience:g} seconds; the job goes on when it is back"
        ) from error
    if not place.failures:
        told(False)
    place.failures += 1
    yield from pause(min(backoff(place.failures), LONGEST_PAUSE))


FIRST_LOOK_SECONDS = 0.1
LATER_LOOKS_SECONDS = 2.0
_READING_PAUSE = 0.5
_MOST_READINGS = 1000
"""Requests after which what was read so far is returned."""
_PATH = "/v1/benchmark_jobs"
_SHORT = {"scenarios": "false"}
"""Query that leaves the results of single scenarios out, which makes large jobs small."""
_PAUSE_FOR_EACH_LOOK = 10.0
"""Pause between looks, in durations of one look: polling for a large job must not keep the server busy."""


def no_notice(_: bool) -> None:  # noqa: FBT001 (what it is told is in the name of its type)
    """Ignore whether the server is away."""


class Jobs(JudgeVerbs[S]):
    """The jobs of a server."""

    @call
    def create(self, request: JobRequest | Mapping[str, Any]) -> Steps[BenchmarkJobView]:
        """Create a job; it is planned and run whether or not a client waits."""
        body = request if isinstance(request, JobRequest) else body_of(request)
        return (yield from fetch(Request("POST", _PATH, json=body), BenchmarkJobView))

    @call
    def plan(
        self, request: JobRequest | Mapping[str, Any], pending_secrets: Sequence[str] = ()
    ) -> Steps[JobPlanView]:
        """Return the plan of a job, its missing prerequisites and the cost of similar jobs; starts nothing.

        Pending secrets are those that will be made before the job is created.
        """
        wanted = (
            request.model_dump(mode="json", exclude_none=True) if isinstance(request, JobRequest) else request
        )
        body = body_of({**wanted, "pending_secrets": list(pending_secrets)})
        return (yield from fetch(Request("POST", f"{_PATH}/plan", json=body), JobPlanView))

    @call
    def get(
        self, id: str, *, suspect: SuspectRule | None = None, scenarios: bool = True
    ) -> Steps[BenchmarkJobView]:
        """Look a job up, with the results of its agents; raises NotFound.

        `suspect` counts suspect scores by another rule than the job's own; without `scenarios`, results of
        single scenarios are left out, which makes large jobs small.
        """
        query = {"suspect": suspect, "scenarios": None if scenarios else "false"}
        timeout = TRANSFER_TIMEOUT if scenarios else READ_TIMEOUT
        request = Request("GET", at(_PATH + "/{}", id), query, timeout=timeout)
        return (yield from fetch(request, BenchmarkJobView))

    retrieve = get

    @listing
    def list(self, **query: Unpack[JobPageFields]) -> ListingSpec[BenchmarkJobView]:
        """List jobs, newest first; all, or those of a name or of some states; without their scenarios."""
        return ListingSpec(_PATH, "jobs", BenchmarkJobView, query)

    @call
    def cancel(self, id: str) -> Steps[BenchmarkJobView]:
        """End a job early; ended trials keep their score."""
        return (yield from _post(id, "cancel"))

    @call
    def resume(self, id: str) -> Steps[BenchmarkJobView]:
        """Go on with the unfinished trials of a cancelled job."""
        return (yield from _post(id, "resume"))

    @call
    def retry(
        self, id: str, only: RetryKind = "unscored", scenarios: Sequence[str] | None = None
    ) -> Steps[BenchmarkJobView]:
        """Retry trials that did not pass, crashed, or have no score; only of named scenarios, if any."""
        named = None if scenarios is None else list(scenarios)
        return (yield from _post(id, "retry", RetryRequest(only=only, scenarios=named)))

    @call
    def rescore(
        self, id: str, trial_ids: Sequence[str] | None = None, *, times: int = 1
    ) -> Steps[BenchmarkJobView]:
        """Score the final states of trials again; all trials that count, unless some are named.

        With `times` above 1, each is scored so often, which tells the noise of its scorers; the last counts.
        """
        wanted = JobRescoreRequest(trial_ids=None if trial_ids is None else list(trial_ids), times=times)
        return (yield from _post(id, "rescore", wanted))

    @call
    def scorer_noise(self, trial_id: str, times: int = 5) -> Steps[ScorerNoiseView]:
        """Score a trial's final state so often again, and return how often the score changed.

        All scores are kept with the trial, and the last one counts, as after any rescoring.
        """
        trial = yield from self.trial.steps(trial_id)
        yield from self.rescore.steps(trial.job_id, [trial_id], times=times)
        view = yield from self.wait_for_rescoring.steps(trial.job_id)
        trial = yield from self.trial.steps(trial_id)
        if trial.rescore_note is not None:
            raise Conflict(f"trial {trial_id} was not scored again: {trial.rescore_note}")
        if view.rescoring is not None and trial_id in view.rescoring.pruned:
            raise Conflict(f"the final state of trial {trial_id} is not kept any more")
        return (yield from fetch(Request("GET", at("/v1/trials/{}/scorer_noise", trial_id)), ScorerNoiseView))

    @call
    def wait_for_rescoring(self, id: str, timeout: float | None = None) -> Steps[BenchmarkJobView]:
        """Wait until the trials of a job are scored again; raises StillWaiting after the timeout."""
        deadline = None if timeout is None else time.monotonic() + timeout
        delay = FIRST_LOOK_SECONDS
        while True:
            view = yield from self.get.steps(id, scenarios=False)
            if view.rescoring_state != "running":
                # The looks left the scenarios out.
                return (yield from self.get.steps(id))
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                raise StillWaiting(f"trials of job {id} are still being scored again")
            yield from pause(delay if deadline is None else min(delay, deadline - now))
            delay = min(delay * 2, LATER_LOOKS_SECONDS)

    @call
    def rename(self, id: str, name: str) -> Steps[BenchmarkJobView]:
        """Give a job another name; returns it without its scenarios."""
        return (yield from _post(id, "rename", RenameRequest(name=name), _SHORT))

    @call
    def annotate(
        self,
        id: str,
        *,
        add_tags: Sequence[str] = (),
        remove_tags: Sequence[str] = (),
        note: str | None = None,
    ) -> Steps[BenchmarkJobView]:
        """Add or remove tags of a job, or write a note on it; returns it without its scenarios.

        An empty note removes it.
        """
        body = AnnotationRequest(add_tags=[*add_tags], remove_tags=[*remove_tags], note=note)
        return (yield from _post(id, "annotate", body, _SHORT))

    @call
    def pin(self, id: str, *, pinned: bool = True) -> Steps[BenchmarkJobView]:
        """Keep a job however old its results are, or no longer; returns it without its scenarios."""
        return (yield from _post(id, "pin" if pinned else "unpin", None, _SHORT))

    @call
    def delete(self, id: str) -> Steps[RemovalView]:
        """Delete a job that has ended, with its trials, runs and files; raises Conflict while it runs."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/delete", id)), RemovalView))

    @items
    def trials(self, id: str, **query: Unpack[TrialFields]) -> Flow[TrialView]:
        """Yield all trials of a job, also those that were superseded."""
        listed = trials_of(id, query)
        request = Request("GET", listed.path, listed.query)
        yield from items_of_pages(request, "trials", TrialView, query.get("limit"))

    @call
    def trial(self, id: str) -> Steps[TrialView]:
        """Look a trial up by its own id; raises NotFound."""
        return (yield from fetch(Request("GET", at("/v1/trials/{}", id)), TrialView))

    @items
    def events(
        self, id: str, after: int = 0, patience: float = PATIENCE_SECONDS, told: OnReconnect = no_notice
    ) -> Flow[JobEvent]:
        """Yield the events of a job after the one with a number, until it has ended.

        Goes on after a restart of the server; raises ServerUnreachable when the server is away for longer
        than the patience. `told` is called with False when it is away and with True when it is back.
        """
        yield from follow_events(id, after, patience, told)

    @call
    def wait(self, id: str, timeout: float | None = None) -> Steps[BenchmarkJobView]:
        """Wait until a job has ended in any state, and return it; raises StillWaiting after the timeout."""
        deadline = None if timeout is None else time.monotonic() + timeout
        delay = FIRST_LOOK_SECONDS
        while True:
            begin = time.monotonic()
            view = yield from self.get.steps(id, scenarios=False)
            if view.state in ENDED_JOBS:
                view = yield from self.get.steps(id)
            if view.state in ENDED_JOBS:
                return view
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                raise StillWaiting(f"job {id} is still {view.state.value}")
            next_look = max(delay, (now - begin) * _PAUSE_FOR_EACH_LOOK)
            yield from pause(next_look if deadline is None else min(next_look, max(0.0, deadline - now)))
            delay = min(delay * 2, LATER_LOOKS_SECONDS)

    @call
    def compare(
        self, a: str, b: str, *, cluster: str | None = None, suspect: SuspectRule | None = None
    ) -> Steps[ComparisonView]:
        """Compare agent b with agent a on the scenarios that both have scored.

        Each is the id of a job, or ID:AGENT with the index or label of one of its agents, or the id of a
        benchmark run of the SDK; one of the two may be the name of a baseline of the other's benchmark and
        agent. `cluster` is a key of the scenarios'
        metadata, such as `repo`: scenarios of one value may succeed and fail together.
        """
        query = {"a": a, "b": b, "cluster": cluster, "suspect": suspect}
        request = Request("GET", "/v1/compare", query, timeout=TRANSFER_TIMEOUT)
        return (yield from fetch(request, ComparisonView))

    @call
    def gate(
        self,
        a: str,
        b: str,
        margin: float = 0.0,
        *,
        max_unscored: str = "0",
        cluster: str | None = None,
        suspect: SuspectRule | None = None,
        tell: bool = False,
    ) -> Steps[GateView]:
        """Say whether agent b is worse than agent a by more than a margin: pass, fail or inconclusive.

        Each is what `compare` takes. More unscored attempts than `max_unscored`, such as 3 or 5%, count by
        what they could change. With `tell`, webhooks are told of the verdict.
        """
        query: dict[str, str | None] = {"a": a, "b": b, "margin": str(margin), "max_unscored": max_unscored}
        query |= {"cluster": cluster, "suspect": suspect}
        request = Request("POST" if tell else "GET", "/v1/gate", query, timeout=TRANSFER_TIMEOUT)
        return (yield from fetch(request, GateView))

    @call
    def problems(self, id: str) -> Steps[ProblemsView]:
        """Find the problems of a job's trials that have ended, new ones first.

        Trajectories are read once. Of a large job that takes several requests, which this waits for.
        """
        return (yield from problems_at(at(_PATH + "/{}/problems", id)))

    @call
    def problems_of(self, benchmark: str, limit: int = 10) -> Steps[BenchmarkProblemsView]:
        """Show the prevalence of problems over the last jobs and runs of a benchmark, by its id or name."""
        query: dict[str, str | int] = {"benchmark": benchmark, "limit": limit}
        request = Request("GET", "/v1/problems", query, timeout=TRANSFER_TIMEOUT)
        return (yield from fetch(request, BenchmarkProblemsView))

    @call
    def report(
        self, id: str, *, cluster: str | None = None, suspect: SuspectRule | None = None
    ) -> Steps[JobReport]:
        """Report on a job: means with intervals, pass@k and pass^k, ranks, costs, power, flaky scenarios.

        `cluster` is a key of the scenarios' metadata, such as `repo`: scenarios of one value may succeed and
        fail together. In a notebook, the report shows itself.
        """
        query = {"cluster": cluster, "suspect": suspect}
        request = Request("GET", at(_PATH + "/{}/report", id), query, timeout=TRANSFER_TIMEOUT)
        return (yield from fetch(request, JobReport))

    @call
    def table(
        self, id: str, columns: Sequence[str] | None = None, *, suspect: SuspectRule | None = None
    ) -> Steps[TableView]:
        """Return the trials of a job as columns, in the order of its plan; the usual ones, or those named."""
        query = {"columns": None if columns is None else ",".join(columns), "suspect": suspect}
        request = Request("GET", at(_PATH + "/{}/table", id), query, timeout=TRANSFER_TIMEOUT)
        return (yield from fetch(request, TableView))

    @call
    def frame(
        self,
        id: str,
        kind: FrameKind | None = None,
        columns: Sequence[str] | None = None,
        *,
        suspect: SuspectRule | None = None,
    ) -> Steps[Any]:
        """Return the trials of a job as a data frame of pandas or polars, whichever is installed.

        Raises UsageError where it is not.
        """
        table = yield from self.table.steps(id, columns, suspect=suspect)
        return frame_of(table, kind)

    @call
    def artifacts(self, id: str, starting_after: str | None = None) -> Steps[ArtifactListView]:
        """Return the files that are kept with a page of its trials."""
        return (
            yield from fetch(
                Request("GET", at(_PATH + "/{}/artifacts", id), {"starting_after": starting_after}),
                ArtifactListView,
            )
        )


def problems_at(path: str) -> Steps[ProblemsView]:
    """Request problems until all trials are read, which may take several requests."""
    request = Request("GET", path, timeout=TRANSFER_TIMEOUT)
    view = yield from fetch(request, ProblemsView)
    for _ in range(_MOST_READINGS):
        if view.is_complete:
            break
        yield from pause(_READING_PAUSE)
        view = yield from fetch(request, ProblemsView)
    return view


def _post(
    id: str,
    verb: str,
    body: RetryRequest | JobRescoreRequest | RenameRequest | AnnotationRequest | None = None,
    query: Mapping[str, str] | None = None,
) -> Steps[BenchmarkJobView]:
    path = at(_PATH + "/{}/{}", id, verb)
    request = Request("POST", path, query or {}, json=body, timeout=TRANSFER_TIMEOUT)
    return (yield from fetch(request, BenchmarkJobView))


def trials_of(id: str, query: TrialFields) -> ListingSpec[TrialView]:
    """List the trials of a job."""
    return ListingSpec(at(_PATH + "/{}/trials", id), "trials", TrialView, query)
