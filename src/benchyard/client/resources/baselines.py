"""Baselines: results under a name that later jobs are compared with."""

from typing import TypedDict, Unpack

from benchyard.client.listings import ListingSpec, listing
from benchyard.client.methods import S, VerbGroup, call
from benchyard.client.operations import Request, Steps, at, fetch
from benchyard.models.reports.baselines import BaselineListView, BaselineRequest, BaselineView

_PATH = "/v1/baselines"


class BaselinePageFields(TypedDict, total=False):
    """Choice of a page of baselines, and its size."""

    name: str
    benchmark_id: str
    deleted: bool
    limit: int
    starting_after: str
    include_total_count: bool


class Baselines(VerbGroup[S]):
    """The baselines of a server: one for each name, benchmark and agent."""

    @call
    def set(self, name: str, job_id: str, agent: str | None = None) -> Steps[list[BaselineView]]:
        """Keep an ended job's agents, or one of them, under a name, in place of what had it.

        The id may also be that of a benchmark run of the SDK.
        """
        body = BaselineRequest(name=name, job_id=job_id, agent=agent)
        return (yield from fetch(Request("POST", _PATH, json=body), BaselineListView)).baselines

    @call
    def get(self, id: str) -> Steps[BaselineView]:
        """Look a baseline up by its id, also a deleted one; raises NotFound."""
        return (yield from fetch(Request("GET", at(_PATH + "/{}", id)), BaselineView))

    @call
    def delete(self, id: str) -> Steps[BaselineView]:
        """Delete a baseline by its id; the job that it named stays."""
        return (yield from fetch(Request("POST", at(_PATH + "/{}/delete", id)), BaselineView))

    @listing
    def list(self, **query: Unpack[BaselinePageFields]) -> ListingSpec[BaselineView]:
        """List baselines, newest first; all, or those of a name or a benchmark."""
        return ListingSpec(_PATH, "baselines", BaselineView, query)
