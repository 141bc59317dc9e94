"""Scenario runs for the API: start, score, complete, cancel; none is lost with the server."""

import contextlib
from functools import partial

from benchyard.engine.background import retry_store, run_key_prefix, scoring_key
from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.boot import prepare_step
from benchyard.engine.devboxes.service import Devboxes
from benchyard.engine.devboxes.start_image import Prerequisites
from benchyard.engine.devboxes.states import ENDED
from benchyard.engine.runs.final_states import CANCELED
from benchyard.engine.runs.model_access import RunGateways
from benchyard.engine.runs.records import RunRecords
from benchyard.engine.runs.reference_runs import ReferenceRuns
from benchyard.engine.runs.rescoring import RunRescorings
from benchyard.engine.runs.results import (
    Outcome,
    ended_run,
    failed_outcome,
    first_round,
    outcome_after_round,
    prepared_run,
    run_after_devbox,
    scored_run,
)
from benchyard.engine.runs.scoring import Scoring, attempt_scoring
from benchyard.engine.runs.scoring_room import frozen_id
from benchyard.engine.runs.start import RunPlan, RunStarter, require_isolation
from benchyard.engine.scenarios.scenarios import Scenarios
from benchyard.errors import Conflict, NotFound, StillWaiting, UsageError
from benchyard.hosts.cancellation import run_to_end, wait_at_most
from benchyard.models.devboxes import DevboxStatus
from benchyard.models.jobs import JOB_KEY, TRIAL_KEY
from benchyard.models.runs import (
    ENDED_RUNS,
    BenchmarkRun,
    RunState,
    RunWaitRequest,
    ScenarioRun,
    ScenarioRunRequest,
)
from benchyard.models.scenarios import Scenario, of_round
from benchyard.store.collection import Collection

HOLD_SECONDS = 25.0
_HOUR = 3600.0

_S = RunState


