"""Jobs and benchmark runs as sides of a comparison, found by id or name."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from benchyard.cli.job.names import find_job
from benchyard.cli.notices import tell
from benchyard.client.client import Client
from benchyard.errors import NotFound
from benchyard.models.jobs import AgentConfig
from benchyard.models.reports.baselines import is_run
from benchyard.models.results.run_trials import run_agent
from benchyard.models.runs import BenchmarkRunView


@dataclass(frozen=True)
class ComparedSubject:
    """A job, or a benchmark run of the SDK, which is like a job with one agent."""

    id: str
    name: str
    agents: Sequence[AgentConfig]
    benchmark_id: str | None
    benchmark_name: str | None = None


def find_subject(client: Client, given: str) -> ComparedSubject:
    """Return the job or benchmark run of that id, else the newest job, or else run, of that name."""
    if is_run(given):
        return _of_run(client.benchmark_runs.retrieve(given))
    try:
        view = find_job(client, given, scenarios=False)
    except NotFound:
        named = list(islice(client.benchmark_runs.list(name=given, own=True, limit=2), 2))
        if not named:
            raise
        if len(named) > 1:
            tell(f"several benchmark runs are called {given!r}; the newest is taken, {named[0].id}")
        return _of_run(named[0])
    source = view.job_source
    return ComparedSubject(
        view.id, view.name, view.job_spec.agent_configs, source.benchmark_id, source.benchmark_name
    )


def _of_run(view: BenchmarkRunView) -> ComparedSubject:
    return ComparedSubject(
        view.id, view.name or view.id, [run_agent(view.metadata)], view.benchmark_id or None
    )
