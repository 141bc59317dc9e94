"""Imports a benchmark into a real server, and has the oracle and one that does nothing run all of it."""

import logging
from pathlib import Path

from benchyard.client import Client, Server
from benchyard.client.benchmark_files import benchmark_import, task_export
from benchyard.client.benchmark_files.benchmark_import import BenchmarkImport
from benchyard.client.benchmark_files.results import ImportResult
from benchyard.models.jobs import BenchmarkJobView
from benchyard.testing.server import RunningServer

_PATIENCE_SECONDS = 600.0
_CONCURRENT = 6
Scores = dict[str, float | None]


def executed(
    server: RunningServer, name: str, data: Path, variant: str | None = None
) -> tuple[Scores, Scores]:
    """The scores of the oracle and of nop, by the names of the scenarios."""
    with Client(Server(server.url, server.key)) as client:
        made = brought(client, name, data, variant)
        return both(client, made)


def both(
    client: Client, made: ImportResult, seconds: float = _PATIENCE_SECONDS, at_once: int = _CONCURRENT
) -> tuple[Scores, Scores]:
    """The scores of the oracle and of nop on what was imported, by the names of the scenarios."""
    oracle, nop = _run(client, made.benchmark.id or "", seconds, at_once).benchmark_outcomes or []
    for each in (*oracle.scenario_outcomes, *nop.scenario_outcomes):
        if each.score is None:
            # Shown with a test that fails: why it has none is nowhere else.
            logging.getLogger(__name__).warning("%s: %s", each.scenario_name, each.failure_reason)
    for scenario_outcome in oracle.scenario_outcomes:
        assert scenario_outcome.suspicions == [], (
            scenario_outcome.scenario_name,
            scenario_outcome.suspicions,
        )
    return (
        {
            scenario_outcome.scenario_name: scenario_outcome.score
            for scenario_outcome in oracle.scenario_outcomes
        },
        {
            scenario_outcome.scenario_name: scenario_outcome.score
            for scenario_outcome in nop.scenario_outcomes
        },
    )


def exported_again(client: Client, benchmark_id: str, folder: Path) -> ImportResult:
    """Export a benchmark whole, and import what was written under a name of its own."""
    view = client.benchmarks.get(benchmark_id)
    done = task_export.export_benchmark(client, view, folder, private=True)
    assert done.refused == []
    made = benchmark_import.import_benchmark(client, BenchmarkImport(str(folder), name=f"{view.name}-again"))
    assert made.broken == []
    return made


def brought(client: Client, name: str, data: Path, variant: str | None = None) -> ImportResult:
    """Import a benchmark, in which nothing may be broken."""
    made = benchmark_import.import_benchmark(client, BenchmarkImport(name, local=data, variant=variant))
    assert made.broken == []
    return made


def _run(client: Client, benchmark_id: str, seconds: float, at_once: int) -> BenchmarkJobView:
    spec = {
        "type": "benchmark",
        "benchmark_id": benchmark_id,
        "agent_configs": [{"name": "oracle"}, {"name": "nop"}],
        "orchestrator_config": {"n_concurrent_trials": at_once},
    }
    job = client.jobs.create({"spec": spec})
    return client.jobs.wait(job.id, timeout=seconds)