class ScenarioRuns:
    """All scenario runs of this server."""

    def __init__(
        self,
        tools: EngineContext,
        records: Collection[ScenarioRun],
        benchmark_runs: Collection[BenchmarkRun],
        scenarios: Scenarios,
        devboxes: Devboxes,
        prerequisites: Prerequisites,
        scoring: Scoring,
        gateways: RunGateways,
    ) -> None:
        self.records = records
        self.run_records = RunRecords(records)
        self.scenarios = scenarios
        self._tools = tools
        self._devboxes = devboxes
        self.prerequisites = prerequisites
        self._scoring = scoring
        self._gateways = gateways
        self._starting = RunStarter(tools, benchmark_runs, devboxes, scoring)
        self._references = ReferenceRuns(tools, self)
        self._rescorings = RunRescorings(tools, self.run_records, scenarios, scoring, self._references)

    async def open(self) -> None:
        """Resume interrupted work: begin scorings again, and finish the ends of runs."""
        unfinished = await self.records.all({"status": [each.value for each in _S if each not in ENDED_RUNS]})
        await self._gateways.take_up(unfinished)
        # Not resumed: the judgement that needs a reference runs it again.
        left = [run.id for run in unfinished if run.is_reference]
        unfinished = [run for run in unfinished if not run.is_reference]
        scoring = {run.id for run in unfinished if run.state is _S.SCORING}
        interrupted = await self._rescorings.interrupted_runs()
        await self._scoring.open(
            scoring | interrupted, {devbox.id for devbox in self._tools.live_devboxes.live()}
        )
        self._scoring.finals.watch(self.run_records)
        for run in unfinished:
            self._watch(run.id)
            if run.state is _S.SCORING:
                self._tools.work.start(scoring_key(run.id), partial(self._score, run.id))
        for run_id in interrupted:
            self._tools.work.start(scoring_key(run_id), partial(self._rescorings.run, run_id))
        for run_id in left:
            await self.cancel(run_id)
        await self._end_left()

    async def _end_left(self) -> None:
        """End the devboxes of runs that ended when an earlier server stopped."""
        made_for = {
            devbox.initiator_id: devbox.id
            for devbox in self._tools.live_devboxes.live()
            if devbox.initiator_type == "scenario" and devbox.initiator_id
        }
        for run in await self.records.all(
            {"id": list(made_for), "status": [each.value for each in ENDED_RUNS]}
        ):
            await self._devboxes.shutdown(made_for[run.id], force=True)

    async def start(self, caller: Caller, request: ScenarioRunRequest) -> ScenarioRun:
        """Begin a run; its devbox starts in the background. The same request again returns the same run."""
        existing = await self.records.find(caller.id)
        if existing is not None:
            if existing.request_hash != caller.request_hash:
                raise UsageError("this x-request-id was used with another body; send a new one")
            return existing
        require_isolation(self._tools)
        scenario = await self.scenarios.get(request.scenario_id)
        profile = await self._starting.profile(scenario, request)
        metadata = request.metadata or {}
        start = RunPlan(scenario, profile, request.benchmark_run_id, request.run_name, metadata)
        return await self.begin(caller, start)

    async def begin(self, caller: Caller, start: RunPlan) -> ScenarioRun:
        """Begin a run from a complete plan; a second call returns the existing run."""
        scenario = start.scenario
        await self.scenarios.freeze(scenario)
        devbox = await self._starting.devbox(caller, start)
        run = ScenarioRun(
            id=caller.id,
            create_time_ms=now_ms(),
            request_hash=caller.request_hash,
            scenario_id=scenario.id,
            scenario_revision=scenario.revision,
            benchmark_run_id=start.benchmark_run_id,
            devbox_id=devbox.id,
            name=start.run_name or scenario.name,
            purpose=start.profile.purpose,
            metadata=start.metadata,
            environment_variables=start.profile.env_vars or {},
            secrets=start.profile.secrets or {},
            scorer_multiplier=start.scorer_multiplier,
            is_reference=start.is_reference,
            next_round=first_round(scenario),
        )
        run, is_new = await run_to_end(self.records.insert_once(run))
        if is_new:
            self._watch(run.id)
        return run

    async def get(self, id: str) -> ScenarioRun:
        """Return the run with this id; raises NotFound."""
        return await self.records.get(id)

    async def scenario(self, run: ScenarioRun) -> Scenario:
        """Return the scenario in the revision of the run."""
        return await self.scenarios.at(run.scenario_id, run.scenario_revision)

    async def score(self, id: str, request_id: str | None = None, *, is_job: bool = False) -> ScenarioRun:
        """Begin to score a run, also one that was scored before; a scoring under way goes on.

        With several rounds this scores the next one, until none is left. The same request again, after a lost
        answer, begins nothing.
        """
        begun: list[bool] = []

        def apply(run: ScenarioRun) -> ScenarioRun:
            begun.clear()
            if run.state is _S.SCORING or (request_id and run.scoring_request == request_id):
                return run
            if run.state in ENDED_RUNS:
                raise Conflict(f"scenario run {id} is {run.state} and cannot be scored any more")
            if run.rescoring is not None:
                raise Conflict(
                    f"scenario run {id} is being scored again from what it left; its devbox is gone"
                )
            if run.next_round and TRIAL_KEY in run.metadata and not is_job:
                raise Conflict(f"scenario run {id} belongs to a job, which scores its rounds itself")
            begun.append(True)
            number = run.next_round.number if run.next_round else run.round
            asked = {"scorings": run.scorings + 1, "scoring_request": request_id, "round": number}
            return run.model_copy(update={"state": _S.SCORING, **asked})

        async def begin() -> ScenarioRun:
            run = await self.run_records.change(id, apply)
            if begun:
                self._tools.work.start(scoring_key(id), partial(self._score, id))
            return run

        # The caller may be cancelled: a recorded scoring must begin.
        return await run_to_end(begin())

    async def rescore(self, id: str, request_id: str | None = None, *, newest: bool = True) -> ScenarioRun:
        """Begin to score a run again from its final state, by its scenario's newest revision or its own.

        The old result stays until there is a new one; a rescoring under way goes on. The same request again
        begins nothing. Raises Conflict with the reason if there is nothing to score.
        """

        async def begin() -> ScenarioRun:
            run, is_new = await self._rescorings.note(id, request_id, newest=newest)
            if is_new:
                self._tools.work.start(scoring_key(id), partial(self._rescorings.run, id))
            return run

        return await run_to_end(begin())

    async def rename(self, id: str, name: str) -> ScenarioRun:
        """Rename a run; raises Conflict for a run of a job."""

        def apply(run: ScenarioRun) -> ScenarioRun:
            require_no_job(run)
            return run.model_copy(update={"name": name})

        return await self.run_records.change(id, apply)

    async def complete(self, id: str) -> ScenarioRun:
        """End a run and its devbox; raises StillWaiting if its scoring takes long."""
        if (await self.records.get(id)).state is _S.SCORING:
            await wait_at_most(HOLD_SECONDS, self._tools.work.settle(scoring_key(id)))

        def apply(run: ScenarioRun) -> ScenarioRun:
            if run.state is _S.COMPLETED:
                return run
            if run.state is _S.SCORING:
                raise StillWaiting(f"scenario run {id} is being scored; wait until it is scored")
            if run.state in ENDED_RUNS:
                raise Conflict(f"scenario run {id} is {run.state} and cannot be completed")
            return ended_run(run, _S.COMPLETED)

        return await self._end(await run_to_end(self.run_records.change(id, apply)))

    async def cancel(self, id: str) -> ScenarioRun:
        """End a run and its devbox without a score; one that has ended stays as it is."""
        return await self.end(id, _S.CANCELED)

    async def end(self, id: str, state: RunState, reason: str | None = None) -> ScenarioRun:
        """End a run and its devbox in another state than canceled: failed, or out of time."""
        self._tools.make_room_to_end()

        before: list[ScenarioRun] = []

        def apply(run: ScenarioRun) -> ScenarioRun:
            before[:] = [run]
            if run.state in ENDED_RUNS:
                return run
            nothing = {"final_state": None, "final_state_gone": CANCELED, "rescoring": None}
            return ended_run(run, state, reason).model_copy(update=nothing)

        run = await run_to_end(self.run_records.change(id, apply))
        if run.state is not _S.COMPLETED:
            await self._tools.work.cancel(scoring_key(id))
            await self._scoring.forget(frozen_id(run))
            await self._scoring.finals.settle(before[0], run)
        return await self._end(run)

    async def wait(self, id: str, request: RunWaitRequest) -> ScenarioRun:
        """Return the run once it has one of the states; raises StillWaiting when the time is over."""
        seconds = HOLD_SECONDS if request.timeout_seconds is None else request.timeout_seconds

        def is_there(run: ScenarioRun) -> bool:
            return run.state in request.states and not (request.settled and run.rescoring)

        return await self.run_records.until(id, is_there, min(seconds, HOLD_SECONDS))

    async def wait_until_settled(self, id: str) -> ScenarioRun:
        """Return the run once it is not being scored any more, nor rescored from its final state."""
        await self._tools.work.settle(scoring_key(id))
        return await self.records.get(id)

    async def _end(self, run: ScenarioRun) -> ScenarioRun:
        run = await self._gateways.end(run)
        with contextlib.suppress(NotFound):
            await self._devboxes.shutdown(run.devbox_id, force=True)
        return run

    async def end_devbox(self, devbox_id: str) -> None:
        """End the devbox of an ended run, unless it has ended."""
        if self._tools.live_devboxes.living(devbox_id) is not None:
            with contextlib.suppress(NotFound):
                await self._devboxes.shutdown(devbox_id, force=True)

    def _watch(self, id: str) -> None:
        self._tools.work.start(run_key_prefix(id) + "watch", partial(self._until_gone, id))

    async def _until_gone(self, id: str) -> None:
        """Wait for the end of a run's devbox, and note the effect on the run."""
        run = await retry_store(self.records.get, id)
        with contextlib.suppress(NotFound):
            devbox = await self._tools.live_devboxes.get(run.devbox_id)
            while devbox.status not in ENDED:
                devbox = await self._tools.live_devboxes.wait(
                    run.devbox_id, lambda record: record.status in ENDED, _HOUR
                )
            await self._tools.work.settle(scoring_key(id))
            run = await retry_store(self.run_records.change, id, partial(run_after_devbox, devbox))
            await self._gateways.end(run)

    async def _score(self, id: str) -> None:
        """Score a run; errors become its result, and the run goes on."""
        run = await retry_store(self.records.get, id)
        if run.state is not _S.SCORING:
            return
        scenario = await retry_store(self.scenario, run)
        if _is_ready(run):
            graded = of_round(scenario, run.round)
            scored = await attempt_scoring(self._outcome(run, scenario), id)
            outcome = failed_outcome(run, graded, scored) if isinstance(scored, str) else scored
            outcome = await outcome_after_round(scenario, run, outcome, self._tools.workers.call)
            change = partial(scored_run, run.scorings, outcome)
            now = await retry_store(self.run_records.change, id, change)
            await self._scoring.finals.settle(run, now)
            run = now
        else:
            # An earlier server has stored the result.
            await self._scoring.forget(frozen_id(run))
        if not _is_ready(run):
            await self._prepare(run, scenario)

    async def _prepare(self, run: ScenarioRun, scenario: Scenario) -> None:
        """Prepare the devbox of a run for its next step."""
        number = run.next_round.number if run.next_round else 1
        step = (scenario.steps or [])[number - 1].preparation(scenario.attachments)
        devbox = await retry_store(self._tools.live_devboxes.get, run.devbox_id)
        failure = await prepare_step(self._tools, devbox, number, step) if step else None
        cause = None
        if failure is not None:
            failure, cause = await self._references.judge_setup(run, scenario, failure)
        change = partial(prepared_run, run.scorings, failure, cause)
        await retry_store(self.run_records.change, run.id, change)

    async def _outcome(self, run: ScenarioRun, scenario: Scenario) -> Outcome:
        """Return the outcome of a run's scoring; ends its access to models first."""
        run = await self._gateways.settle(run)
        if self._is_left(run, scenario):
            await self._devboxes.retire(run.devbox_id)
            devbox = await retry_store(self._tools.live_devboxes.get, run.devbox_id)
            if devbox.status is DevboxStatus.SUSPENDED and not self._tools.host.rooms.has_sound_disk(
                devbox.id
            ):
                # A power failure may have damaged it.
                message = (
                    "the machine was started anew before what its devbox left was safe on disk: run it again"
                )
                raise Conflict(message)
        case = await self._scoring.case_of_devbox(run, of_round(scenario, run.round))
        outcome = await self._scoring.score(case)
        return await self._references.judge(run, scenario, outcome)

    def _is_left(self, run: ScenarioRun, scenario: Scenario) -> bool:
        """Tell whether all work in a run's devbox is over, so that its disk need not be copied."""
        is_last = run.next_round is None or run.round >= scenario.n_rounds
        graded = of_round(scenario, run.round)
        is_apart = graded.scoring_isolation != "live" and not graded.collect_commands
        can_take = not self._tools.host.pretends and self._tools.host.rooms.can_take()
        return TRIAL_KEY in run.metadata and is_last and is_apart and can_take


def _is_ready(run: ScenarioRun) -> bool:
    return run.next_round is None or run.next_round.is_prepared


def require_no_job(run: ScenarioRun | BenchmarkRun) -> None:
    """Raise Conflict for a run that a job names."""
    if job_id := run.metadata.get(JOB_KEY):
        raise Conflict(f"run {run.id} has its name from job {job_id}: `benchyard job rename {job_id} NAME`")
