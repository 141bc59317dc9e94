"""Scheduler: starts trials, fairly between jobs, and sees every job to its end."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

from benchyard.engine.agents.service import Agents
from benchyard.engine.background import retry_store, trial_key
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.sizes import GIB, Resources, resources
from benchyard.engine.jobs.active_job import ActiveJob
from benchyard.engine.jobs.failures import TrialFailed, failure_of_error
from benchyard.engine.jobs.model_access import TrialModelAccess
from benchyard.engine.jobs.model_usage import settle_cut_short
from benchyard.engine.jobs.plan import retry_of
from benchyard.engine.jobs.store import JobStore
from benchyard.engine.jobs.teardown import Teardown
from benchyard.engine.jobs.trial import run_trial
from benchyard.engine.jobs.trial_context import TrialContext, canceled_trial, failed_trial, inputs_of_trial
from benchyard.engine.network.model_routes import ModelKeys
from benchyard.engine.runs.scenario_runs import ScenarioRuns
from benchyard.engine.scenarios.scenarios import Scenarios
from benchyard.engine.trajectories.traces import Traces
from benchyard.errors import BenchyardError
from benchyard.hosts.cancellation import wait_at_most
from benchyard.hosts.machine import MachineSize
from benchyard.models.jobs import ENDED_JOBS, Job, JobState
from benchyard.models.launch import LaunchParameters
from benchyard.models.trials import Trial, TrialState
from benchyard.settings import Settings


@dataclass(frozen=True)
class CapacityLimits:
    """Most resources that trials may declare at the same time."""

    cpus: float
    memory_gb: float


class Capacity:
    """Sum of declared resources. A trial that is larger than the machine runs alone."""

    def __init__(self, machine: MachineSize, settings: Settings) -> None:
        self._room = CapacityLimits(
            machine.cpus * settings.cpu_overcommit,
            machine.memory_bytes / GIB * settings.memory_overcommit,
        )
        self._taken: dict[str, Resources] = {}

    def fits(self, wanted: Resources) -> bool:
        """Tell whether there is room for one more trial of this size."""
        if not self._taken:
            return True
        cpus = sum(each.cpus for each in self._taken.values()) + wanted.cpus
        memory = sum(each.memory_gb for each in self._taken.values()) + wanted.memory_gb
        return cpus <= self._room.cpus and memory <= self._room.memory_gb

    def take(self, trial_id: str, wanted: Resources) -> None:
        """Count a trial; replaces an earlier count of it."""
        self._taken[trial_id] = wanted

    def give_back(self, trial_id: str) -> None:
        """Release the resources of a trial that has ended."""
        self._taken.pop(trial_id, None)


_LONGEST_WAIT_SECONDS = 30.0
_log = logging.getLogger(__name__)


class Scheduler:
    """All unfinished jobs. The state in memory can be read from the store again at any time."""

    def __init__(
        self,
        tools: EngineContext,
        scenarios: Scenarios,
        agents: Agents,
        keys: ModelKeys,
        runs: ScenarioRuns,
        traces: Traces,
        job_store: JobStore,
        access: TrialModelAccess,
        capacity: Capacity,
        teardown: Teardown,
    ) -> None:
        self._tools = tools
        self._scenarios = scenarios
        self._agents = agents
        self._keys = keys
        self._runs = runs
        self._traces = traces
        self._job_store = job_store
        self._access = access
        self._capacity = capacity
        self._teardown = teardown
        self._active: dict[str, ActiveJob] = {}
        self._deadlines: dict[str, float] = {}
        self._closing: dict[str, asyncio.Event] = {}
        self._wake = asyncio.Event()

    def open(self) -> None:
        """Start the scheduler's loop."""
        self._tools.work.start("jobs/scheduler", self._run)

    def active(self, job_id: str) -> ActiveJob | None:
        """Return an unfinished job, or None."""
        return self._active.get(job_id)

    def jobs(self) -> list[Job]:
        """Return all unfinished jobs."""
        return [each.job for each in self._active.values()]

    def counts(self) -> Counter[TrialState]:
        """Return the number of trials of unfinished jobs in each state."""
        return Counter(trial.state for trial in self.trials())

    def trials(self) -> list[Trial]:
        """Return all trials of unfinished jobs."""
        return [trial for active in self._active.values() for trial in active.trials.values()]

    def add(self, job: Job, trials: list[Trial]) -> None:
        """Take over a job."""
        self._active[job.id] = ActiveJob(job, trials)
        if job.deadline_ms is not None:
            # From here on by the monotonic clock; a clock that was set back adds no time.
            left = min(job.deadline_ms - now_ms(), job.deadline_ms - job.create_time_ms)
            self._deadlines[job.id] = time.monotonic() + left / 1000
        self._wake.set()

    async def stop(self, job_id: str, state: JobState) -> Job | None:
        """End a job early: stop and cancel its running trials. Returns None if it is not active."""
        active = self._active.get(job_id)
        if active is None:
            return None
        async with self._end_of(active):
            active.job = job_at_end(active.job, state)
            await self._job_store.job(active.job)
            running = [active.trials[place] for place in active.running]
            await asyncio.gather(*(self._stop_trial(active, each) for each in running))
            # Trials begun by an earlier server may not have been resumed yet.
            for trial in await self._teardown.cancel_begun_trials(active.job, [*active.trials.values()]):
                active.put(trial)
            await self._teardown.close(active)
        return active.job

    async def settle(self, job_id: str) -> None:
        """Wait until a job that is ending has ended."""
        while over := self._closing.get(job_id):
            await over.wait()

    @contextlib.asynccontextmanager
    async def _end_of(self, active: ActiveJob) -> AsyncIterator[None]:
        """End a job within this context: no new trials begin, and requests to reopen it wait."""
        job_id = active.job.id
        self._active.pop(job_id, None)
        self._deadlines.pop(job_id, None)
        over = self._closing[job_id] = asyncio.Event()
        try:
            yield
        finally:
            del self._closing[job_id]
            over.set()

    async def _stop_trial(self, active: ActiveJob, trial: Trial) -> None:
        await self._tools.work.cancel(trial_key(trial.id))
        trial = active.trials[trial.place]
        self._capacity.give_back(trial.id)
        if not trial.has_ended:
            is_by_user = active.job.state is JobState.CANCELLED
            reason = "the job was cancelled" if is_by_user else "the job was ended: its time was over"
            failure = TrialFailed("cancelled", "Cancelled", reason)
            trial = canceled_trial(await settle_cut_short(self._access, active.job, trial), failure)
            active.put(trial)
            await retry_store(self._job_store.trial, trial)
        await self._teardown.tear_down(trial)
        active.done(trial)

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            try:
                await self._beat()
            except Exception:  # noqa: BLE001
                # Other jobs must go on; the next beat tries again.
                _log.exception("the scheduler made a mistake")
                await asyncio.sleep(1)
            await wait_at_most(self._wait_seconds(), self._wake.wait())

    async def _beat(self) -> None:
        for job_id, deadline in list(self._deadlines.items()):
            if deadline <= time.monotonic():
                await self.stop(job_id, JobState.TIMEOUT)
        for over in [active for active in self._active.values() if active.is_over]:
            async with self._end_of(over):
                await self._teardown.close(over)
                over.job = await self._job_store.job(job_at_end(over.job, JobState.COMPLETED))
        while (active := self._waiting()) and (trial := active.next()):
            size = await self._size(active.job, trial)
            if self._active.get(active.job.id) is not active or active.next() is not trial:
                # The job was ended meanwhile.
                continue
            if not self._capacity.fits(size):
                break
            self._capacity.take(trial.id, size)
            self._begin(active, trial)

    async def _size(self, job: Job, trial: Trial) -> Resources:
        revision = job.scenario_revisions[trial.scenario]
        try:
            scenario = await retry_store(self._scenarios.at, trial.scenario_id, revision)
        except BenchyardError:
            # The trial cannot begin either, which will be its result: other trials must not wait for it.
            return resources(LaunchParameters())
        environment = scenario.environment
        return resources((environment and environment.launch_parameters) or LaunchParameters())

    def _waiting(self) -> ActiveJob | None:
        """Return the job whose turn it is: the one with fewest running trials, then the longest waiting."""
        waiting = [active for active in self._active.values() if active.next()]
        return min(waiting, key=lambda each: (len(each.running), each.last_start), default=None)

    def _begin(self, active: ActiveJob, trial: Trial) -> None:
        active.begin(trial)
        if active.job.state is not JobState.RUNNING:
            changes = {"state": JobState.RUNNING, "start_time_ms": active.job.start_time_ms or now_ms()}
            active.job = active.job.model_copy(update=changes)
            self._job_store.job_soon(active.job)
        self._tools.work.start(trial_key(trial.id), partial(self._carry, active, trial))

    async def _carry(self, active: ActiveJob, trial: Trial) -> None:
        """Run a trial; the boundary of trials: every error becomes its result, and the job goes on."""
        try:
            find_inputs = partial(
                inputs_of_trial, active.job, trial, self._scenarios, self._agents, self._keys
            )
            context = TrialContext(
                self._tools,
                self._runs,
                self._traces,
                self._job_store,
                self._access,
                inputs=await retry_store(find_inputs),
                trial=trial,
                on_change=active.put,
            )
            ended = await run_trial(context)
        except TrialFailed as failure:
            ended = failed_trial(trial, failure)
        except BenchyardError as error:
            # Its agent or its scenario is gone.
            ended = failed_trial(trial, failure_of_error(error))
        except Exception:  # noqa: BLE001
            _log.exception("trial %s failed", trial.id)
            mistake = TrialFailed("infrastructure", "ServerError", "the server made a mistake")
            ended = failed_trial(active.trials[trial.place], mistake)
        # Settle the spending, also of a trial that failed before it did so itself.
        ended = await settle_cut_short(self._access, active.job, ended)
        active.put(ended)
        await self._keep(active, ended)
        await self._teardown.tear_down(ended)
        self._capacity.give_back(ended.id)
        active.done(ended)
        if active.is_agent_over(ended.agent):
            await self._teardown.close_agent(active, ended.agent)
        self._wake.set()

    async def _keep(self, active: ActiveJob, ended: Trial) -> None:
        """Store the end of a trial, and the trial that replaces it if it was lost."""
        is_lost = ended.failure is not None and ended.failure.kind == "infrastructure"
        is_stopped = active.job.state in ENDED_JOBS
        if not is_lost or is_stopped or ended.n_lost >= active.job.orchestrator.retries:
            await self._job_store.trial(ended)
            return
        old = ended.model_copy(update={"is_superseded": True})
        new = retry_of(active.job, ended, now_ms())
        await self._job_store.trial(old, new)
        active.again(new)

    def _wait_seconds(self) -> float:
        waits = [_LONGEST_WAIT_SECONDS]
        waits += [each for active in self._active.values() if (each := active.wait_seconds()) is not None]
        waits += [deadline - time.monotonic() for deadline in self._deadlines.values()]
        return max(0.01, min(waits))


def job_at_end(job: Job, state: JobState) -> Job:
    """Return an ended job; its end is never before its beginning, even if the clock was set back."""
    end = max(job.start_time_ms or job.create_time_ms, now_ms())
    preparations = job.ended_preparations(end)
    return job.model_copy(update={"state": state, "end_time_ms": end, "preparations": preparations})
