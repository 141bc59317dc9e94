"""Benchmark runs: look up, list, complete, cancel; the scenario runs they hold, and all their logs."""

from pathlib import Path
from typing import Unpack

from benchyard.client.core import TRANSFER_TIMEOUT, Request, Steps, at, fetch
from benchyard.client.files import download
from benchyard.client.listing import Listed, listing
from benchyard.client.scenario_runs import Place
from benchyard.client.verbs import Group, S, call
from benchyard.client.waiting import insist
from benchyard.client.wanted import BenchmarkRunFields, BenchmarkRunPageFields, StatePageFields, body_of
from benchyard.models.base import RenameRequest
from benchyard.models.removals import RemovalView
from benchyard.models.runs import BenchmarkRunView, ScenarioRunView

_PATH = "/v1/benchmark_runs"


class BenchmarkRuns(Group[S]):
    """The benchmark runs of a server."""

    @call
    def retrieve(self, id: str) -> Steps[BenchmarkRunView]:
        """Look one up, with the scenarios that were not begun yet; raises NotFound."""
        return (yield from retrieve(id))

    get = retrieve

    @listing
    def list(self, **query: Unpack[BenchmarkRunPageFields]) -> Listed[BenchmarkRunView]:
        """Newest first, all or those of a benchmark or a state."""
        return Listed(_PATH, "runs", BenchmarkRunView, query)

    @listing
    def list_scenario_runs(self, id: str, **query: Unpack[StatePageFields]) -> Listed[ScenarioRunView]:
        """The scenario runs that were started for one, newest first."""
        return scenario_runs_of(id, query)

    @call
    def complete(self, id: str, timeout: float | None = None) -> Steps[BenchmarkRunView]:
        """End one: what was scored counts, what was not is canceled and counts 0."""
        return (yield from complete(id, timeout))

    @call
    def cancel(self, id: str, timeout: float | None = None) -> Steps[BenchmarkRunView]:
        """End one early and cancel what still runs."""
        return (yield from cancel(id, timeout))

    @call
    def rename(self, id: str, name: str) -> Steps[BenchmarkRunView]:
        """Give one that belongs to no job another name."""
        body = RenameRequest(name=name)
        return (yield from fetch(Request("POST", at(_PATH + "/{}/rename", id), json=body), BenchmarkRunView))

    @call
    def delete(self, id: str) -> Steps[RemovalView]:
        """Delete one that has ended and belongs to no job, with its scenario runs."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/delete", id)), RemovalView))

    @call
    def download_logs(self, id: str, path: Place) -> Steps[int]:
        """Write the logs of all its scenario runs to a file, as a zip without folders; returns the size."""
        return (yield from download_logs(id, path))


def start(fields: BenchmarkRunFields) -> Steps[BenchmarkRunView]:
    """Start a run."""
    return (
        yield from fetch(Request("POST", "/v1/benchmarks/start_run", json=body_of(fields)), BenchmarkRunView)
    )


def retrieve(id: str) -> Steps[BenchmarkRunView]:
    """Look a run up."""
    return (yield from fetch(Request("GET", at(_PATH + "/{}", id)), BenchmarkRunView))


def scenario_runs_of(id: str, query: StatePageFields) -> Listed[ScenarioRunView]:
    """The scenario runs of a benchmark run."""
    return Listed(at(_PATH + "/{}/scenario_runs", id), "runs", ScenarioRunView, query)


def complete(id: str, timeout: float | None = None) -> Steps[BenchmarkRunView]:
    """End a run."""
    return (yield from _ended(at(_PATH + "/{}/complete", id), timeout))


def cancel(id: str, timeout: float | None = None) -> Steps[BenchmarkRunView]:
    """End a run early."""
    return (yield from _ended(at(_PATH + "/{}/cancel", id), timeout))


def download_logs(id: str, path: Place) -> Steps[int]:
    """Fetch the logs of a run."""
    request = Request("POST", at(_PATH + "/{}/download_logs", id), timeout=TRANSFER_TIMEOUT)
    return (yield from download(request, Path(path)))


def _ended(path: str, timeout: float | None) -> Steps[BenchmarkRunView]:
    """The server answers when every scenario run has ended, which may take longer than a connection lives."""
    request = Request("POST", path, long_poll=True)
    return (yield from insist(lambda _: fetch(request, BenchmarkRunView), timeout))
