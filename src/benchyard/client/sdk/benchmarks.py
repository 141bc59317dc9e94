"""Benchmarks as objects: made, found by id, run."""

from collections.abc import Sequence
from typing import Unpack

from benchyard.client.listings import ListingSpec, all_items
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Steps
from benchyard.client.request_fields import (
    BenchmarkChanges,
    BenchmarkFields,
    BenchmarkRunPageFields,
    NamedPageFields,
    RunOptions,
)
from benchyard.client.resources import benchmarks, runs
from benchyard.client.sdk.runs import BenchmarkRun
from benchyard.models.benchmarks import BenchmarkView
from benchyard.models.runs import BenchmarkRunView


class Benchmark(VerbGroup[S]):
    """A named set of scenarios that together give one score."""

    def __init__(self, session: S, id: str) -> None:
        super().__init__(session)
        self.id = id

    def __repr__(self) -> str:
        return f"<Benchmark {self.id}>"

    @call
    def get_info(self) -> Steps[BenchmarkView]:
        """Return its present state."""
        return (yield from benchmarks.retrieve(self.id))

    @call
    def update(self, **changes: Unpack[BenchmarkChanges]) -> Steps[BenchmarkView]:
        """Change it: None leaves a field as it is, an empty value clears it."""
        return (yield from benchmarks.update(self.id, changes))

    @call
    def add_scenarios(self, scenario_ids: Sequence[str]) -> Steps[BenchmarkView]:
        """Add scenarios at its end."""
        return (yield from benchmarks.update_scenarios(self.id, scenario_ids, None))

    @call
    def remove_scenarios(self, scenario_ids: Sequence[str]) -> Steps[BenchmarkView]:
        """Take scenarios out of it."""
        return (yield from benchmarks.update_scenarios(self.id, None, scenario_ids))

    @call
    def start_run(self, **options: Unpack[RunOptions]) -> Steps[BenchmarkRun[S]]:
        """Start a run; its scenarios are started one by one with its id."""
        view = yield from runs.start_benchmark_run({**options, "benchmark_id": self.id})
        return BenchmarkRun(self.session, view.id, view.benchmark_id)

    @call
    def list_runs(self, **query: Unpack[BenchmarkRunPageFields]) -> Steps[list[BenchmarkRun[S]]]:
        """List its runs, newest first; all, or at most `limit`."""
        wanted = {**query, "benchmark_id": self.id}
        views = yield from all_items(ListingSpec("/v1/benchmark_runs", "runs", BenchmarkRunView, wanted))
        return [BenchmarkRun(self.session, view.id, view.benchmark_id) for view in views]


class BenchmarkOps(VerbGroup[S]):
    """Makes and finds benchmarks."""

    @call
    def create(self, **fields: Unpack[BenchmarkFields]) -> Steps[Benchmark[S]]:
        """Make a benchmark of scenarios."""
        return Benchmark(self.session, (yield from benchmarks.create(fields)).id)

    def from_id(self, benchmark_id: str) -> Benchmark[S]:
        """Return the benchmark of that id, without a request to the server."""
        return Benchmark(self.session, benchmark_id)

    @call
    def list(self, **query: Unpack[NamedPageFields]) -> Steps[list[Benchmark[S]]]:
        """List the server's own benchmarks, newest first; all, or at most `limit`."""
        views = yield from all_items(ListingSpec("/v1/benchmarks", "benchmarks", BenchmarkView, query))
        return [Benchmark(self.session, view.id) for view in views]
