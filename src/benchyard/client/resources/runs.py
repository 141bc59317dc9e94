"""Scenario runs and benchmark runs: start, look up, score, complete, cancel; their logs and traces."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Unpack

from benchyard.client.bodies import Progress, Target, no_progress
from benchyard.client.listings import ListingSpec, listing
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import TRANSFER_TIMEOUT, Request, Steps, at, fetch, long_poll
from benchyard.client.request_fields import (
    BenchmarkRunFields,
    BenchmarkRunPageFields,
    RunGatewayFields,
    RunPageFields,
    ScenarioRunFields,
    StatePageFields,
    body_of,
)
from benchyard.client.resources import devboxes, objects
from benchyard.client.resources.files import download
from benchyard.errors import Conflict
from benchyard.models.base import RenameRequest
from benchyard.models.model_access import RunGatewayView
from benchyard.models.objects import ObjectRequest
from benchyard.models.removals import RemovalView
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
_JSON_NAME = "trajectory.json"
_NOT_SCORING: list[RunState] = [state for state in RunState if state is not RunState.SCORING]


class ScenarioRuns(VerbGroup[S]):
    """The scenario runs of a server."""

    @call
    def retrieve(self, id: str) -> Steps[ScenarioRunView]:
        """Look a run up, with its scenario as it was when the run began; raises NotFound."""
        return (yield from get_scenario_run(id))

    get = retrieve

    @listing
    def list(self, **query: Unpack[RunPageFields]) -> ListingSpec[ScenarioRunView]:
        """List runs, newest first; all, or those of a scenario, a benchmark run or a state."""
        return ListingSpec("/v1/scenarios/runs", "runs", ScenarioRunView, query)

    @call
    def score(self, id: str) -> Steps[ScenarioRunView]:
        """Begin to score a run, and return at once."""
        return (yield from score_run(id))

    @call
    def await_scored(self, id: str, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """Wait until a run is scored; raises Conflict if it cannot be, StillWaiting after the timeout."""
        return (yield from await_scored(id, timeout))

    @call
    def score_and_await(self, id: str, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """Score a run and wait for the result."""
        return (yield from score_and_await(id, timeout))

    @call
    def score_and_complete(self, id: str, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """Score a run, wait for the result, and end the run."""
        return (yield from score_and_complete(id, timeout))

    @call
    def rescore(self, id: str, *, newest: bool = True) -> Steps[ScenarioRunView]:
        """Begin to score a run again from its final state, and return at once; raises Conflict without one.

        Uses the present revision of its scenario, or with `newest=False` the one the run began with.
        """
        return (yield from rescore_run(id, newest=newest))

    @call
    def rescore_and_await(
        self, id: str, timeout: float | None = None, *, newest: bool = True
    ) -> Steps[ScenarioRunView]:
        """Score a run again from its final state and wait; raises Conflict with the reason if that fails."""
        return (yield from rescore_and_await(id, timeout, newest=newest))

    @call
    def rename(self, id: str, name: str) -> Steps[ScenarioRunView]:
        """Rename a run that belongs to no job."""
        request = Request("POST", at("/v1/scenarios/runs/{}/rename", id), json=RenameRequest(name=name))
        return (yield from fetch(request, ScenarioRunView))

    @call
    def delete(self, id: str) -> Steps[RemovalView]:
        """Delete a run that has ended and belongs to no job, with its files."""
        return (yield from fetch(Request("POST", at("/v1/scenarios/runs/{}/delete", id)), RemovalView))

    @call
    def complete(self, id: str, timeout: float | None = None) -> Steps[ScenarioRunView]:
        """End a run and its devbox; a scoring in progress is awaited first."""
        return (yield from complete_scenario_run(id, timeout))

    @call
    def cancel(self, id: str) -> Steps[ScenarioRunView]:
        """End a run and its devbox without a score."""
        return (yield from cancel_scenario_run(id))

    @call
    def download_logs(self, id: str, path: Place) -> Steps[int]:
        """Write its logs to a file, as a zip without folders; returns the size."""
        return (yield from download_scenario_run_logs(id, path))

    @call
    def executions(
        self, id: str, *, lines: int = 40, limit: int = 10, of_agent: bool = False
    ) -> Steps[RunExecutionListView]:
        """Return the last commands in its devbox and the last lines of each, without secrets.

        With `of_agent` only the commands that run the agent of a trial, one for each round.
        """
        return (yield from list_run_executions(id, lines, limit, of_agent=of_agent))

    @call
    def download_trace(
        self, id: str, name: str, target: Target, progress: Progress = no_progress
    ) -> Steps[int]:
        """Write a trace of a run to a file; returns the size."""
        return (yield from download_trace(id, name, target, progress))

    @call
    def open_gateway(self, id: str, **fields: Unpack[RunGatewayFields]) -> Steps[RunGatewayView]:
        """Give your own code a token to ask a model; its calls are metered and recorded with the run.

        `url` is for code in the devbox, `outside_url` for code anywhere else.
        """
        return (yield from open_gateway(id, fields))

    @call
    def upload_trace(
        self,
        id: str,
        trace: Place | Trajectory,
        name: str | None = None,
        kind: Literal["file", "atif"] | None = None,
    ) -> Steps[ScenarioRunView]:
        """Keep a file, or a trajectory in ATIF as a dictionary, with the run; its logs include it."""
        return (yield from upload_trace(id, trace, name, kind))


def start_scenario_run(fields: ScenarioRunFields) -> Steps[ScenarioRunView]:
    """Start a run."""
    return (
        yield from fetch(Request("POST", "/v1/scenarios/start_run", json=body_of(fields)), ScenarioRunView)
    )


def start_and_await_env_ready(fields: ScenarioRunFields, timeout: float | None) -> Steps[ScenarioRunView]:
    """Start a run and wait for its devbox."""
    run = yield from start_scenario_run(fields)
    return (yield from await_env_ready(run.id, run.devbox_id, timeout))


def await_env_ready(id: str, devbox_id: str, timeout: float | None) -> Steps[ScenarioRunView]:
    """Wait for the devbox of a run; raises StartFailed if it never runs."""
    yield from devboxes.reach_running_devbox(devbox_id, timeout)
    return (yield from get_scenario_run(id))


def get_scenario_run(id: str) -> Steps[ScenarioRunView]:
    """Look a run up."""
    return (yield from fetch(Request("GET", at("/v1/scenarios/runs/{}", id)), ScenarioRunView))


def score_run(id: str) -> Steps[ScenarioRunView]:
    """Begin to score a run."""
    return (yield from fetch(Request("POST", at("/v1/scenarios/runs/{}/score", id)), ScenarioRunView))


def await_scored(id: str, timeout: float | None) -> Steps[ScenarioRunView]:
    """Wait for the end of a scoring."""
    path = at("/v1/scenarios/runs/{}/wait_for_state", id)

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


def score_and_await(id: str, timeout: float | None) -> Steps[ScenarioRunView]:
    """Score a run and wait for the result."""
    yield from score_run(id)
    return (yield from await_scored(id, timeout))


def score_and_complete(id: str, timeout: float | None) -> Steps[ScenarioRunView]:
    """Score a run, wait for the result, and end it."""
    yield from score_and_await(id, timeout)
    return (yield from complete_scenario_run(id, timeout))


def rescore_run(id: str, *, newest: bool) -> Steps[ScenarioRunView]:
    """Begin to score a run again from its final state."""
    body = RunRescoreRequest(newest=newest)
    request = Request("POST", at("/v1/scenarios/runs/{}/rescore", id), json=body)
    return (yield from fetch(request, ScenarioRunView))


def rescore_and_await(id: str, timeout: float | None, *, newest: bool) -> Steps[ScenarioRunView]:
    """Score a run again from its final state and wait for the result."""
    yield from rescore_run(id, newest=newest)
    run = yield from await_scored(id, timeout)
    if run.rescoring_failure is not None:
        raise Conflict(f"scenario run {id} could not be scored again: {run.rescoring_failure}")
    return run


def complete_scenario_run(id: str, timeout: float | None = None) -> Steps[ScenarioRunView]:
    """End a run."""
    request = Request("POST", at("/v1/scenarios/runs/{}/complete", id), long_poll=True)
    return (yield from long_poll(lambda _: fetch(request, ScenarioRunView), timeout))


def cancel_scenario_run(id: str) -> Steps[ScenarioRunView]:
    """End a run without a score."""
    return (yield from fetch(Request("POST", at("/v1/scenarios/runs/{}/cancel", id)), ScenarioRunView))


def open_gateway(id: str, fields: RunGatewayFields) -> Steps[RunGatewayView]:
    """Open a run's access to a model."""
    path = at("/v1/scenarios/runs/{}/open_gateway", id)
    return (yield from fetch(Request("POST", path, json=body_of(fields)), RunGatewayView))


