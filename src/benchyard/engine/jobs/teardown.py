"""Ends trials, agents and jobs: ends devboxes, completes runs, concludes benchmark runs."""

import contextlib
from collections.abc import Iterable

from benchyard.agents import catalog
from benchyard.engine.background import retry_store
from benchyard.engine.jobs.active_job import ActiveJob
from benchyard.engine.jobs.failures import TrialFailed
from benchyard.engine.jobs.model_access import TrialModelAccess
from benchyard.engine.jobs.model_usage import settle_cut_short
from benchyard.engine.jobs.plan import is_planned
from benchyard.engine.jobs.store import JobStore
from benchyard.engine.jobs.trial_context import canceled_trial
from benchyard.engine.runs.benchmark_runs import BenchmarkRuns
from benchyard.engine.runs.scenario_runs import ScenarioRuns
from benchyard.errors import Conflict, NotFound, StillWaiting
from benchyard.models.jobs import ENDED_JOBS, JOB_KEY, TRIAL_KEY, Job, JobState
from benchyard.models.runs import ENDED_RUNS, BenchmarkRunState, RunState
from benchyard.models.trials import Trial, TrialState, count_suspect, counted_mean

_RUN_STATES = {
    TrialState.FAILED: RunState.FAILED,
    TrialState.TIMEOUT: RunState.TIMEOUT,
    TrialState.CANCELED: RunState.CANCELED,
}
_UNFINISHED = [each.value for each in RunState if each not in ENDED_RUNS]


class Teardown:
    """Ends what belongs to trials and jobs; every operation may be repeated."""

    def __init__(
        self, job_store: JobStore, runs: ScenarioRuns, benchmark_runs: BenchmarkRuns, access: TrialModelAccess
    ) -> None:
        self._job_store = job_store
        self._runs = runs
        self._benchmark_runs = benchmark_runs
        self._access = access

    async def tear_down(self, trial: Trial) -> None:
        """End the scenario run of an ended trial, its devbox, and its access to a model."""
        await self._access.end(trial)
        if trial.scenario_run_id is None:
            return
        reason = trial.failure.exception_message if trial.failure else None
        with contextlib.suppress(NotFound, Conflict):
            run = await retry_store(self._runs.get, trial.scenario_run_id)
            if run.result is None:
                state = _RUN_STATES.get(trial.state, RunState.FAILED)
                await retry_store(self._runs.end, run.id, state, reason)
                return
            # Completed also after a scorer failed: a better one may score the final state.
            while True:
                # The run may be being scored once more by request; it ends after that.
                with contextlib.suppress(StillWaiting):
                    await retry_store(self._runs.complete, run.id)
                    return

    async def sweep(self, job: Job, trials: list[Trial]) -> None:
        """Tear down ended trials whose runs an earlier server did not end."""
        ended = {trial.scenario_run_id: trial for trial in trials if trial.has_ended}
        for run_id in (await self._unfinished(job)).values():
            if run_id in ended:
                await self.tear_down(ended[run_id])

    async def _unfinished(self, job: Job) -> dict[str, str]:
        """Return the unfinished scenario runs of a job, by their trials."""
        runs = {}
        for parent in job.benchmark_run_ids:
            for run in await self._runs.records.all({"parent": parent, "status": _UNFINISHED}):
                # A user's own run may have joined the benchmark run; it is not the job's.
                if TRIAL_KEY in run.metadata:
                    runs[run.metadata[TRIAL_KEY]] = run.id
        return runs

    async def close_agent(self, active: ActiveJob, agent: int) -> None:
        """End the benchmark run of an agent all of whose trials have ended."""
        own = active.of_agent(agent)
        score = counted_mean(own, active.job.orchestrator.suspect_rule)
        run_id = active.job.benchmark_run_ids[agent]
        await retry_store(self._benchmark_runs.conclude, run_id, "completed", score, count_suspect(own))

    async def drop(self, job: Job, state: BenchmarkRunState = "canceled") -> None:
        """End the benchmark runs, as far as there are any, of a job that was ended before it had a plan."""
        for run_id in job.benchmark_run_ids:
            with contextlib.suppress(NotFound):
                await retry_store(self._benchmark_runs.conclude, run_id, state, None)

    async def close(self, active: ActiveJob) -> None:
        """End the benchmark runs of an ended job, and the gateway's records for its budget."""
        if any(catalog.keys_of(choice.name) for choice in active.job.choices if choice.agent_id is None):
            await self._access.forget(await self._job_store.trials.all({"parent": active.job.id}))
        is_whole = active.job.state not in (JobState.CANCELLED, JobState.TIMEOUT, JobState.FAILED)
        for agent, run_id in enumerate(active.job.benchmark_run_ids):
            own = active.of_agent(agent)
            was_cut = any(trial.state is TrialState.CANCELED for trial in own)
            is_done = is_whole or (active.is_agent_over(agent) and not was_cut)
            state: BenchmarkRunState = "completed" if is_done else "canceled"
            score = counted_mean(own, active.job.orchestrator.suspect_rule)
            await retry_store(self._benchmark_runs.conclude, run_id, state, score, count_suspect(own))

    async def clear_ended_jobs(self) -> None:
        """Stop the trials of all ended jobs that still have a running benchmark run, since that ends last."""
        under_way = await self._benchmark_runs.records.all({"status": ["running"]})
        for job_id in {run.metadata[JOB_KEY] for run in under_way if JOB_KEY in run.metadata}:
            job = await self._job_store.jobs.find(job_id)
            if job is not None and job.state in ENDED_JOBS:
                await self.cancel_begun_trials(job, await self._job_store.trials.all({"parent": job_id}))
                trials = await self._job_store.trials.all({"parent": job_id})
                await (self.close(ActiveJob(job, trials)) if is_planned(job, trials) else self.drop(job))

    async def cancel_begun_trials(self, job: Job, trials: Iterable[Trial]) -> list[Trial]:
        """Cancel begun trials of a job that no server runs; returns them as they are then."""
        runs = await retry_store(self._unfinished, job)
        failure = TrialFailed("cancelled", "Cancelled", f"the job was ended: it is {job.state}")
        canceled = []
        for trial in trials:
            # The run, and even that the trial was begun, may not have been stored in its record.
            run_id = runs.get(trial.id, trial.scenario_run_id)
            if not trial.has_ended and (trial.start_time_ms is not None or run_id is not None):
                begun = trial.model_copy(update={"scenario_run_id": run_id})
                over = canceled_trial(await settle_cut_short(self._access, job, begun), failure)
                await retry_store(self._job_store.trial, over)
                await self.tear_down(over)
                canceled.append(over)
            elif trial.has_ended and trial.id in runs:
                await self.tear_down(trial)
        return canceled
