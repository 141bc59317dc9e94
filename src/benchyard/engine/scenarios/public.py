"""Public benchmarks for the API's lists, and those that come with the package."""

import asyncio
import functools
import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchyard.benchmarks import builtin_benchmarks, catalog
from benchyard.benchmarks.base import PUBLIC_KEY
from benchyard.benchmarks.files import benchmark_file
from benchyard.benchmarks.files.benchmark_file import BenchmarkDraft
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.engine.context import Caller
from benchyard.engine.ids import id_from_bytes
from benchyard.engine.scenarios.benchmarks import BENCHMARK_PREFIX, Benchmarks
from benchyard.engine.scenarios.custom_scorers import SCORER_PREFIX, CustomScorers
from benchyard.engine.scenarios.scenarios import SCENARIO_PREFIX, Scenarios
from benchyard.errors import NotFound, UsageError
from benchyard.models.benchmarks import Benchmark, BenchmarkView
from benchyard.models.pages import Page, Query
from benchyard.models.scenarios import CustomScorerRequest, Scenario

_log = logging.getLogger(__name__)


def public_id(prefix: str, name: str) -> str:
    """Return the id of a thing that comes with the package: the same on every server."""
    return id_from_bytes(prefix, hashlib.sha256(f"benchyard {prefix}{name}".encode()).digest())


class ShippedBenchmarks:
    """Publishes the benchmarks that come with the package."""

    def __init__(self, scorers: CustomScorers, scenarios: Scenarios, benchmarks: Benchmarks) -> None:
        self._scorers = scorers
        self._scenarios = scenarios
        self._benchmarks = benchmarks

    async def open(self, folders: Sequence[Path] | None = None) -> None:
        """Publish the benchmarks of this version of the package; unchanged ones are skipped."""
        for folder in builtin_benchmarks.folders() if folders is None else folders:
            digest = await asyncio.to_thread(builtin_benchmarks.digest, folder)
            id = public_id(BENCHMARK_PREFIX, folder.name)
            known = await self._benchmarks.records.find(id)
            if known is not None and known.request_hash == digest:
                continue
            try:
                draft = await asyncio.to_thread(benchmark_file.read_benchmark, folder)
                await self._publish(draft, Caller(id, digest))
            except UsageError as error:
                # A name that a user has taken must not keep the server from starting.
                _log.error("the public benchmark %s was not loaded: %s", folder.name, error.message)

    async def _publish(self, draft: BenchmarkDraft, caller: Caller) -> None:
        """Publish all scenarios, then the benchmark itself, so that an interrupted start repeats it."""
        ids = [await self._scenario(each) for each in draft.scenarios if isinstance(each, ScenarioDraft)]
        before = await self._benchmarks.records.find(caller.id)
        for gone in set(before.scenario_ids if before else ()) - set(ids):
            await self._scenarios.records.change(
                gone, lambda scenario: scenario.model_copy(update={"status": "archived"})
            )
        await self._benchmarks.publish(caller, draft.request.model_copy(update={"scenario_ids": ids}))

    async def _scenario(self, draft: ScenarioDraft) -> str:
        for type, script in draft.custom_scorers.items():
            request = CustomScorerRequest(type=type, bash_script=script)
            await self._scorers.publish(public_id(SCORER_PREFIX, type), request)
        id = public_id(SCENARIO_PREFIX, draft.request.name)
        return (await self._scenarios.publish(id, draft.request)).id


IMPORTED_KEY = "benchyard.imported"
"""Metadata key of listed public benchmarks: `yes`, or `no` for one that is not imported."""

NAME_KEY = "benchyard.name"
"""Metadata key with the own name of a benchmark that is listed under another one."""