def download_scenario_run_logs(id: str, path: Place) -> Steps[int]:
    """Fetch the logs of a run."""
    request = Request("POST", at("/v1/scenarios/runs/{}/download_logs", id), timeout=TRANSFER_TIMEOUT)
    return (yield from download(request, Path(path)))


def list_run_executions(id: str, lines: int, limit: int, *, of_agent: bool) -> Steps[RunExecutionListView]:
    """List the last commands of a run."""
    query = {"lines": lines, "limit": limit, "of_agent": of_agent}
    request = Request("GET", at("/v1/scenarios/runs/{}/executions", id), query)
    return (yield from fetch(request, RunExecutionListView))


def download_trace(id: str, name: str, target: Target, progress: Progress = no_progress) -> Steps[int]:
    """Fetch a trace of a run."""
    path = at("/v1/scenarios/runs/{}/traces/{}", id, name)
    return (yield from download(Request("GET", path, timeout=TRANSFER_TIMEOUT), target, progress))


def upload_trace(
    id: str, trace: Place | Trajectory, name: str | None, kind: Literal["file", "atif"] | None
) -> Steps[ScenarioRunView]:
    """Keep a file or a trajectory with a run."""
    body: dict[str, Any]
    if isinstance(trace, Mapping):
        body = {"name": name or _JSON_NAME, "kind": "atif", "trajectory": dict(trace)}
    else:
        file = Path(trace)
        wanted = ObjectRequest(name=name or file.name, content_type="binary")
        stored = yield from objects.upload(file, wanted)
        body = {"name": wanted.name, "kind": kind or "file", "object_id": stored.id}
    request = Request("POST", at("/v1/scenarios/runs/{}/traces", id), json=body_of(body))
    return (yield from fetch(request, ScenarioRunView))


