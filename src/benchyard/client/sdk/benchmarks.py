"""Benchmarks as objects: made, found by id, run."""

from collections.abc import Sequence
from typing import Unpack

from benchyard.client.methods import NounObject, S, VerbGroup, bound, call
from benchyard.client.operations import Steps
from benchyard.client.request_fields import (
    BenchmarkFields,
    BenchmarkRunPageFields,
    NamedPageFields,
    RunOptions,
)
from benchyard.client.resources.benchmarks import Benchmarks
from benchyard.client.resources.runs import BenchmarkRuns
from benchyard.client.sdk.runs import BenchmarkRun
from benchyard.models.benchmarks import BenchmarkView


class Benchmark(NounObject[S]):
    """A named set of scenarios that together give one score."""

    get_info = bound(Benchmarks.retrieve)
    update = bound(Benchmarks.update)

    @call
    def add_scenarios(self, scenario_ids: Sequence[str]) -> Steps[BenchmarkView]:
        """Add scenarios at its end."""
        group = Benchmarks(self.session)
        return (yield from group.update_scenarios.steps(self.id, scenarios_to_add=scenario_ids))

    @call
    def remove_scenarios(self, scenario_ids: Sequence[str]) -> Steps[BenchmarkView]:
        """Take scenarios out of it."""
        group = Benchmarks(self.session)
        return (yield from group.update_scenarios.steps(self.id, scenarios_to_remove=scenario_ids))

    @call
    def start_run(self, **options: Unpack[RunOptions]) -> Steps[BenchmarkRun[S]]:
        """Start a run; its scenarios are started one by one with its id."""
        view = yield from Benchmarks(self.session).start_run.steps(**options, benchmark_id=self.id)
        return BenchmarkRun(self.session, view.id, view.benchmark_id)

    @call
    def list_runs(self, **query: Unpack[BenchmarkRunPageFields]) -> Steps[list[BenchmarkRun[S]]]:
        """List its runs, newest first; all, or at most `limit`."""
        wanted: BenchmarkRunPageFields = {**query, "benchmark_id": self.id}
        views = yield from BenchmarkRuns(self.session).list.steps(**wanted)
        return [BenchmarkRun(self.session, view.id, view.benchmark_id) for view in views]


class BenchmarkOps(VerbGroup[S]):
    """Makes and finds benchmarks."""

    @call
    def create(self, **fields: Unpack[BenchmarkFields]) -> Steps[Benchmark[S]]:
        """Make a benchmark of scenarios."""
        return Benchmark(self.session, (yield from Benchmarks(self.session).create.steps(**fields)).id)

    def from_id(self, benchmark_id: str) -> Benchmark[S]:
        """Return the benchmark of that id, without a request to the server."""
        return Benchmark(self.session, benchmark_id)

    @call
    def list(self, **query: Unpack[NamedPageFields]) -> Steps[list[Benchmark[S]]]:
        """List the server's own benchmarks, newest first; all, or at most `limit`."""
        views = yield from Benchmarks(self.session).list.steps(**query)
        return [Benchmark(self.session, view.id) for view in views]
