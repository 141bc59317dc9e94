"""Trends, histories and insights for routes, made in workers of the results of many jobs."""

import os
from collections.abc import Awaitable, Callable, Mapping

from benchyard.api.deps import Services
from benchyard.api.job_reports import Report
from benchyard.models.scenarios import Scenario
from benchyard.workers.workers import WorkerLimits

_MODULE = "benchyard.reports.history_reports"
_LIMITS = WorkerLimits(seconds=300.0, memory_bytes=16 * 1024**3, output_bytes=256 * 1024**2)
_IDS_AT_ONCE = 500


async def trends(services: Services, benchmark_id: str, agent: str | None) -> Report:
    """Return the trends of a benchmark, which may be a moment old; raises NotFound."""
    benchmark = await services.engine.benchmarks.get(benchmark_id)
    past = services.engine.past_results

    async def make() -> Report:
        scenarios = await _scenarios(services, benchmark.scenario_ids)

        def parameters(left_out: int) -> Mapping[str, object]:
            names = {each.id: each.name for each in scenarios}
            chosen = (benchmark.id, benchmark.name)
            return {"benchmark": chosen, "agent": agent, "names": names, "n_left_out": left_out}

        return await _made(
            services, "make_trends", lambda fd: past.write_benchmark(benchmark.id, fd), parameters
        )

    key = ("trends", benchmark.id, benchmark.revision, agent, await past.version(benchmark.id))
    return await services.job_reports.past(key, make)


async def insights(services: Services, benchmark_id: str) -> Report:
    """Return what is known of a benchmark, as it was a moment ago; raises NotFound."""
    benchmark = await services.engine.benchmarks.get(benchmark_id)
    past = services.engine.past_results

    async def make() -> Report:
        scenarios = await _scenarios(services, benchmark.scenario_ids)

        def parameters(left_out: int) -> Mapping[str, object]:
            revisions = {each.id: (each.name, each.revision) for each in scenarios}
            return {
                "benchmark": (benchmark.id, benchmark.name),
                "revisions": revisions,
                "n_left_out": left_out,
            }

        return await _made(
            services, "make_insights", lambda fd: past.write_benchmark(benchmark.id, fd), parameters
        )

    key = ("insights", benchmark.id, benchmark.revision, await past.version(benchmark.id))
    return await services.job_reports.past(key, make)


async def history(services: Services, scenario_id: str) -> Report:
    """Return the history of a scenario, which may be a moment old; raises NotFound."""
    scenario = await services.engine.scenarios.get(scenario_id)
    past = services.engine.past_results
    chosen = (scenario.id, scenario.name, scenario.revision)

    async def make() -> Report:
        return await _made(
            services,
            "make_history",
            lambda fd: past.write_scenario(scenario.id, fd),
            lambda left_out: {"scenario": chosen, "n_left_out": left_out},
        )

    return await services.job_reports.past(("history", *chosen), make)


async def _made(
    services: Services,
    function: str,
    write: Callable[[int], Awaitable[int]],
    parameters: Callable[[int], Mapping[str, object]],
) -> Report:
    descriptor = os.memfd_create("results", os.MFD_CLOEXEC)
    try:
        given = parameters(await write(descriptor))
        made: bytes = await services.workers.call(f"{_MODULE}:{function}", descriptor, given, _LIMITS)
        return Report(made)
    finally:
        os.close(descriptor)


async def _scenarios(services: Services, ids: list[str]) -> list[Scenario]:
    found: list[Scenario] = []
    for start in range(0, len(ids), _IDS_AT_ONCE):
        found += await services.engine.scenarios.records.all({"id": ids[start : start + _IDS_AT_ONCE]})
    return found
