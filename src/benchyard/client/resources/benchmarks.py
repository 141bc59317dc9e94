"""Benchmarks: make, look up, list, change, archive, run."""

from collections.abc import Sequence
from typing import Unpack

from benchyard.client.listings import ListingSpec, listing
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import TRANSFER_TIMEOUT, Request, Steps, at, fetch
from benchyard.client.request_fields import (
    BenchmarkChanges,
    BenchmarkFields,
    BenchmarkRunFields,
    NamedPageFields,
    PageFields,
    body_of,
)
from benchyard.models.benchmarks import BenchmarkView
from benchyard.models.removals import BenchmarkDeleteRequest, DeletedView
from benchyard.models.reports.trends import InsightsView, TrendsView
from benchyard.models.runs import BenchmarkRunView
from benchyard.models.scenarios import ScenarioView

_PATH = "/v1/benchmarks"


class Benchmarks(VerbGroup[S]):
    """The benchmarks of a server."""

    @call
    def create(self, **fields: Unpack[BenchmarkFields]) -> Steps[BenchmarkView]:
        """Make a benchmark of scenarios; raises UsageError if its name is taken."""
        return (yield from fetch(Request("POST", _PATH, json=body_of(fields)), BenchmarkView))

    @call
    def retrieve(self, id: str) -> Steps[BenchmarkView]:
        """Look a benchmark up, an archived one too; raises NotFound."""
        return (yield from fetch(Request("GET", at(_PATH + "/{}", id)), BenchmarkView))

    get = retrieve

    @call
    def update(self, id: str, **changes: Unpack[BenchmarkChanges]) -> Steps[BenchmarkView]:
        """Change a benchmark: None leaves a field as it is, an empty value clears it."""
        request = Request("POST", at(_PATH + "/{}", id), json=body_of(changes))
        return (yield from fetch(request, BenchmarkView))

    @call
    def update_scenarios(
        self,
        id: str,
        *,
        scenarios_to_add: Sequence[str] | None = None,
        scenarios_to_remove: Sequence[str] | None = None,
    ) -> Steps[BenchmarkView]:
        """Add scenarios at a benchmark's end, and remove others."""
        body = body_of({"scenarios_to_add": scenarios_to_add, "scenarios_to_remove": scenarios_to_remove})
        request = Request("POST", at(_PATH + "/{}/scenarios", id), json=body)
        return (yield from fetch(request, BenchmarkView))

    @call
    def trends(self, id: str, agent: str | None = None) -> Steps[TrendsView]:
        """Return its agents over time, or one of them: scores, costs, times, tested against the past."""
        query = {"benchmark": id, "agent": agent}
        return (yield from fetch(Request("GET", "/v1/trends", query, timeout=TRANSFER_TIMEOUT), TrendsView))

    @call
    def insights(self, id: str) -> Steps[InsightsView]:
        """Return its leader board with ranks, what each scenario tells of agents, and a table of power."""
        request = Request("GET", at("/v1/benchmarks/{}/insights", id), timeout=TRANSFER_TIMEOUT)
        return (yield from fetch(request, InsightsView))

    @listing
    def list(self, **query: Unpack[NamedPageFields]) -> ListingSpec[BenchmarkView]:
        """List the server's own benchmarks, newest first."""
        return ListingSpec(_PATH, "benchmarks", BenchmarkView, query)

    @listing
    def list_public(self, **query: Unpack[NamedPageFields]) -> ListingSpec[BenchmarkView]:
        """List the public benchmarks, newest first."""
        return ListingSpec(f"{_PATH}/list_public", "benchmarks", BenchmarkView, query)

    @listing
    def definitions(self, id: str, **query: Unpack[PageFields]) -> ListingSpec[ScenarioView]:
        """List the scenarios of a benchmark, in its own order."""
        return ListingSpec(at(_PATH + "/{}/definitions", id), "scenarios", ScenarioView, query)

    @call
    def start_run(self, **fields: Unpack[BenchmarkRunFields]) -> Steps[BenchmarkRunView]:
        """Start a run; its scenarios are started one by one with its id."""
        request = Request("POST", f"{_PATH}/start_run", json=body_of(fields))
        return (yield from fetch(request, BenchmarkRunView))

    @call
    def archive(self, id: str) -> Steps[BenchmarkView]:
        """Hide a benchmark from lists; it cannot be run until it is unarchived."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/archive", id)), BenchmarkView))

    @call
    def unarchive(self, id: str) -> Steps[BenchmarkView]:
        """Show an archived benchmark again."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/unarchive", id)), BenchmarkView))

    @call
    def delete(self, id: str, *, with_scenarios: bool = False) -> Steps[DeletedView]:
        """Delete a benchmark; its runs stay readable. Raises Conflict while it is being run."""
        body = BenchmarkDeleteRequest(with_scenarios=with_scenarios)
        return (yield from fetch(Request("POST", at(_PATH + "/{}/delete", id), json=body), DeletedView))
