"""Trends, histories and insights for routes, made in workers of the results of many jobs."""

import os
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from benchyard.api.deps import Services
from benchyard.api.job_reports import Report
from benchyard.models.scenarios import Scenario
from benchyard.workers.workers import WorkerLimits

_MODULE = "benchyard.reports.history_reports"
_LIMITS = WorkerLimits(seconds=300.0, memory_bytes=16 * 1024**3, output_bytes=256 * 1024**2)
_IDS_AT_ONCE = 500

W = TypeVar("W")


async def trends(services: Services, benchmark_id: str, agent: str | None) -> Report:
    """Return the trends of a benchmark; raises NotFound."""
    benchmark = await services.engine.benchmarks.get(benchmark_id)
    scenarios = await _scenarios(services, benchmark.scenario_ids)

    def parameters(left_out: int) -> Mapping[str, object]:
        names = {each.id: each.name for each in scenarios}
        chosen = (benchmark.id, benchmark.name)
        return {"benchmark": chosen, "agent": agent, "names": names, "n_left_out": left_out}

    past = services.engine.past_results
    return await _made(services, "make_trends", lambda fd: past.write_benchmark(benchmark.id, fd), parameters)


async def insights(services: Services, benchmark_id: str) -> Report:
    """Return what is known of a benchmark; raises NotFound."""
    benchmark = await services.engine.benchmarks.get(benchmark_id)
    scenarios = await _scenarios(services, benchmark.scenario_ids)

    def parameters(left_out: int) -> Mapping[str, object]:
        revisions = {each.id: (each.name, each.revision) for each in scenarios}
        return {
            "benchmark": (benchmark.id, benchmark.name),
            "revisions": revisions,
            "n_left_out": left_out,
        }

    past = services.engine.past_results
    return await _made(
        services, "make_insights", lambda fd: past.write_benchmark(benchmark.id, fd), parameters
    )


async def history(services: Services, scenario_id: str) -> Report:
    """Return the history of a scenario; raises NotFound."""
    scenario = await services.engine.scenarios.get(scenario_id)
    past = services.engine.past_results
    chosen = (scenario.id, scenario.name, scenario.revision)
    return await _made(
        services,
        "make_history",
        lambda fd: past.write_scenario(scenario.id, fd),
        lambda _: {"scenario": chosen},
    )


async def _made(
    services: Services,
    function: str,
    write: Callable[[int], Awaitable[W]],
    parameters: Callable[[W], Mapping[str, object]],
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
