"""Jobs and benchmark runs as subjects of reports, with the facts of their set-up that results depend on."""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from benchyard.models.jobs import ENDED_JOBS, AgentConfig, Job
from benchyard.models.reports.job_report import SetupFact
from benchyard.models.results.run_trials import TRIAL_STATES
from benchyard.models.runs import BenchmarkRun
from benchyard.models.trials import SuspectRule, TrialState
from benchyard.reports.attempt_report import ReportedAgent, ReportSubject

_DIGEST = 12


def job_subject(
    job: Job,
    rule: SuspectRule | None = None,
    clusters: Mapping[str, str] | None = None,
    cluster_key: str | None = None,
) -> ReportSubject:
    """Return a job as the subject of a report; clusters are groups of scenarios by their ids."""
    source = job.source
    return ReportSubject(
        kind="job",
        id=job.id,
        name=job.name,
        state=job.state.value,
        create_time_ms=job.create_time_ms,
        end_time_ms=job.end_time_ms,
        benchmark_name=source.benchmark_name or source.benchmark_id,
        agents=[
            ReportedAgent(each.label, each.name, each.model_name, each.version)
            for each in job.spec.agent_configs
        ],
        scenario_ids=job.spec.scenario_ids,
        attempts=job.orchestrator.attempts,
        concurrency=job.orchestrator.concurrency,
        is_over=job.state in ENDED_JOBS,
        rule=rule or job.orchestrator.suspect_rule,
        cluster_key=cluster_key,
        clusters=clusters,
        setup=_facts(job),
    )


def _facts(job: Job) -> list[SetupFact]:
    config = job.orchestrator
    facts = [SetupFact(what=f"agent {index}", value=_agent(each)) for index, each in _numbered(job)]
    if job.scenario_revisions:
        facts.append(
            SetupFact(
                what="revisions of the scenarios, digest",
                value=_digest(job),
                count=len(job.scenario_revisions),
            )
        )
    facts += [
        SetupFact(what="attempts", value=str(config.attempts)),
        SetupFact(what="trials at once", value=str(config.concurrency)),
        SetupFact(what="factor of the time limits", value=f"{config.multiplier:g}"),
        SetupFact(what="retries after failures of the infrastructure", value=str(config.retries)),
    ]
    if config.trial_budget is not None:
        facts.append(SetupFact(what="budget of a trial", value=str(config.trial_budget)))
    if config.job_budget is not None:
        facts.append(SetupFact(what="budget of the job", value=str(config.job_budget)))
    return facts


def _numbered(job: Job) -> list[tuple[int, AgentConfig]]:
    return list(enumerate(job.spec.agent_configs, 1))


def _agent(config: AgentConfig) -> str:
    """Return an agent with what it was given, but its environment, which may be secret."""
    limit = "" if config.timeout_seconds is None else f", {config.timeout_seconds:g} s"
    options = "".join(f", {key}={value}" for key, value in sorted((config.kwargs or {}).items()))
    return f"{config.label}{limit}{options}"[:500]


def _digest(job: Job) -> str:
    """Return a digest of the scenarios with their revisions, in any order: equal for equal benchmarks."""
    pairs = sorted(zip(job.spec.scenario_ids, job.scenario_revisions, strict=False))
    return hashlib.sha256(repr(pairs).encode()).hexdigest()[:_DIGEST]


RUN_PATHS: Mapping[str, tuple[str | int, ...]] = {
    "scenario_id": ("scenario_id",),
    "state": ("state",),
    "score": ("result", "score"),
    "suspicion": ("result", "suspicions", 0),
    "start": ("create_time_ms",),
    "end": ("end_time_ms",),
    "cost": ("usage", "cost_usd"),
    "calls": ("usage", "model_calls"),
    "input_tokens": ("usage", "input_tokens"),
    "output_tokens": ("usage", "output_tokens"),
    "network": ("result", "network"),
    "isolation": ("result", "isolation"),
    "condition": ("result", "conditions", 0),
    "is_reference": ("is_reference",),
}
"""Values of a stored scenario run that a report is made of."""
_STATES = {run.value: trial for run, trial in TRIAL_STATES.items()}


def run_subject(
    run: BenchmarkRun,
    benchmark_name: str,
    attempts: int,
    clusters: Mapping[str, str] | None = None,
    cluster_key: str | None = None,
) -> ReportSubject:
    """Return a benchmark run as the subject of a report: one agent, whatever it was."""
    return ReportSubject(
        kind="benchmark run",
        id=run.id,
        name=run.name or run.id,
        state=run.state,
        create_time_ms=run.create_time_ms,
        end_time_ms=run.end_time_ms,
        benchmark_name=benchmark_name,
        agents=[ReportedAgent(run.name or run.id, run.name or run.id)],
        scenario_ids=run.scenario_ids,
        attempts=attempts,
        is_over=run.state != "running" and not run.is_closing,
        cluster_key=cluster_key,
        clusters=clusters,
        setup=[SetupFact(what="revision of the benchmark", value=str(run.benchmark_revision))],
    )


def run_rows(rows: Sequence[Sequence[Any]], run: BenchmarkRun, names: Mapping[str, str]) -> list[list[Any]]:
    """Return rows as of trials, with the values of `TRIAL_PATHS`, of rows with those of `RUN_PATHS`.

    Runs of scenarios that the benchmark did not have at the beginning are left out. A run that timed out
    counts 0; one that was cancelled or failed is unscored.
    """
    places = {id: index for index, id in enumerate(run.scenario_ids)}
    found = []
    for row in rows:
        id, state, score, suspicion, start, end, cost, calls, *tokens, network, isolation, condition, _ = row
        if id not in places or row[-1]:
            continue
        shown = _STATES.get(state, TrialState.RUNNING)
        failure = "timeout" if shown is TrialState.TIMEOUT else None
        begin = [0, places[id], names.get(id, id), shown.value, False, score, failure, suspicion]
        found.append([*begin, start, end, 0, cost, calls, *tokens, None, network, isolation, condition])
    return found


def most_attempts(rows: Sequence[Sequence[Any]]) -> int:
    """Return the number of runs of the scenario that was run most often, at least 1."""
    return max(Counter(row[1] for row in rows).values(), default=1)
