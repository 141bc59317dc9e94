"""Public benchmarks as the API lists them: those that are here, and those that can be imported."""

import functools

from benchyard.benchmarks import catalog
from benchyard.benchmarks.base import PUBLIC_KEY
from benchyard.engine.definitions.benchmarks import BENCHMARK_PREFIX, Benchmarks
from benchyard.engine.definitions.shipped import public_id
from benchyard.errors import NotFound, UsageError
from benchyard.models.benchmarks import Benchmark, BenchmarkView
from benchyard.models.pages import Page, Query
from benchyard.models.scenarios import Scenario

IMPORTED_KEY = "benchyard.imported"
"""Metadata of what `list_public` shows: `yes`, or `no` for what is only known by name."""


class Catalogue:
    """What is public: benchmarks that came with the server, that were imported, and that could be."""

    def __init__(self, benchmarks: Benchmarks) -> None:
        self._benchmarks = benchmarks

    async def page(self, query: Query) -> Page[BenchmarkView]:
        """One page: imported ones first, then what came with the server, then the others by name."""
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
        return Page(items=every[start:end], has_more=end < len(every), total_count=len(every))

    async def get(self, id: str) -> BenchmarkView:
        """The benchmark of that id, one that is only known by name too; raises NotFound."""
        try:
            return _shown(await self._benchmarks.get(id))
        except NotFound:
            known = _known().get(id)
            if known is None:
                raise
        imported = await self._imported()
        return _shown(imported[known]) if known in imported else _promised(known)

    async def definitions(self, id: str, query: Query) -> Page[Scenario]:
        """One page of a benchmark's scenarios; raises NotFound with what to do if it has none here yet."""
        try:
            return await self._benchmarks.definitions(id, query)
        except NotFound:
            name = _known().get(id)
            if name is None:
                raise
        imported = (await self._imported()).get(name)
        if imported is None:
            raise NotFound(not_imported(name))
        return await self._benchmarks.definitions(imported.id, query)

    async def _every(self) -> list[BenchmarkView]:
        imported = await self._imported()
        shipped = await self._benchmarks.records.all({"parent": "public", "status": "active"})
        first = sorted(imported.values(), key=lambda each: (-each.create_time_ms, each.id))
        second = sorted(shipped, key=lambda each: (-each.create_time_ms, each.id))
        others = [_promised(name) for name in catalog.names() if name not in imported]
        return [*map(_shown, first), *map(_shown, second), *others]

    async def _imported(self) -> dict[str, Benchmark]:
        """By the name of the public benchmark."""
        names = catalog.names()
        found = await self._benchmarks.records.all({"name": names, "status": "active"})
        return {each.name: each for each in found if each.metadata.get(PUBLIC_KEY) == each.name}


async def found(benchmarks: Benchmarks, given: str) -> Benchmark:
    """The benchmark of an id, or of any name that it is known by; raises NotFound with what to do."""
    if (known := await benchmarks.records.find(given)) is not None:
        return known
    name = _known().get(given)
    if name is None and not given.startswith(BENCHMARK_PREFIX):
        if (known := await benchmarks.records.find_named(given)) is not None:
            return known
        name = catalog.canonical(given)
    if name is None:
        told = "`benchyard benchmark list` and `list --public` show those there are"
        raise NotFound(f"no benchmark is called {given[:200]!r}; {told}")
    if (known := await benchmarks.records.find_named(name)) is not None:
        return known
    raise NotFound(not_imported(name))


def not_imported(name: str) -> str:
    """What to do about a public benchmark that is only known by name."""
    return f"benchmark {name!r} is not imported yet; type `benchyard benchmark import {name}`"


@functools.cache
def _known() -> dict[str, str]:
    """Id -> name of those that can be imported."""
    return {public_id(BENCHMARK_PREFIX, name): name for name in catalog.names()}


def _shown(benchmark: Benchmark) -> BenchmarkView:
    view = benchmark.view()
    if benchmark.metadata.get(PUBLIC_KEY) != benchmark.name:
        return view
    about = _about(benchmark.name)
    metadata = {**about, **view.metadata, IMPORTED_KEY: "yes"}
    return view.model_copy(update={"is_public": True, "metadata": metadata})


def _about(name: str) -> dict[str, str]:
    """What is to be known of a public benchmark, imported or not."""
    about = catalog.load(name).about
    told = {
        "title": about.title,
        "size": str(about.size),
        "licence": about.licence,
        "needs": "; ".join(about.needs),
        "home": about.home,
    }
    return {key: value for key, value in told.items() if value}


def _promised(name: str) -> BenchmarkView:
    """One that is known by name, and what it takes to have it."""
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
    if name is not None and view.name != name and catalog.canonical(str(name)) != view.name:
        return False
    wanted = (query.search or "").lower()
    if wanted and wanted != view.id.lower() and wanted not in view.name.lower():
        return False
    labels = {key: value for key, value in query.where.items() if key.startswith("metadata.")}
    return all(_has(view.metadata.get(key.removeprefix("metadata.")), value) for key, value in labels.items())


def _has(found: str | None, wanted: object) -> bool:
    return found in wanted if isinstance(wanted, list) else found == wanted
