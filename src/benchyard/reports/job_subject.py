"""Jobs as subjects of reports, with the facts of their set-up that results depend on."""

import hashlib
from collections.abc import Mapping

from benchyard.models.jobs import ENDED_JOBS, AgentConfig, Job
from benchyard.models.reports.job_report import SetupFact
from benchyard.models.trials import SuspectRule
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
