"""Scenario runs and benchmark runs: start, look up, score, complete, cancel; their logs and traces."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Unpack

from benchyard.client.bodies import Progress, Target, no_progress
from benchyard.client.listings import ListingSpec, listing
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import TRANSFER_TIMEOUT, Request, Steps, at, fetch, long_poll
from benchyard.client.report_views import JobReport
from benchyard.client.request_fields import (
    BenchmarkRunPageFields,
    RunGatewayFields,
    RunPageFields,
    StatePageFields,
    body_of,
)
from benchyard.client.resources.devboxes import Devboxes
from benchyard.client.resources.files import download
from benchyard.client.resources.jobs import problems_at
from benchyard.client.resources.objects import Objects
from benchyard.client.resources.work import WorkVerbs
from benchyard.client.trial_frames import FrameKind, frame_of
from benchyard.errors import Conflict
from benchyard.models.base import RenameRequest
from benchyard.models.model_access import RunGatewayView
from benchyard.models.objects import ObjectRequest
from benchyard.models.removals import RemovalView
from benchyard.models.reports.job_report import TableView
from benchyard.models.reports.problems import ProblemsView
from benchyard.models.results.annotations import AnnotationRequest, LabelRequest
from benchyard.models.runs import (
    BenchmarkRunView,
    RunExecutionListView,
    RunRescoreRequest,
    RunState,
    RunWaitRequest,
    ScenarioRunView,
)

Trajectory = Mapping[str, Any]
Place = str | os.PathLike[str]
_PATH = "/v1/scenarios/runs"
_JSON_NAME = "trajectory.json"
_NOT_SCORING: list[RunState] = [state for state in RunState if state is not RunState.SCORING]


class ScenarioRuns(WorkVerbs[S]):
    """The scenario runs of a server."""

    @call
    def retrieve(self, id: str) -> Steps[ScenarioRunView]:
        """Look a run up, with its scenario as it was when the run began; raises NotFound."""
        return (yield from fetch(Request("GET", at(_PATH + "/{}", id)), ScenarioRunView))

    get = retrieve

    @listing
    def list(self, **query: Unpack[RunPageFields]) -> ListingSpec[ScenarioRunView]:
        """List runs, newest first; all, or those of a scenario, a benchmark run, a state or a tag.

        Trials of jobs have runs too; `client.trials` lists them as trials.
        """
        return ListingSpec(_PATH, "runs", ScenarioRunView, query)

    @call
    def await_env_ready(
        self, id: str, devbox_id: str, timeout: float | None = None
    ) -> Steps[ScenarioRunView]:
        """Wait until the devbox of a run runs; raises StartFailed if it never will."""
        yield from Devboxes(self.session).await_running.steps(devbox_id, timeout)
        return (yield from self.retrieve.steps(id))

    @call
    def score(self, id: str) -> Steps[ScenarioRunView]:
        """Begin to score a run, and return at once."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/score", id)), ScenarioRunView))

    @call
    def await_scored(self, id: str, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """Wait until a run is scored; raises Conflict if it cannot be, StillWaiting after the timeout."""
        path = at(_PATH + "/{}/wait_for_state", id)

        def ask(hold: float) -> Steps[ScenarioRunView]:
            wanted = RunWaitRequest(states=_NOT_SCORING, timeout_seconds=hold, settled=True)
            return (yield from fetch(Request("POST", path, json=wanted, long_poll=True), ScenarioRunView))

        run = yield from long_poll(ask, timeout)
        if run.state is RunState.RUNNING:
            raise Conflict(f"no score was requested for scenario run {id}; call `score` first")
        if run.state in (RunState.SCORED, RunState.COMPLETED) and run.scoring_contract_result is not None:
            return run
        why = f": {run.failure_reason}" if run.failure_reason else ""
        raise Conflict(f"scenario run {id} is {run.state.value} and has no score{why}")

    @call
    def score_and_await(self, id: str, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """Score a run and wait for the result."""
        yield from self.score.steps(id)
        return (yield from self.await_scored.steps(id, timeout))

    @call
    def score_and_complete(self, id: str, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """Score a run, wait for the result, and end the run."""
        yield from self.score_and_await.steps(id, timeout)
        return (yield from self.complete.steps(id, timeout))

    @call
    def rescore(self, id: str, *, newest: bool = True) -> Steps[ScenarioRunView]:
        """Begin to score a run again from its final state, and return at once; raises Conflict without one.

        Uses the present revision of its scenario, or with `newest=False` the one the run began with.
        """
        body = RunRescoreRequest(newest=newest)
        request = Request("POST", at(_PATH + "/{}/rescore", id), json=body)
        return (yield from fetch(request, ScenarioRunView))

    @call
    def rescore_and_await(
        self, id: str, timeout: float | None = None, *, newest: bool = True
    ) -> Steps[ScenarioRunView]:
        """Score a run again from its final state and wait; raises Conflict with the reason if that fails."""
        yield from self.rescore.steps(id, newest=newest)
        run = yield from self.await_scored.steps(id, timeout)
        if run.rescoring_failure is not None:
            raise Conflict(f"scenario run {id} could not be scored again: {run.rescoring_failure}")
        return run

    @call
    def rename(self, id: str, name: str) -> Steps[ScenarioRunView]:
        """Rename a run that belongs to no job."""
        request = Request("POST", at(_PATH + "/{}/rename", id), json=RenameRequest(name=name))
        return (yield from fetch(request, ScenarioRunView))

    @call
    def annotate(
        self,
        id: str,
        *,
        add_tags: Sequence[str] = (),
        remove_tags: Sequence[str] = (),
        note: str | None = None,
    ) -> Steps[ScenarioRunView]:
        """Add or remove tags of a run that belongs to no job, or write a note; an empty note removes it."""
        body = AnnotationRequest(add_tags=[*add_tags], remove_tags=[*remove_tags], note=note)
        request = Request("POST", at(_PATH + "/{}/annotate", id), json=body)
        return (yield from fetch(request, ScenarioRunView))

    @call
    def label(
        self, id: str, name: str, value: str | None, comment: str | None = None
    ) -> Steps[ScenarioRunView]:
        """Give your verdict on a run, in place of an earlier one of that name; None takes it back.

        Raises Conflict for a run of a job, whose trial has the verdicts.
        """
        body = LabelRequest(name=name, value=value, comment=comment)
        return (yield from fetch(Request("POST", at(_PATH + "/{}/label", id), json=body), ScenarioRunView))

    @call
    def delete(self, id: str) -> Steps[RemovalView]:
        """Delete a run that has ended and belongs to no job, with its files."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/delete", id)), RemovalView))

    @call
    def complete(self, id: str, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """End a run and its devbox; a scoring in progress is awaited first."""
        request = Request("POST", at(_PATH + "/{}/complete", id), long_poll=True)
        return (yield from long_poll(lambda _: fetch(request, ScenarioRunView), timeout))

    @call
    def cancel(self, id: str) -> Steps[ScenarioRunView]:
        """End a run and its devbox without a score."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/cancel", id)), ScenarioRunView))

    @call
    def download_logs(self, id: str, path: Place) -> Steps[int]:
        """Write its logs to a file, as a zip without folders; returns the size."""
        request = Request("POST", at(_PATH + "/{}/download_logs", id), timeout=TRANSFER_TIMEOUT)
        return (yield from download(request, Path(path)))

    @call
    def executions(
        self, id: str, *, lines: int = 40, limit: int = 10, of_agent: bool = False
    ) -> Steps[RunExecutionListView]:
        """Return the last commands in its devbox and the last lines of each, without secrets.

        With `of_agent` only the commands that run the agent of a trial, one for each round.
        """
        query = {"lines": lines, "limit": limit, "of_agent": of_agent}
        request = Request("GET", at(_PATH + "/{}/executions", id), query)
        return (yield from fetch(request, RunExecutionListView))

    @call
    def download_trace(
        self, id: str, name: str, target: Target, progress: Progress = no_progress
    ) -> Steps[int]:
        """Write a trace of a run to a file; returns the size."""
        request = Request("GET", at(_PATH + "/{}/traces/{}", id, name), timeout=TRANSFER_TIMEOUT)
        return (yield from download(request, target, progress))

    @call
    def open_gateway(self, id: str, **fields: Unpack[RunGatewayFields]) -> Steps[RunGatewayView]:
        """Give your own code a token to ask a model; its calls are metered and recorded with the run.

        `url` is for code in the devbox, `outside_url` for code anywhere else.
        """
        request = Request("POST", at(_PATH + "/{}/open_gateway", id), json=body_of(fields))
        return (yield from fetch(request, RunGatewayView))

    @call
    def upload_trace(
        self,
        id: str,
        trace: Place | Trajectory,
        name: str | None = None,
        kind: Literal["file", "atif"] | None = None,
    ) -> Steps[ScenarioRunView]:
        """Keep a file, or a trajectory in ATIF as a dictionary, with the run; its logs include it."""
        body: dict[str, Any]
        if isinstance(trace, Mapping):
            body = {"name": name or _JSON_NAME, "kind": "atif", "trajectory": dict(trace)}
        else:
            file = Path(trace)
            wanted = ObjectRequest(name=name or file.name, content_type="binary")
            stored = yield from Objects(self.session).upload.steps(file, wanted)
            body = {"name": wanted.name, "kind": kind or "file", "object_id": stored.id}
        request = Request("POST", at(_PATH + "/{}/traces", id), json=body_of(body))
        return (yield from fetch(request, ScenarioRunView))