class PublicBenchmarks:
    """Public benchmarks: those that came with the server, imported ones, and importable ones."""

    def __init__(self, benchmarks: Benchmarks) -> None:
        self._benchmarks = benchmarks

    async def page(self, query: Query) -> Page[BenchmarkView]:
        """Return a page: imported ones first, then those that came with the server, then others by name."""
        every = [each for each in await self._every() if _fits(each, query)]
        start = 0
        if query.starting_after is not None:
            ids = [each.id for each in every]
            if query.starting_after not in ids:
                raise UsageError(
                    f"starting_after names nothing: {query.starting_after[:200]}", field="starting_after"
                )
            start = ids.index(query.starting_after) + 1
        end = start + query.limit
        name = str(query.where.get("name") or query.search or "")
        items = [_under_name(each, name) for each in every[start:end]]
        return Page(items=items, has_more=end < len(every), total_count=len(every))

    async def own_page(self, query: Query) -> Page[BenchmarkView]:
        """Return a page of this server's own benchmarks; a search without result tries imported public ones.

        A filter by name does not: a user's folder may have the same name as a public benchmark.
        """
        page = await self._benchmarks.records.page(query)
        if not page.items and query.search and (name := catalog.canonical_name(query.search)):
            where = {**query.where, "name": name, f"metadata.{PUBLIC_KEY}": name}
            page = await self._benchmarks.records.page(replace(query, where=where, search=None))
        items = [_under_name(item.view(), query.search) for item in page.items]
        return Page(items=items, has_more=page.has_more, total_count=page.total_count)

    async def get(self, id: str) -> BenchmarkView:
        """Return the benchmark with this id, even if it is not imported; raises NotFound."""
        try:
            return _benchmark_view(await self._benchmarks.get(id))
        except NotFound:
            known = _importable_names().get(id)
            if known is None:
                raise
        imported = await self._imported_by_name()
        return _benchmark_view(imported[known]) if known in imported else _importable_view(known)

    async def definitions(self, id: str, query: Query) -> Page[Scenario]:
        """Return a page of a benchmark's scenarios; raises NotFound with advice if it is not imported."""
        try:
            return await self._benchmarks.definitions(id, query)
        except NotFound:
            name = _importable_names().get(id)
            if name is None:
                raise
        imported = (await self._imported_by_name()).get(name)
        if imported is None:
            raise NotFound(not_imported_hint(name))
        return await self._benchmarks.definitions(imported.id, query)

    async def _every(self) -> list[BenchmarkView]:
        imported = await self._imported_by_name()
        shipped = await self._benchmarks.records.all({"parent": "public", "status": "active"})
        first = sorted(imported.values(), key=lambda each: (-each.create_time_ms, each.id))
        second = sorted(shipped, key=lambda each: (-each.create_time_ms, each.id))
        others = [_importable_view(name) for name in catalog.names() if name not in imported]
        return [*map(_benchmark_view, first), *map(_benchmark_view, second), *others]

    async def _imported_by_name(self) -> dict[str, Benchmark]:
        """Return the imported public benchmarks by their names."""
        names = catalog.names()
        found = await self._benchmarks.records.all({"name": names, "status": "active"})
        return {each.name: each for each in found if each.metadata.get(PUBLIC_KEY) == each.name}


async def find_benchmark(benchmarks: Benchmarks, given: str) -> Benchmark:
    """Return the benchmark with this id or any of its names; raises NotFound with advice."""
    if (known := await benchmarks.records.find(given)) is not None:
        return known
    name = _importable_names().get(given)
    if name is None and not given.startswith(BENCHMARK_PREFIX):
        if (known := await benchmarks.records.find_named(given)) is not None:
            return known
        name = catalog.canonical_name(given)
    if name is None:
        advice = "`benchyard benchmark list` and `list --public` show those there are"
        raise NotFound(f"no benchmark is called {given[:200]!r}; {advice}")
    if (known := await benchmarks.records.find_named(name)) is not None:
        return known
    raise NotFound(not_imported_hint(name))


def not_imported_hint(name: str) -> str:
    """Return the advice for a public benchmark that is not imported."""
    return f"benchmark {name!r} is not imported yet; type `benchyard benchmark import {name}`"


@functools.cache
def _importable_names() -> dict[str, str]:
    """Return the names of importable benchmarks by id."""
    return {public_id(BENCHMARK_PREFIX, name): name for name in catalog.names()}


def _benchmark_view(benchmark: Benchmark) -> BenchmarkView:
    view = benchmark.view()
    if benchmark.metadata.get(PUBLIC_KEY) != benchmark.name:
        return view
    about = _about(benchmark.name)
    metadata = {**about, **view.metadata, IMPORTED_KEY: "yes"}
    return view.model_copy(update={"is_public": True, "metadata": metadata})


def _about(name: str) -> dict[str, str]:
    """Return the facts about a public benchmark, imported or not."""
    about = catalog.load(name).about
    facts = {
        "title": about.title,
        "size": str(about.size),
        "licence": about.licence,
        "needs": "; ".join(about.needs),
        "home": about.home,
    }
    return {key: value for key, value in facts.items() if value}


def _importable_view(name: str) -> BenchmarkView:
    """Return the view of a benchmark that is not imported, with the command that imports it."""
    about = catalog.load(name).about
    metadata = {IMPORTED_KEY: "no", "benchyard.import": f"benchyard benchmark import {name}", **_about(name)}
    return BenchmarkView(
        id=public_id(BENCHMARK_PREFIX, name),
        name=name,
        status="active",
        metadata=metadata,
        scenarioIds=[],
        scenario_ids=[],
        attribution=about.citation,
        description=about.summary,
        is_public=True,
        create_time_ms=0,
    )


def _fits(view: BenchmarkView, query: Query) -> bool:
    name = query.where.get("name")
    if name is not None and view.name != name and catalog.canonical_name(str(name)) != view.name:
        return False
    wanted = (query.search or "").lower()
    is_found = wanted == view.id.lower() or wanted in view.name.lower()
    if not is_found and catalog.canonical_name(wanted) != view.name:
        return False
    for key, wanted_value in query.where.items():
        if key.startswith("metadata."):
            value = view.metadata.get(key.removeprefix("metadata."))
            if value not in (wanted_value if isinstance(wanted_value, list) else [wanted_value]):
                return False
    return True


def _under_name(view: BenchmarkView, name: str | None) -> BenchmarkView:
    """Return a public benchmark under the name in the request: clients compare names exactly."""
    metadata = view.metadata or {}
    is_public = view.is_public or PUBLIC_KEY in metadata
    if not name or not is_public or name == view.name or catalog.canonical_name(name) != view.name:
        return view
    return view.model_copy(update={"name": name, "metadata": {**metadata, NAME_KEY: view.name}})
