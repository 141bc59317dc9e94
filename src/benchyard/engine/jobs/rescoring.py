"""Rescoring of jobs: each counting trial again, from its final state, with the present scorers."""

import asyncio
import logging
from functools import partial

from benchyard.engine.background import retry_store
from benchyard.engine.context import EngineContext
from benchyard.engine.jobs.store import JobStore
from benchyard.engine.runs.benchmark_runs import BenchmarkRuns
from benchyard.engine.runs.scenario_runs import ScenarioRuns
from benchyard.errors import BenchyardError, Conflict, UsageError
from benchyard.models.jobs import Job, JobRescoreRequest, JobRescoring
from benchyard.models.runs import ScenarioRun
from benchyard.models.trials import ScoreRecord, Trial, TrialState, count_suspect, counted_mean

_AT_ONCE = 8
_MOST_EARLIER = 500

_log = logging.getLogger(__name__)


class JobRescorings:
    """Rescores jobs in the background, and resumes after a stop."""

    def __init__(
        self, tools: EngineContext, job_store: JobStore, runs: ScenarioRuns, benchmark_runs: BenchmarkRuns
    ) -> None:
        self._tools = tools
        self._job_store = job_store
        self._runs = runs
        self._benchmark_runs = benchmark_runs

    async def open(self) -> None:
        """Resume interrupted rescorings."""
        for job in await self._job_store.jobs.all({"rescoring_state": "running"}):
            self._start(job)

    async def begin(
        self, job: Job, trials: list[Trial], request: JobRescoreRequest, request_id: str | None
    ) -> Job:
        """Note the trials to score again, and those that cannot be; then begin."""
        wanted = [each for each in trials if not each.is_superseded and each.scenario_run_id]
        if request.trial_ids is not None:
            missing = set(request.trial_ids) - {each.id for each in wanted}
            if missing:
                raise UsageError(f"job {job.id} has no trial {sorted(missing)[0][:100]!r} that counts")
            wanted = [each for each in wanted if each.id in set(request.trial_ids)]
        if not wanted:
            raise Conflict(f"job {job.id} has no trials that could be scored again")
        kept: list[str] = []
        pruned: list[str] = []
        for each in wanted:
            run = await self._runs.records.find(str(each.scenario_run_id))
            (kept if run and run.final_state else pruned).append(each.id)
        number = job.rescoring.number + 1 if job.rescoring else 1
        rescoring = JobRescoring(number=number, trial_ids=kept, pruned=pruned, times=request.times)
        job = await self._job_store.job(
            job.asked(request_id).model_copy(update={"rescoring": rescoring, "rescoring_state": "running"}),
            "scored again",
        )
        self._start(job)
        return job

    def _start(self, job: Job) -> None:
        self._tools.work.start(f"job/{job.id}/rescore", partial(self._all, job))

    async def _all(self, job: Job) -> None:
        rescoring = job.rescoring or JobRescoring()
        turns = asyncio.Semaphore(_AT_ONCE)
        await asyncio.gather(*(self._one(rescoring, id, turns) for id in rescoring.trial_ids))
        trials = await retry_store(self._job_store.trials.all, {"parent": job.id})
        for agent, run_id in enumerate(job.benchmark_run_ids):
            own = [each for each in trials if each.agent == agent]
            score = counted_mean(own, job.orchestrator.suspect_rule)
            run = await retry_store(self._benchmark_runs.get, run_id)
            await retry_store(self._benchmark_runs.conclude, run_id, run.state, score, count_suspect(own))
        job = await retry_store(self._job_store.jobs.get, job.id)
        await self._job_store.job(job.model_copy(update={"rescoring_state": "completed"}), "was scored again")

    async def _one(self, rescoring: JobRescoring, trial_id: str, turns: asyncio.Semaphore) -> None:
        async with turns:
            trial = await retry_store(self._job_store.trials.get, trial_id)
            # An earlier server may have done some of it.
            done = max(1, trial.n_rescored) if trial.rescorings == rescoring.number else 0
            for turn in range(done, rescoring.times):
                begun = {"rescorings": rescoring.number, "n_rescored": turn + 1}
                trial = await self._again(trial.model_copy(update=begun), rescoring.number, turn)
                if trial.rescore_note is not None:
                    return

    async def _again(self, trial: Trial, number: int, turn: int) -> Trial:
        """Score a trial once more; returns it with its new score, or with a note why it has none."""
        run_id = str(trial.scenario_run_id)
        request = f"rescore-{trial.id}-{number}" + (f"-{turn}" if turn else "")
        try:
            await retry_store(self._runs.rescore, run_id, request)
            run = await self._runs.settled(run_id)
            return await self._job_store.trial(rescored_trial(trial, run))
        except BenchyardError as error:
            # Its final state may have been removed meanwhile; the others go on.
            return await self._job_store.trial(trial.model_copy(update={"rescore_note": error.message}))
        except Exception:  # noqa: BLE001
            # A bug must not leave a job rescoring for ever.
            _log.exception("trial %s was not scored again", trial.id)
            told = "the server made a mistake; its log tells which"
            return await self._job_store.trial(trial.model_copy(update={"rescore_note": told}))


def rescored_trial(trial: Trial, run: ScenarioRun) -> Trial:
    """Return a trial with its new score; the old one is kept beside it, and stays if a scorer failed."""
    result = run.result
    if run.rescoring_failure or result is None:
        return trial.model_copy(update={"rescore_note": run.rescoring_failure or "nothing was scored"})
    wrong = [each for each in result.scoring_function_results if each.state == "error"]
    if wrong:
        return trial.model_copy(
            update={"rescore_note": f"{wrong[0].scoring_function_name}: {wrong[0].reason}"}
        )
    old = ScoreRecord(score=trial.score, scenario_revision=trial.scored_revision)
    scores = {each.number: {"score": each.score, "rewards": each.rewards} for each in result.rounds}
    return trial.model_copy(
        update={
            "state": TrialState.COMPLETED,
            "score": result.score,
            "rewards": result.rewards,
            "conditions": result.conditions,
            "rounds": [each.model_copy(update=scores.get(each.number)) for each in trial.rounds],
            "suspicions": result.suspicions,
            "scored_revision": result.scenario_revision,
            "answer_failure": result.answer_failure,
            "scorer_note": result.scorer_note,
            "scoring_network": result.network,
            "isolation": result.isolation,
            "isolation_reason": result.isolation_reason,
            "earlier_scores": [*trial.earlier_scores, old][-_MOST_EARLIER:],
            "failure": None,
            "rescore_note": None,
        }
    )
