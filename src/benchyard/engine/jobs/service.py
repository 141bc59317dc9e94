"""Jobs for the API: create, follow, cancel, resume, retry, score again."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from weakref import WeakValueDictionary

from benchyard.agents import catalog
from benchyard.engine.agents.service import Agents
from benchyard.engine.background import plan_key, retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.start_image import Prerequisites
from benchyard.engine.ids import id_from_bytes
from benchyard.engine.jobs.annotations import annotated
from benchyard.engine.jobs.failures import TrialFailed
from benchyard.engine.jobs.model_access import TrialModelAccess, budget_spent
from benchyard.engine.jobs.plan import first_trials, is_planned, retry_of
from benchyard.engine.jobs.request import JobRequestResolver
from benchyard.engine.jobs.rescoring import JobRescorings
from benchyard.engine.jobs.scheduler import Scheduler, job_at_end
from benchyard.engine.jobs.store import JobStore
from benchyard.engine.jobs.teardown import Teardown
from benchyard.engine.jobs.trial_context import canceled_trial
from benchyard.engine.runs.benchmark_runs import BENCHMARK_RUN_PREFIX, BenchmarkRuns
from benchyard.engine.scenarios.scenarios import Scenarios
from benchyard.errors import BenchyardError, Conflict, NotFound, StillWaiting, UsageError, message_of
from benchyard.hosts.cancellation import run_to_end
from benchyard.models.agents import AgentChoice
from benchyard.models.job_plans import (
    JobPlanRequest,
    JobPlanView,
    PlannedAgent,
    PlannedImage,
    PlannedScenario,
)
from benchyard.models.jobs import (
    ENDED_JOBS,
    JOB_KEY,
    AgentConfig,
    Job,
    JobEvent,
    JobRequest,
    JobRescoreRequest,
    JobState,
    Pause,
    Preparation,
    RetryRequest,
)
from benchyard.models.pages import Page, Query
from benchyard.models.results.annotations import AnnotationRequest
from benchyard.models.runs import BenchmarkRun
from benchyard.models.scenarios import Scenario
from benchyard.models.trials import Trial, TrialState
from benchyard.store.body_values import BodyPath
from benchyard.store.collection import MOST_NAME_BYTES

JOB_PREFIX = "bmj_"
_KEEP_ALIVE_SECONDS = 15.0
_MOST_FAILURE = 2000
_UNFINISHED = [state.value for state in JobState if state not in ENDED_JOBS]

_NEVER = TrialFailed("cancelled", "NeverBegun", "the job ended before this trial began")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Again:
    """Selection of a job's trials that are begun again."""

    is_chosen: Callable[[Trial], bool]
    otherwise: str
    """Message if there are no such trials."""
    waiting: bool = True
    """True if trials that were still waiting at the job's end are begun too."""


