"""Benchmarks for the API: named sets of scenarios."""

from collections.abc import Callable, Sequence
from typing import Any

from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller
from benchyard.engine.scenarios.scenarios import Scenarios
from benchyard.errors import Conflict, Forbidden, UsageError
from benchyard.hosts.cancellation import run_to_end
from benchyard.models.benchmarks import (
    MAX_SCENARIOS,
    Benchmark,
    BenchmarkChange,
    BenchmarkRequest,
    BenchmarkScenariosChange,
)
from benchyard.models.pages import Page, Query
from benchyard.models.scenarios import Scenario
from benchyard.store.collection import Collection

BENCHMARK_PREFIX = "bmd_"
_EMPTY: dict[str, Any] = {"metadata": {}, "scenario_ids": []}


class Benchmarks:
    """All benchmarks of this server; their names are unique."""

    def __init__(self, records: Collection[Benchmark], scenarios: Scenarios) -> None:
        self.records = records
        self._scenarios = scenarios

    async def create(
        self, caller: Caller, request: BenchmarkRequest, *, is_public: bool = False
    ) -> Benchmark:
        """Store a new benchmark; the same request again returns the same one."""
        given = request.model_dump(exclude_none=True)
        benchmark = Benchmark(
            **{**given, "scenario_ids": _without_repeats(request.scenario_ids or [])},
            id=caller.id,
            create_time_ms=now_ms(),
            request_hash=caller.request_hash,
            is_public=is_public,
        )
        if await self.records.find(caller.id) is None:
            await self._check(benchmark.scenario_ids)
        try:
            kept, _ = await run_to_end(self.records.insert_once(benchmark))
        except Conflict as error:
            raise _name_conflict(request.name) from error
        return kept

    async def publish(self, caller: Caller, request: BenchmarkRequest) -> Benchmark:
        """Create or update a public benchmark of Benchyard itself."""
        before = await self.records.find(caller.id)
        if before is None:
            return await self.create(caller, request, is_public=True)
        fields = {"attribution": None, "description": None, **_EMPTY, **request.model_dump(exclude_none=True)}

        def apply(benchmark: Benchmark) -> Benchmark:
            changed = benchmark.model_copy(update=fields)
            revision = benchmark.revision + (changed != benchmark)
            return changed.model_copy(update={"revision": revision, "request_hash": caller.request_hash})

        return await self.records.change(caller.id, apply)

    async def get(self, id: str) -> Benchmark:
        """Return the benchmark with this id; raises NotFound."""
        return await self.records.get(id)

    async def update(self, id: str, change: BenchmarkChange) -> Benchmark:
        """Change fields: None leaves one, an empty value clears it. The revision counts the differences."""
        given = change.model_dump(exclude_none=True)
        fields = {name: value or _EMPTY.get(name) for name, value in given.items()}
        if change.scenario_ids is not None:
            wanted = fields["scenario_ids"] = _without_repeats(change.scenario_ids)
            await self._check(wanted)
        try:
            return await self._change(id, lambda benchmark: fields)
        except Conflict as error:
            if not error.details.get("existing"):
                raise
            raise _name_conflict(change.name or "") from error

    async def change_scenarios(self, id: str, change: BenchmarkScenariosChange) -> Benchmark:
        """Append and remove scenarios; present ones are not added again, missing ones are ignored."""
        added, removed = change.scenarios_to_add or [], set(change.scenarios_to_remove or [])
        await self._check(added)

        def fields(benchmark: Benchmark) -> dict[str, Any]:
            wanted = [
                repeat
                for repeat in _without_repeats([*benchmark.scenario_ids, *added])
                if repeat not in removed
            ]
            if len(wanted) > MAX_SCENARIOS:
                raise UsageError(f"a benchmark has at most {MAX_SCENARIOS} scenarios")
            return {"scenario_ids": wanted}

        return await self._change(id, fields)

    async def archive(self, id: str, *, is_archived: bool) -> Benchmark:
        """Hide a benchmark from lists, or show it again; it can be read by id in any case."""

        def apply(benchmark: Benchmark) -> Benchmark:
            _check_own(benchmark)
            wanted = "archived" if is_archived else "active"
            same = benchmark.status == wanted
            return benchmark if same else benchmark.model_copy(update={"status": wanted})

        return await self.records.change(id, apply)

    async def delete(self, id: str) -> Benchmark:
        """Delete a benchmark; its scenarios stay, and its runs keep their results."""
        benchmark = await self.records.get(id)
        _check_own(benchmark)
        await run_to_end(self.records.delete(id))
        return benchmark

    async def with_scenario(self, scenario_id: str) -> list[Benchmark]:
        """Return the benchmarks that contain a scenario."""
        return [
            each for each in await self.records.containing(scenario_id) if scenario_id in each.scenario_ids
        ]

    async def definitions(self, id: str, query: Query) -> Page[Scenario]:
        """Return a page of a benchmark's scenarios, in its own order."""
        ids = (await self.records.get(id)).scenario_ids
        start = 0
        if query.starting_after is not None:
            if query.starting_after not in ids:
                raise UsageError(
                    f"starting_after names nothing: {query.starting_after[:200]}", field="starting_after"
                )
            start = ids.index(query.starting_after) + 1
        wanted = ids[start : start + query.limit]
        found = {record.id: record for record in await self._scenarios.records.all({"id": wanted})}
        items = [found[each] for each in wanted if each in found]
        return Page(items=items, has_more=start + query.limit < len(ids), total_count=len(ids))

    async def _change(self, id: str, fields: Callable[[Benchmark], dict[str, Any]]) -> Benchmark:
        def apply(benchmark: Benchmark) -> Benchmark:
            _check_own(benchmark)
            changed = benchmark.model_copy(update=fields(benchmark))
            if changed == benchmark:
                return benchmark
            return changed.model_copy(update={"revision": benchmark.revision + 1})

        return await self.records.change(id, apply)

    async def _check(self, scenario_ids: Sequence[str]) -> None:
        known = await self._scenarios.records.ids({"id": list(scenario_ids)}) if scenario_ids else set()
        for each in scenario_ids:
            if each not in known:
                raise UsageError(
                    f"no scenario {each[:200]!r}; see `benchyard scenario list`", field="scenario_ids"
                )


def _without_repeats(ids: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(ids))


def _name_conflict(name: str) -> UsageError:
    return UsageError(f"a benchmark named {name[:200]!r} is there already; choose another name", field="name")


def _check_own(benchmark: Benchmark) -> None:
    if benchmark.is_public:
        raise Forbidden(f"benchmark {benchmark.id} is public and cannot be changed; make a copy of it")
