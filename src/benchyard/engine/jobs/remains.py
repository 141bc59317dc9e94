"""What is left of jobs that were ended early, by a server that died before it had stopped their trials."""

from collections.abc import Iterable
from functools import partial

from benchyard.engine.jobs.active import Active
from benchyard.engine.jobs.cutting import settled
from benchyard.engine.jobs.ending import Ending
from benchyard.engine.jobs.failures import TrialFailed
from benchyard.engine.jobs.ledger import Ledger
from benchyard.engine.jobs.plan import is_planned
from benchyard.engine.jobs.way import canceled
from benchyard.engine.runs.benchmark_runs import BenchmarkRuns
from benchyard.engine.work import until_kept
from benchyard.models.jobs import ENDED_JOBS, JOB_KEY, Job
from benchyard.models.trials import Trial


async def clear(ledger: Ledger, ending: Ending, benchmark_runs: BenchmarkRuns) -> None:
    """Stop the trials of every job that has ended and has a benchmark run under way, which ends last."""
    under_way = await benchmark_runs.records.all({"status": ["running"]})
    for job_id in {run.metadata[JOB_KEY] for run in under_way if JOB_KEY in run.metadata}:
        job = await ledger.jobs.find(job_id)
        if job is not None and job.state in ENDED_JOBS:
            await end(job, await ledger.trials.all({"parent": job_id}), ledger, ending)
            trials = await ledger.trials.all({"parent": job_id})
            await (ending.close(Active(job, trials)) if is_planned(job, trials) else ending.drop(job))


async def end(job: Job, trials: Iterable[Trial], ledger: Ledger, ending: Ending) -> list[Trial]:
    """Cancel the trials of a job that were begun and are in nobody's hands; returns them as they are then."""
    runs = await until_kept(partial(ending.unfinished, job))
    failure = TrialFailed("cancelled", "Cancelled", f"the job was ended: it is {job.state}")
    found = []
    for trial in trials:
        # That it was begun, and with which run, may not have been noted with it.
        run_id = runs.get(trial.id, trial.scenario_run_id)
        if not trial.has_ended and (trial.start_time_ms is not None or run_id is not None):
            begun = trial.model_copy(update={"scenario_run_id": run_id})
            over = canceled(await settled(ending.access, job, begun), failure)
            await until_kept(partial(ledger.trial, over))
            await ending.tear_down(over)
            found.append(over)
        elif trial.has_ended and trial.id in runs:
            await ending.tear_down(trial)
    return found
