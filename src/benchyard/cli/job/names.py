"""Lookup of a job by id or name."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

from benchyard.cli.notices import tell
from benchyard.client.client import Client
from benchyard.client.lookup import PAGE, nearest_hint
from benchyard.errors import NotFound
from benchyard.models.jobs import BenchmarkJobView

R = TypeVar("R")


def of_job(client: Client, given: str, verb: Callable[[str], R]) -> R:
    """Return what a verb gives for the job of that id, else for the newest one of that name."""
    try:
        # Looked up only if need be: the view of a large job takes longer than most verbs.
        return verb(given)
    except NotFound:
        return verb(find_job(client, given, scenarios=False).id)


def find_job(client: Client, given: str, *, scenarios: bool = True) -> BenchmarkJobView:
    """Return the job of that id, else the newest one of that name; without its scenarios unless needed."""
    try:
        return client.jobs.get(given, scenarios=scenarios)
    except NotFound:
        named = list(islice(client.jobs.list(name=given, limit=2), 2))
        if named:
            tell_of_several(given, named)
            # Jobs of a list have no scenarios.
            return client.jobs.get(named[0].id, scenarios=scenarios)
    hint = nearest_hint(given, client.jobs.list(limit=PAGE))
    raise NotFound(f"no job has the id or name {given!r}{hint}; `benchyard job list --all` shows all")


def tell_of_several(given: str, named: Sequence[BenchmarkJobView]) -> None:
    """Tell which job is taken if several have the name."""
    if len(named) > 1:
        told = f"several jobs are called {given!r}; the newest is taken, {named[0].id}"
        tell(f"{told}. `benchyard job list --all --name ...` shows the others")
