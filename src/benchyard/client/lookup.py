"""Finds the item a user means: by id or name, or a devbox by the beginning of its id."""

import difflib
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Protocol, TypeVar

from benchyard import registry
from benchyard.client.nouns import SyncNouns
from benchyard.client.plain_text import ignore_sentence
from benchyard.errors import NotFound, UsageError
from benchyard.models.agents import AgentView
from benchyard.models.benchmarks import BenchmarkView
from benchyard.models.blueprints import BlueprintView
from benchyard.models.devboxes import DevboxStatus, DevboxView
from benchyard.models.jobs import BenchmarkJobView
from benchyard.models.network_policies import NetworkPolicyView
from benchyard.models.scenarios import CustomScorerView, ScenarioView
from benchyard.models.trials import TrialView
from benchyard.registry import nearest

SHORTEST_PREFIX = 6
SHOWN = 5
LOOKED_AT = 1000
"""Number of names to search for the nearest one."""
PAGE = 100
ENDED = (DevboxStatus.SHUTDOWN, DevboxStatus.FAILURE)


class _Identified(Protocol):
    @property
    def id(self) -> str: ...


class _Named(Protocol):
    @property
    def name(self) -> str | None: ...


Thing = TypeVar("Thing", bound=_Identified)
R = TypeVar("R")


def check_path_exists(given: str) -> None:
    """Raise UsageError for a path that does not exist; a plain name is left to the caller."""
    is_path = given.endswith("/") or given.startswith(("./", "../", "/", "~"))
    if is_path and not Path(given).expanduser().exists():
        raise UsageError(f"there is no folder {given}; give one that is there, or an id or a name")


def find_devbox(client: SyncNouns, given: str) -> DevboxView:
    """Return the devbox of that id; else the one living devbox of that name, or whose id begins so."""
    try:
        return client.devboxes.get(given)
    except NotFound:
        living = [view for view in client.devboxes.list() if view.status not in ENDED]
    matches = [view for view in living if _means(given, view)]
    named = [view for view in matches if view.name == given] or matches
    if not named:
        hint = nearest_hint(given, living)
        raise NotFound(f"no devbox has the id or name {given!r}{hint}; `benchyard devbox list` shows all")
    if len(named) > 1:
        ids = ", ".join(view.id for view in named[:SHOWN])
        raise UsageError(f"{given!r} can mean {len(named)} devboxes ({ids}...); give the whole id")
    return named[0]


def find_snapshot_id(client: SyncNouns, given: str) -> str:
    """Return the id of the snapshot of that id; else of the one snapshot of that name."""
    try:
        client.snapshots.status(given)
    except NotFound:
        there = list(client.snapshots.list())
        named = [view.id for view in there if view.name == given]
    else:
        return given
    if not named:
        hint = nearest_hint(given, there)
        raise NotFound(f"no snapshot has the id or name {given!r}{hint}; `benchyard snapshot list` shows all")
    if len(named) > 1:
        raise UsageError(
            f"{given!r} can mean {len(named)} snapshots ({', '.join(named[:SHOWN])}...); give the id"
        )
    return named[0]


def find_scenario(client: SyncNouns, given: str) -> ScenarioView:
    """Return the scenario of that id; else the user's own one of that name, else the public one."""
    try:
        return client.scenarios.retrieve(given)
    except NotFound:
        for found in (client.scenarios.list, client.scenarios.list_public):
            view = find_one(found(name=given, limit=2), given, "scenario")
            if view is not None:
                return view
    there = chain(client.scenarios.list(limit=PAGE), client.scenarios.list_public(limit=PAGE))
    raise NotFound(
        f"no scenario has the id or name {given!r}{nearest_hint(given, there)}; "
        "see `benchyard scenario list [--public]`"
    )


def find_benchmark(client: SyncNouns, given: str) -> BenchmarkView:
    """Return the benchmark of that id; else the user's own one of that name, else the public one."""
    try:
        return client.benchmarks.retrieve(given)
    except NotFound:
        for found in (client.benchmarks.list, client.benchmarks.list_public):
            view = find_one(found(name=given, limit=2), given, "benchmark")
            if view is not None:
                # The list shows a public benchmark under the given name; its own name is needed here.
                return client.benchmarks.retrieve(view.id)
    there = chain(client.benchmarks.list(limit=PAGE), client.benchmarks.list_public(limit=PAGE))
    hint = nearest_hint(given, there, *registry.names("benchmarks"))
    raise NotFound(
        f"no benchmark has the id or name {given!r}{hint}; see `benchyard benchmark list [--public]`"
    )


