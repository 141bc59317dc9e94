"""Finds what a person means: by id or name, or a devbox by the beginning of its id."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeVar

import click

from benchyard.benchmarks import catalog
from benchyard.client.client import Client
from benchyard.errors import NotFound, UsageError
from benchyard.models.benchmarks import BenchmarkView
from benchyard.models.devboxes import DevboxStatus, DevboxView
from benchyard.models.jobs import BenchmarkJobView
from benchyard.models.network_policies import NetworkPolicyView
from benchyard.models.scenarios import ScenarioView
from benchyard.registry import nearest

SHORTEST_PREFIX = 6
SHOWN = 5
ENDED = (DevboxStatus.SHUTDOWN, DevboxStatus.FAILURE)


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


Thing = TypeVar("Thing", bound=_Identified)


def check_is_there(given: str) -> None:
    """Raise UsageError for what can only be a path, and is not there; a name is somebody else's to find."""
    is_path = given.endswith("/") or given.startswith(("./", "../", "/", "~"))
    if is_path and not Path(given).expanduser().exists():
        raise UsageError(f"there is no folder {given}; give one that is there, or an id or a name")


def devbox_named(client: Client, given: str) -> DevboxView:
    """The devbox of that id; else the one living devbox of that name, or whose id begins so."""
    try:
        return client.devboxes.get(given)
    except NotFound:
        matches = [
            view for view in client.devboxes.list() if view.status not in ENDED and _means(given, view)
        ]
    named = [view for view in matches if view.name == given] or matches
    if not named:
        raise NotFound(f"no devbox has the id or name {given!r}; `benchyard devbox list` shows all")
    if len(named) > 1:
        ids = ", ".join(view.id for view in named[:SHOWN])
        raise UsageError(f"{given!r} can mean {len(named)} devboxes ({ids}...); give the whole id")
    return named[0]


def snapshot_named(client: Client, given: str) -> str:
    """The id of the snapshot of that id; else of the one snapshot of that name."""
    try:
        client.snapshots.status(given)
    except NotFound:
        named = [view.id for view in client.snapshots.list() if view.name == given]
    else:
        return given
    if not named:
        raise NotFound(f"no snapshot has the id or name {given!r}; `benchyard snapshot list` shows all")
    if len(named) > 1:
        raise UsageError(
            f"{given!r} can mean {len(named)} snapshots ({', '.join(named[:SHOWN])}...); give the id"
        )
    return named[0]


def scenario_named(client: Client, given: str) -> ScenarioView:
    """The scenario of that id; else the own one of that name, else the public one."""
    try:
        return client.scenarios.retrieve(given)
    except NotFound:
        for found in (client.scenarios.list, client.scenarios.list_public):
            view = one_named(found(name=given, limit=2), given, "scenario")
            if view is not None:
                return view
    raise NotFound(f"no scenario has the id or name {given!r}; see `benchyard scenario list [--public]`")


def benchmark_named(client: Client, given: str) -> BenchmarkView:
    """The benchmark of that id; else the own one of that name, else the public one."""
    try:
        return client.benchmarks.retrieve(given)
    except NotFound:
        for found in (client.benchmarks.list, client.benchmarks.list_public):
            view = one_named(found(name=given, limit=2), given, "benchmark")
            if view is not None:
                # The list shows a public one under the name that was given; its own is wanted here.
                return client.benchmarks.retrieve(view.id)
    hint = nearest(given, catalog.names())
    raise NotFound(
        f"no benchmark has the id or name {given!r}{hint}; see `benchyard benchmark list [--public]`"
    )


def job_named(client: Client, given: str) -> BenchmarkJobView:
    """The job of that id; else the newest one of that name."""
    try:
        return client.jobs.get(given)
    except NotFound:
        named = list(islice(client.jobs.list(name=given, limit=2), 2))
        if len(named) > 1:
            told = f"several jobs are called {given!r}; the newest is taken, {named[0].id}"
            click.echo(f"benchyard: {told}. `benchyard job list --all --name ...` shows the others", err=True)
        if named:
            # The list leaves the scenarios out.
            return client.jobs.get(named[0].id)
    raise NotFound(f"no job has the id or name {given!r}; `benchyard job list --all` shows all")


def one_named(found: Iterable[Thing], name: str, noun: str) -> Thing | None:
    """The one thing of a name, None if there is none; raises UsageError if there are several."""
    several = list(islice(found, 2))
    if len(several) > 1:
        ids = ", ".join(each.id for each in several)
        raise UsageError(f"{name!r} can mean several {noun}s ({ids}...); archive the others, or give an id")
    return several[0] if several else None


def _means(given: str, view: DevboxView) -> bool:
    return view.name == given or (len(given) >= SHORTEST_PREFIX and view.id.startswith(given))


def policy_named(client: Client, given: str) -> NetworkPolicyView:
    """The network policy of that id or name."""
    for view in client.network_policies.list(search=given, limit=100):
        if given in (view.id, view.name):
            return view
    raise NotFound(
        f"no network policy has the id or name {given!r}; `benchyard network-policy list` shows all"
    )