_BENCHMARK_RUNS_PATH = "/v1/benchmark_runs"


class BenchmarkRuns(VerbGroup[S]):
    """The benchmark runs of a server."""

    @call
    def retrieve(self, id: str) -> Steps[BenchmarkRunView]:
        """Look a benchmark run up, with the scenarios that are not started yet; raises NotFound."""
        return (yield from fetch(Request("GET", at(_BENCHMARK_RUNS_PATH + "/{}", id)), BenchmarkRunView))

    get = retrieve

    @call
    def report(self, id: str, *, cluster: str | None = None) -> Steps[JobReport]:
        """Report on a benchmark run as on a job with one agent: means with intervals, flaky scenarios, costs.

        `cluster` is a key of the scenarios' metadata, such as `repo`: scenarios of one value may succeed and
        fail together.
        """
        path = at(_BENCHMARK_RUNS_PATH + "/{}/report", id)
        return (yield from fetch(Request("GET", path, {"cluster": cluster}), JobReport))

    @call
    def problems(self, id: str) -> Steps[ProblemsView]:
        """Find the problems of a benchmark run's ended scenario runs, as `client.jobs.problems` of trials.

        New are those that the benchmark run before it did not have.
        """
        return (yield from problems_at(at(_BENCHMARK_RUNS_PATH + "/{}/problems", id)))

    @call
    def table(self, id: str, columns: Sequence[str] | None = None) -> Steps[TableView]:
        """Return its scenario runs as columns, as `client.jobs.table` does trials."""
        query = {"columns": None if columns is None else ",".join(columns)}
        path = at(_BENCHMARK_RUNS_PATH + "/{}/table", id)
        return (yield from fetch(Request("GET", path, query), TableView))

    @call
    def frame(
        self, id: str, kind: FrameKind | None = None, columns: Sequence[str] | None = None
    ) -> Steps[Any]:
        """Return its scenario runs as a data frame of pandas or polars, whichever is installed.

        Raises UsageError where it is not.
        """
        return frame_of((yield from self.table.steps(id, columns)), kind)

    @listing
    def list(self, **query: Unpack[BenchmarkRunPageFields]) -> ListingSpec[BenchmarkRunView]:
        """List benchmark runs, newest first; all, or those of a benchmark, a state or a tag."""
        return ListingSpec(_BENCHMARK_RUNS_PATH, "runs", BenchmarkRunView, query)

    @listing
    def list_scenario_runs(self, id: str, **query: Unpack[StatePageFields]) -> ListingSpec[ScenarioRunView]:
        """List the scenario runs of a benchmark run, newest first."""
        path = at(_BENCHMARK_RUNS_PATH + "/{}/scenario_runs", id)
        return ListingSpec(path, "runs", ScenarioRunView, query)

    @call
    def complete(self, id: str, timeout: float | None = None) -> Steps[BenchmarkRunView]:
        """End a benchmark run: scored scenario runs count, all others are canceled and count 0."""
        return (yield from _end(at(_BENCHMARK_RUNS_PATH + "/{}/complete", id), timeout))

    @call
    def cancel(self, id: str, timeout: float | None = None) -> Steps[BenchmarkRunView]:
        """End a benchmark run early and cancel its unfinished scenario runs."""
        return (yield from _end(at(_BENCHMARK_RUNS_PATH + "/{}/cancel", id), timeout))

    @call
    def rename(self, id: str, name: str) -> Steps[BenchmarkRunView]:
        """Rename a benchmark run that belongs to no job."""
        body = RenameRequest(name=name)
        return (
            yield from fetch(
                Request("POST", at(_BENCHMARK_RUNS_PATH + "/{}/rename", id), json=body), BenchmarkRunView
            )
        )

    @call
    def annotate(
        self,
        id: str,
        *,
        add_tags: Sequence[str] = (),
        remove_tags: Sequence[str] = (),
        note: str | None = None,
    ) -> Steps[BenchmarkRunView]:
        """Add or remove tags of a run that belongs to no job, or write a note; an empty note removes it."""
        body = AnnotationRequest(add_tags=[*add_tags], remove_tags=[*remove_tags], note=note)
        request = Request("POST", at(_BENCHMARK_RUNS_PATH + "/{}/annotate", id), json=body)
        return (yield from fetch(request, BenchmarkRunView))

    @call
    def delete(self, id: str) -> Steps[RemovalView]:
        """Delete a benchmark run that has ended and belongs to no job, with its scenario runs."""
        return (yield from fetch(Request("POST", at(_BENCHMARK_RUNS_PATH + "/{}/delete", id)), RemovalView))

    @call
    def download_logs(self, id: str, path: Place) -> Steps[int]:
        """Write the logs of all its scenario runs to a file, as a zip without folders; returns the size."""
        url = at(_BENCHMARK_RUNS_PATH + "/{}/download_logs", id)
        return (yield from download(Request("POST", url, timeout=TRANSFER_TIMEOUT), Path(path)))


def _end(path: str, timeout: float | None) -> Steps[BenchmarkRunView]:
    """Wait for the server's answer: all scenario runs must end first, which may outlast a connection."""
    request = Request("POST", path, long_poll=True)
    return (yield from long_poll(lambda _: fetch(request, BenchmarkRunView), timeout))