def find_job(
    client: SyncNouns,
    given: str,
    *,
    scenarios: bool = True,
    tell: Callable[[str], None] = ignore_sentence,
) -> BenchmarkJobView:
    """Return the job of that id, else the newest one of that name; without its scenarios unless needed.

    `tell` is called with a sentence where several jobs have the name.
    """
    try:
        return client.jobs.get(given, scenarios=scenarios)
    except NotFound:
        named = list(islice(client.jobs.list(name=given, limit=2), 2))
    if not named:
        hint = nearest_hint(given, client.jobs.list(limit=PAGE))
        raise NotFound(f"no job has the id or name {given!r}{hint}; `benchyard job list --all` shows all")
    if len(named) > 1:
        tell(
            f"several jobs are called {given!r}; the newest is taken, {named[0].id}. "
            "`benchyard job list --all --name ...` shows the others"
        )
    # Jobs of a list have no scenarios.
    return client.jobs.get(named[0].id, scenarios=scenarios)


def of_job(
    client: SyncNouns,
    given: str,
    verb: Callable[[str], R],
    *,
    tell: Callable[[str], None] = ignore_sentence,
) -> R:
    """Return what a verb gives for the job of that id, else for the newest one of that name."""
    try:
        # Looked up only if need be: the view of a large job takes longer than most verbs.
        return verb(given)
    except NotFound:
        return verb(find_job(client, given, scenarios=False, tell=tell).id)


def find_blueprint(client: SyncNouns, given: str) -> BlueprintView:
    """Return the blueprint of that id; else the newest of that name."""
    try:
        return client.blueprints.get(given)
    except NotFound:
        for view in client.blueprints.list(given, limit=1):
            return view
    hint = nearest_hint(given, client.blueprints.list(limit=PAGE))
    raise NotFound(f"no blueprint has the id or name {given!r}{hint}; `benchyard blueprint list` shows all")


def split_version(given: str) -> tuple[str, str | None]:
    """Split `name@version`; npm's scoped names begin with an `@`."""
    name, at, version = given.rpartition("@")
    return (name, version or None) if at and name else (given, None)


def find_agent(client: SyncNouns, given: str) -> AgentView:
    """Return the agent of that id; else the newest of that name, and of the given version."""
    try:
        return client.agents.get(given)
    except NotFound:
        name, version = split_version(given)
        for ask in (client.agents.list, client.agents.list_public):
            for view in ask(name=name, limit=PAGE):
                if view.name == name and version in (None, view.version):
                    return view
    hint = nearest_hint(name, chain(client.agents.list(limit=PAGE), client.agents.list_public(limit=PAGE)))
    raise NotFound(f"no agent has the id or name {given!r}{hint}; `benchyard agent list` shows all")


def scenario_id_in(job: BenchmarkJobView, trials: Iterable[TrialView], given: str) -> str:
    """Return the id of a job's one scenario with that id or name, or whose name ends so; raises NotFound."""
    names = {trial.scenario_id: trial.scenario_name for trial in trials}
    if given in names:
        return given
    for found in (
        [id for id, name in names.items() if name == given],
        [id for id, name in names.items() if name.rpartition("/")[2] == given],
    ):
        if len(found) == 1:
            return found[0]
    if not names:
        raise NotFound(f"job {job.id} has no trials yet; `benchyard job watch {job.id}` shows how far it is")
    raise NotFound(
        f"no scenario of job {job.id} has the id or name {given!r}"
        f"{nearest_name_hint(given, sorted(names.values()))}; `benchyard trial list {job.id}` shows all"
    )


def nearest_hint(given: str, there: Iterable[_Named], *more: str) -> str:
    """Return ` (did you mean 'x'?)` for the nearest name, compared whole or after its last slash."""
    return nearest_name_hint(given, [*(view.name for view in islice(there, LOOKED_AT) if view.name), *more])


def nearest_name_hint(given: str, names: Sequence[str]) -> str:
    """Return the hint for the nearest of these names, compared whole or after their last slash."""
    ends = {name.rpartition("/")[2]: name for name in names if "/" in name}
    hint = nearest(given, names)
    if hint or not (end := difflib.get_close_matches(given, ends, n=1)):
        return hint
    return f" (did you mean {ends[end[0]]!r}?)"


def find_one(found: Iterable[Thing], name: str, noun: str) -> Thing | None:
    """Return the one item of a name; None if there is none; raises UsageError if there are several."""
    several = list(islice(found, 2))
    if len(several) > 1:
        ids = ", ".join(each.id for each in several)
        raise UsageError(f"{name!r} can mean several {noun}s ({ids}...); archive the others, or give an id")
    return several[0] if several else None


def _means(given: str, view: DevboxView) -> bool:
    return view.name == given or (len(given) >= SHORTEST_PREFIX and view.id.startswith(given))


def find_policy(client: SyncNouns, given: str) -> NetworkPolicyView:
    """Return the network policy of that id or name."""
    for view in client.network_policies.list(search=given, limit=PAGE):
        if given in (view.id, view.name):
            return view
    hint = nearest_hint(given, client.network_policies.list(limit=PAGE))
    raise NotFound(
        f"no network policy has the id or name {given!r}{hint}; `benchyard network-policy list` shows all"
    )


def find_custom_scorer(client: SyncNouns, type: str) -> CustomScorerView | None:
    """Return the custom scorer of a type; None if there is none."""
    return next(
        (scorer for scorer in client.scenarios.scorers.list(search=type) if scorer.type == type), None
    )