_BENCHMARK_RUNS_PATH = "/v1/benchmark_runs"


class BenchmarkRuns(VerbGroup[S]):
    """The benchmark runs of a server."""

    @call
    def retrieve(self, id: str) -> Steps[BenchmarkRunView]:
        """Look a benchmark run up, with the scenarios that are not started yet; raises NotFound."""
        return (yield from get_benchmark_run(id))

    get = retrieve

    @listing
    def list(self, **query: Unpack[BenchmarkRunPageFields]) -> ListingSpec[BenchmarkRunView]:
        """List benchmark runs, newest first; all, or those of a benchmark or a state."""
        return ListingSpec(_BENCHMARK_RUNS_PATH, "runs", BenchmarkRunView, query)

    @listing
    def list_scenario_runs(self, id: str, **query: Unpack[StatePageFields]) -> ListingSpec[ScenarioRunView]:
        """List the scenario runs of a benchmark run, newest first."""
        return scenario_runs_of_benchmark_run(id, query)

    @call
    def complete(self, id: str, timeout: float | None = None) -> Steps[BenchmarkRunView]:
        """End a benchmark run: scored scenario runs count, all others are canceled and count 0."""
        return (yield from complete_benchmark_run(id, timeout))

    @call
    def cancel(self, id: str, timeout: float | None = None) -> Steps[BenchmarkRunView]:
        """End a benchmark run early and cancel its unfinished scenario runs."""
        return (yield from cancel_benchmark_run(id, timeout))

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
    def delete(self, id: str) -> Steps[RemovalView]:
        """Delete a benchmark run that has ended and belongs to no job, with its scenario runs."""
        return (yield from fetch(Request("POST", at(_BENCHMARK_RUNS_PATH + "/{}/delete", id)), RemovalView))

    @call
    def download_logs(self, id: str, path: Place) -> Steps[int]:
        """Write the logs of all its scenario runs to a file, as a zip without folders; returns the size."""
        return (yield from download_benchmark_run_logs(id, path))


def start_benchmark_run(fields: BenchmarkRunFields) -> Steps[BenchmarkRunView]:
    """Start a run."""
    return (
        yield from fetch(Request("POST", "/v1/benchmarks/start_run", json=body_of(fields)), BenchmarkRunView)
    )


def get_benchmark_run(id: str) -> Steps[BenchmarkRunView]:
    """Look a run up."""
    return (yield from fetch(Request("GET", at(_BENCHMARK_RUNS_PATH + "/{}", id)), BenchmarkRunView))


def scenario_runs_of_benchmark_run(id: str, query: StatePageFields) -> ListingSpec[ScenarioRunView]:
    """List the scenario runs of a benchmark run."""
    return ListingSpec(at(_BENCHMARK_RUNS_PATH + "/{}/scenario_runs", id), "runs", ScenarioRunView, query)


def complete_benchmark_run(id: str, timeout: float | None = None) -> Steps[BenchmarkRunView]:
    """End a run."""
    return (yield from _ended(at(_BENCHMARK_RUNS_PATH + "/{}/complete", id), timeout))


def cancel_benchmark_run(id: str, timeout: float | None = None) -> Steps[BenchmarkRunView]:
    """End a run early."""
    return (yield from _ended(at(_BENCHMARK_RUNS_PATH + "/{}/cancel", id), timeout))


def download_benchmark_run_logs(id: str, path: Place) -> Steps[int]:
    """Fetch the logs of a run."""
    request = Request("POST", at(_BENCHMARK_RUNS_PATH + "/{}/download_logs", id), timeout=TRANSFER_TIMEOUT)
    return (yield from download(request, Path(path)))


def _ended(path: str, timeout: float | None) -> Steps[BenchmarkRunView]:
    """Wait for the server's answer: all scenario runs must end first, which may outlast a connection."""
    request = Request("POST", path, long_poll=True)
    return (yield from long_poll(lambda _: fetch(request, BenchmarkRunView), timeout))
