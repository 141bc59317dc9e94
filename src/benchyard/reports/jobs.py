"""A job as the wire shows it: what is under way, and what became of the agents that are done."""

import time

from benchyard.models.jobs import BenchmarkJobView, InProgressRun, Job, JobState
from benchyard.models.trials import SuspectRule, Trial
from benchyard.reports.outcomes import outcomes, progress
from benchyard.reports.times import job_times

_UNDER_WAY = (JobState.QUEUED, JobState.RUNNING)
"""States in which its benchmark runs are there, and not over."""


def job_view(
    job: Job, trials: list[Trial], *, with_scenarios: bool, suspect: SuspectRule | None = None
) -> BenchmarkJobView:
    """A job with its outcomes; lists leave the scenarios out of them.

    Suspect scores are treated by the job's own rule, unless another is given.
    """
    rule = suspect or job.orchestrator.suspect_rule
    found = outcomes(job, trials, with_scenarios=with_scenarios, rule=rule)
    done = {each.benchmark_run_id for each in found}
    return BenchmarkJobView(
        id=job.id,
        name=job.name,
        state=job.state,
        create_time_ms=job.create_time_ms,
        job_source=job.source,
        job_spec=job.spec,
        in_progress_runs=_under_way(job, done) if job.state in _UNDER_WAY else [],
        benchmark_outcomes=found,
        failure_reason=job.failure_reason,
        metadata=job.metadata,
        start_time_ms=job.start_time_ms,
        end_time_ms=job.end_time_ms,
        deadline_ms=job.deadline_ms,
        n_trials=job.n_trials,
        progress=progress(job, trials, rule=rule),
        rescoring=job.rescoring,
        rescoring_state=job.rescoring_state,
        preparations=job.preparations,
        times=job_times(job, trials, round(time.time() * 1000)),
        resume_time_ms=job.pauses[-1].end_time_ms if job.pauses else None,
        pinned=job.is_pinned,
    )


def _under_way(job: Job, done: set[str]) -> list[InProgressRun]:
    return [
        InProgressRun(
            benchmark_run_id=run_id,
            state="running",
            start_time_ms=job.start_time_ms or job.create_time_ms,
            agent_config=config,
        )
        for run_id, config in zip(job.benchmark_run_ids, job.spec.agent_configs, strict=True)
        if run_id not in done
    ]