class Jobs:
    """All jobs of this server."""

    def __init__(
        self,
        tools: EngineContext,
        job_store: JobStore,
        resolver: JobRequestResolver,
        agents: Agents,
        scenarios: Scenarios,
        scheduler: Scheduler,
        teardown: Teardown,
        rescorings: JobRescorings,
        access: TrialModelAccess,
        benchmark_runs: BenchmarkRuns,
        prerequisites: Prerequisites,
    ) -> None:
        self.records = job_store.jobs
        self._tools = tools
        self._job_store = job_store
        self._resolver = resolver
        self._agents = agents
        self._scenarios = scenarios
        self._scheduler = scheduler
        self._teardown = teardown
        self._rescorings = rescorings
        self._access = access
        self._benchmark_runs = benchmark_runs
        self._prerequisites = prerequisites
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def open(self) -> None:
        """Resume every job that an earlier server did not finish."""
        for job in reversed(await self.records.all({"status": _UNFINISHED})):
            if job.state is JobState.INITIALIZING:
                self._plan(job)
            else:
                trials = await self._job_store.trials.all({"parent": job.id})
                await self._teardown.sweep(job, trials)
                self._scheduler.add(job, trials)
        await self._teardown.clear_ended_jobs()
        await self._rescorings.open()
        await self._access.clear(self._scheduler.trials(), self._tools.host.running())
        self._scheduler.open()

    async def create(self, caller: Caller, request: JobRequest) -> Job:
        """Store a job and begin it; the same request again returns the same job."""
        existing = await self.records.find(caller.id)
        if existing is not None:
            if existing.request_hash != caller.request_hash:
                raise UsageError("this x-request-id was used with another body; send a new one")
            return existing
        job = await self._resolver.job(caller, request)
        seed = self._tools.vault.derive
        runs = [
            id_from_bytes(BENCHMARK_RUN_PREFIX, seed("job-runs", f"{job.id}/{agent}"))
            for agent in range(len(job.spec.agent_configs))
        ]
        job, is_new = await self.records.insert_once(job.model_copy(update={"benchmark_run_ids": runs}))
        if is_new:
            self._plan(job)
        return job

    async def plan(self, request: JobPlanRequest) -> JobPlanView:
        """Return a job's plan and its missing parts without creating it; raises as `create` does."""
        caller = Caller(f"{JOB_PREFIX}plan", "")
        job = await self._resolver.job(caller, request, frozenset(request.pending_secrets or ()))
        scenarios = await self._resolver.scenarios_of(job.spec.scenario_ids)
        unbuilt = await self._missing_images(scenarios)
        orchestrator = job.orchestrator
        chosen = zip(job.spec.agent_configs, job.choices, strict=True)
        return JobPlanView(
            name=job.name,
            benchmark_id=job.source.benchmark_id,
            benchmark_name=job.source.benchmark_name,
            n_scenarios=len(scenarios),
            n_agents=len(job.choices),
            n_attempts=orchestrator.attempts,
            n_trials=job.n_trials,
            n_concurrent_trials=orchestrator.concurrency,
            scenarios=[PlannedScenario(id=scenario.id, name=scenario.name) for scenario in scenarios],
            agents=[await self._plan_agent(job, *each) for each in chosen],
            missing_images=[PlannedImage(what=what, n_scenarios=count) for what, count in unbuilt.items()],
            trial_budget=orchestrator.trial_budget,
            job_budget=orchestrator.job_budget,
            deadline_seconds=orchestrator.deadline_seconds,
            max_retries=orchestrator.retries,
        )

    async def _missing_images(self, scenarios: list[Scenario]) -> Counter[str]:
        """Return descriptions of missing images, with the number of scenarios that need each."""
        known: dict[tuple[str | None, str | None], list[str]] = {}
        found: Counter[str] = Counter()
        for scenario in scenarios:
            key = (
                scenario.environment.blueprint_id if scenario.environment else None,
                scenario.scoring_blueprint_id,
            )
            if key not in known:
                known[key] = await self._prerequisites.unbuilt(scenario)
            found.update(known[key])
        return found

    async def _plan_agent(self, job: Job, config: AgentConfig, choice: AgentChoice) -> PlannedAgent:
        problem = None
        missing = None
        try:
            missing = await self._agents.missing(choice)
        except BenchyardError as error:
            problem = error.message
        seconds = config.timeout_seconds
        return PlannedAgent(
            name=choice.name,
            version=choice.version,
            model_name=config.model_name,
            timeout_seconds=None if seconds is None else seconds * job.orchestrator.multiplier,
            source=missing.source.type if missing and missing.source else None,
            is_installed=missing is None and problem is None,
            problem=problem,
            asks_models=choice.agent_id is None and bool(catalog.keys_of(choice.name)),
        )

    async def get(self, id: str) -> Job:
        """Return the job with this id, as it is now; raises NotFound."""
        active = self._scheduler.active(id)
        return active.job if active else await self.records.get(id)

    def unfinished(self) -> list[Job]:
        """Return the running and waiting jobs, without those that are still being planned."""
        return self._scheduler.jobs()

    async def counts(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return the numbers of jobs in each state, and of trials of unfinished jobs."""
        jobs, trials = await self._job_store.counts(), self._scheduler.counts()
        in_states = {state.value: trials[state] for state in TrialState}
        return {state.value: jobs.get(state.value, 0) for state in JobState}, in_states

    async def trials(self, job: Job) -> list[Trial]:
        """Return all trials of a job; those still waiting at its end are shown as canceled."""
        trials = await self._job_store.trials.all({"parent": job.id})
        if job.state not in ENDED_JOBS:
            return trials
        return [trial if trial.has_ended else canceled_trial(trial, _NEVER) for trial in trials]

    async def write_trials(self, job_id: str, descriptor: int) -> None:
        """Append all trials of a job to a file as they are stored, a line of JSON each."""
        await self._job_store.trials.write_bodies({"parent": job_id}, descriptor)

    async def write_rows(
        self, job_id: str, paths: Sequence[BodyPath], descriptor: int, share: float = 1.0
    ) -> None:
        """Append some values of a job's trials, or of a share of them, to a file as JSON."""
        await self._job_store.trials.write_rows({"parent": job_id}, paths, descriptor, share)

    async def trial(self, id: str) -> Trial:
        """Return a trial of any job by its id; raises NotFound."""
        return await self._job_store.trials.get(id)

    async def trials_by_ids(self, job_id: str, ids: Sequence[str]) -> list[Trial]:
        """Return the trials of a job with these ids; those that are gone are left out."""
        return await self._job_store.trials.all({"parent": job_id, "id": list(ids)}) if ids else []

    async def trials_over_jobs(self, query: Query) -> Page[Trial]:
        """Return a page of the trials of all jobs, newest first; raises UsageError for an invalid query."""
        found = await self._job_store.facts.page(query)
        trials = {trial.id: trial for trial in await self._job_store.trials.all({"id": found.ids})}
        items = [trials[id] for id in found.ids if id in trials]
        return Page(items=items, has_more=found.has_more, total_count=found.total_count)

    async def page(self, id: str, query: Query) -> Page[Trial]:
        """Return a page of the trials of a job, newest first."""
        await self.records.get(id)
        return await self._job_store.trials.page(query)

    async def cancel(self, id: str, request_id: str | None = None) -> Job:
        """End a job: running trials are stopped, waiting ones can be resumed; an ended job stays as it is."""
        self._tools.make_room_to_end()
        async with self._lock(id):
            job = await self.get(id)
            if request_id in job.requests:
                return job
            await self._tools.work.cancel(plan_key(id))
            if active := self._scheduler.active(id):
                active.job = active.job.with_request(request_id)
            if stopped := await self._scheduler.stop(id, JobState.CANCELLED):
                return stopped
            # Its time may have run out at the same moment.
            await self._scheduler.settle(id)
            # By now neither the planning nor the scheduler has the job.
            job = await self.records.get(id)
            if job.state in ENDED_JOBS:
                return job
            job = await self._job_store.job(job_at_end(job.with_request(request_id), JobState.CANCELLED))
            await self._teardown.drop(job)
            return job

    async def resume(self, id: str, request_id: str | None = None) -> Job:
        """Resume the unfinished trials of a job that was cancelled or ran out of time."""

        def is_unfinished(trial: Trial) -> bool:
            return trial.state is TrialState.CANCELED

        wanted = _Again(is_unfinished, "was not cancelled; nothing to resume")
        return await self._reopen(id, wanted, request_id)

    async def retry(self, id: str, request: RetryRequest, request_id: str | None = None) -> Job:
        """Retry trials that did not pass, crashed or have no score; the old trials are kept."""
        kinds = {"not-passed": {"not_passed", "crashed"}, "unscored": {"unscored"}}
        chosen = kinds.get(request.only, {"crashed"})
        names = None if request.scenarios is None else set(request.scenarios)

        def is_chosen(trial: Trial) -> bool:
            is_named = names is None or not names.isdisjoint({trial.scenario_id, trial.scenario_name})
            return is_named and trial.has_ended and trial.outcome() in chosen

        of = "" if names is None else " of these scenarios"
        word = {"not-passed": "trials that did not pass", "unscored": "unscored trials"}.get(
            request.only, "crashed trials"
        )
        is_whole = request.only == "unscored" and names is None
        wanted = _Again(is_chosen, f"has no {word}{of}; nothing to retry", waiting=is_whole)
        return await self._reopen(id, wanted, request_id)

    async def rescore(self, id: str, request: JobRescoreRequest, request_id: str | None = None) -> Job:
        """Score trials again from their final states."""
        async with self._lock(id):
            job = await self.records.get(id)
            if request_id in job.requests:
                return job
            _require_rest(job)
            trials = await self._job_store.trials.all({"parent": id})
            return await self._rescorings.begin(job, trials, request, request_id)

    @contextlib.asynccontextmanager
    async def at_rest(self, id: str) -> AsyncIterator[Job]:
        """Hold an ended job so that no other request changes it within this context; raises Conflict."""
        async with self._lock(id):
            job = await self.get(id)
            if job.state not in ENDED_JOBS:
                raise Conflict(
                    f"job {id} is {job.state}; end it first: `benchyard job cancel {id}`", state=job.state
                )
            _require_rest(job)
            yield job

    async def rename(self, id: str, name: str) -> Job:
        """Rename a job and its benchmark runs."""
        job = await self._change(id, lambda _: {"name": name})
        for run_id, config in zip(job.benchmark_run_ids, job.spec.agent_configs, strict=True):
            change = partial(BenchmarkRun.model_copy, update={"name": _short_name(f"{name} {config.label}")})
            with contextlib.suppress(NotFound):
                await self._benchmark_runs.records.change(run_id, change)
        return job

    async def pin(self, id: str, *, pinned: bool) -> Job:
        """Keep a job's results regardless of their age, or no longer."""
        return await self._change(id, lambda _: {"is_pinned": pinned})

    async def annotate(self, id: str, wanted: AnnotationRequest) -> Job:
        """Change tags and note of a job; raises UsageError for too many tags."""
        return await self._change(id, lambda job: annotated(job.tags, wanted), tagged=True)

    async def _change(
        self, id: str, changes: Callable[[Job], dict[str, object]], *, tagged: bool = False
    ) -> Job:
        async with self._lock(id):
            active = self._scheduler.active(id)
            job = active.job if active else await self.records.get(id)
            if job.state is JobState.INITIALIZING:
                raise StillWaiting(f"job {id} is being planned; try again when it is queued")
            job = job.model_copy(update=changes(job))
            if active:
                active.job = job
            return await (self._job_store.tag_job if tagged else self._job_store.job)(job)

    async def follow(self, id: str, after: int) -> AsyncIterator[JobEvent]:
        """Yield the events of a job until it has ended."""
        await self.records.get(id)
        async with contextlib.aclosing(self._job_store.follow(id, after, _KEEP_ALIVE_SECONDS)) as pieces:
            async for found in pieces:
                for event in found:
                    yield event
                if not found and self._scheduler.active(id) is None:
                    job = await self.records.get(id)
                    if job.state in ENDED_JOBS and not await self._job_store.events(id, after):
                        return
                after = found[-1].seq if found else after

    async def _reopen(self, id: str, wanted: _Again, request_id: str | None) -> Job:
        async with self._lock(id):
            job = await self.get(id)
            if request_id in job.requests:
                return job
            _require_rest(job)
            trials = await self._job_store.trials.all({"parent": id})
            if wanted.waiting and job.state is JobState.CANCELLED and not is_planned(job, trials):
                # It was cancelled during planning.
                job = await self._under_way(job, JobState.INITIALIZING, request_id)
                self._plan(job)
                return job
            counting = [each for each in trials if not each.is_superseded]
            chosen = [each for each in counting if wanted.is_chosen(each)]
            waiting = [each for each in counting if not each.has_ended]
            # A trial that a user's retry made is continued if interrupted, not canceled.
            never = [] if wanted.waiting else [each for each in waiting if not each.retry or each.n_lost]
            if not chosen and len(never) == len(waiting):
                raise Conflict(f"job {id} {wanted.otherwise}")
            await asyncio.gather(*(self._job_store.trial(canceled_trial(each, _NEVER)) for each in never))

            async def replace(trial: Trial) -> None:
                fresh = retry_of(job, trial, now_ms()).model_copy(update={"n_lost": 0})
                await self._job_store.trial(trial.model_copy(update={"is_superseded": True}), fresh)

            # Together, so that thousands are stored in a few transactions.
            await asyncio.gather(*(replace(each) for each in chosen))
            job = job.model_copy(update={"spent": budget_spent(trials)})
            job = await self._under_way(job, JobState.QUEUED, request_id)
            self._scheduler.add(job, await self._job_store.trials.all({"parent": id}))
            return job

    async def _under_way(self, job: Job, state: JobState, request_id: str | None) -> Job:
        """Return an ended job, reopened."""
        for run_id in job.benchmark_run_ids:
            # An interrupted planning may not have made the benchmark runs.
            with contextlib.suppress(NotFound):
                await self._benchmark_runs.reopen(run_id)
        seconds = job.orchestrator.deadline_seconds
        # The whole time again: there may be none left of the first.
        deadline = None if seconds is None else now_ms() + int(seconds * 1000)
        end = job.end_time_ms
        pauses = [Pause(start_time_ms=end, end_time_ms=max(end, now_ms()))] if end else []
        changes = {
            "state": state,
            "end_time_ms": None,
            "failure_reason": None,
            "deadline_ms": deadline,
            "pauses": [*job.pauses, *pauses],
        }
        return await self._job_store.job(job.with_request(request_id).model_copy(update=changes))

    def _plan(self, job: Job) -> None:
        self._tools.work.start(plan_key(job.id), partial(self._begin, job))

    async def _begin(self, job: Job) -> None:
        """Make a job's plan and hand it to the scheduler; a job that cannot be planned fails."""
        # An interrupted server may have left some preparations open.
        job = job.model_copy(update={"preparations": job.ended_preparations(now_ms())})
        try:
            await retry_store(self._make_runs, job)
            for choice in job.choices:
                job = await self._install(job, choice)
            pairs = zip(job.spec.scenario_ids, job.scenario_revisions, strict=True)
            names = [(await self._scenarios.at(*pair)).name for pair in pairs]
            trials = first_trials(job, names, now_ms())
        except (BenchyardError, OSError) as error:
            await self._fail(job, message_of(error))
            return
        except Exception:  # noqa: BLE001
            # A bug must not leave a job beginning for ever.
            _log.exception("the plan of job %s failed", job.id)
            await self._fail(job, "the server made a mistake; its log tells which")
            return
        planned = job.model_copy(update={"state": JobState.QUEUED})

        async def hand_over() -> None:
            await self._job_store.plan(planned, trials)
            self._scheduler.add(planned, trials)

        # Not cancellable: a job stored as planned but not handed over would never run.
        await run_to_end(hand_over())

    async def _install(self, job: Job, choice: AgentChoice) -> Job:
        """Install an agent of a job if necessary; returns the job with the installation in it."""
        missing = await self._agents.missing(choice)
        if missing is None:
            await self._agents.ready(choice)
            return job
        begun = Preparation(
            name=f"{missing.name}@{missing.version}" if missing.version else missing.name,
            source=missing.source.type if missing.source else None,
            start_time_ms=now_ms(),
        )
        job = await self._job_store.prepare(job, begun)
        try:
            await self._agents.ready(choice)
        except (BenchyardError, OSError) as error:
            over = {"end_time_ms": now_ms(), "failure": str(error)[:_MOST_FAILURE]}
            await self._job_store.prepare(job, begun.model_copy(update=over))
            raise
        return await self._job_store.prepare(job, begun.model_copy(update={"end_time_ms": now_ms()}))

    async def _fail(self, job: Job, reason: str) -> None:
        await self._teardown.drop(job, "failed")
        # The stored record has the installations made so far.
        kept = job_at_end(await retry_store(self.records.get, job.id), JobState.FAILED)
        await retry_store(self._job_store.job, kept.model_copy(update={"failure_reason": reason}))

    async def _make_runs(self, job: Job) -> None:
        """Make a benchmark run for each agent, as the parent of its scenario runs."""
        for run_id, config in zip(job.benchmark_run_ids, job.spec.agent_configs, strict=True):
            run = BenchmarkRun(
                id=run_id,
                create_time_ms=now_ms(),
                benchmark_id=job.source.benchmark_id or "",
                scenario_ids=job.spec.scenario_ids,
                name=_short_name(f"{job.name} {config.label}"),
                metadata={JOB_KEY: job.id},
            )
            await self._benchmark_runs.records.insert_once(run)

    @contextlib.asynccontextmanager
    async def _lock(self, id: str) -> AsyncIterator[None]:
        """Let one request at a time change a job; the lock is dropped with its last user."""
        lock = self._locks.setdefault(id, asyncio.Lock())
        async with lock:
            # The scheduler ends jobs that are out of time without this lock.
            await self._scheduler.settle(id)
            yield


def _short_name(name: str) -> str:
    """Return a name cut to the length that is stored."""
    return name[:1024].encode()[:MOST_NAME_BYTES].decode(errors="ignore")


def _require_rest(job: Job) -> None:
    """Raise Conflict while a job runs or is being rescored."""
    if job.state not in ENDED_JOBS:
        raise Conflict(f"job {job.id} is {job.state}; wait until it has ended, or cancel it")
    if job.rescoring_state == "running":
        raise Conflict(f"job {job.id} is being scored again; wait until that is over")
