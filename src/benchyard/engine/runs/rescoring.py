"""Rescoring of ended runs from their final states, by a better scorer or a repaired one."""

import asyncio
import logging
from dataclasses import replace
from functools import partial
from weakref import WeakValueDictionary

from benchyard.engine.background import retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.boot import SCORING_KIND
from benchyard.engine.devboxes.states import ENDED
from benchyard.engine.runs.records import RunRecords
from benchyard.engine.runs.reference_runs import ReferenceRuns
from benchyard.engine.runs.results import Outcome, join_rounds, rescored_run
from benchyard.engine.runs.scoring import Scoring, attempt_scoring
from benchyard.engine.runs.scoring_room import frozen_id
from benchyard.engine.scenarios.scenarios import Scenarios
from benchyard.errors import Conflict, NotFound, Unreadable
from benchyard.models.runs import FinalState, RunRescoring, RunState, ScenarioRun
from benchyard.models.scenarios import Scenario, of_round

_log = logging.getLogger(__name__)


class RunRescorings:
    """Scorings from final states.

    The image for a scoring is made before the record notes the request: a new server finds unfinished
    scorings by their images, and need not read all runs.
    """

    def __init__(
        self,
        tools: EngineContext,
        run_records: RunRecords,
        scenarios: Scenarios,
        scoring: Scoring,
        references: ReferenceRuns,
    ) -> None:
        self._tools = tools
        self._run_records = run_records
        self._scenarios = scenarios
        self._scoring = scoring
        self._references = references
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def interrupted_runs(self) -> set[str]:
        """Return the runs with interrupted scorings from a final state."""
        run_ids = set()
        for image in await self._tools.images.list():
            if image.kind != SCORING_KIND:
                continue
            run_id = image.id.partition("-")[0]
            try:
                run = await self._run_records.records.find(run_id)
            except Unreadable as error:
                _log.error("a run is not scored again: %s", error.message)
                continue
            if run is not None and run.rescoring is not None:
                run_ids.add(run_id)
        return run_ids

    async def note(self, id: str, request_id: str | None, *, newest: bool) -> tuple[ScenarioRun, bool]:
        """Note a request for a scoring; returns the run, and whether that is new. Raises Conflict."""
        lock = self._asking.setdefault(id, asyncio.Lock())
        async with lock:
            run = await self._run_records.records.get(id)
            if run.rescoring is not None or (request_id is not None and run.scoring_request == request_id):
                return run, False
            state = _final_state(run)
            await self._require_end(run)
            scenario = await self._scenarios.get(run.scenario_id) if newest else await self._own(run)
            _require_scorable(run, scenario, state)
            await self._scenarios.freeze(scenario)
            begun = run.model_copy(update=_request_fields(run, request_id, scenario.revision))
            await self._scoring.thaw(state, frozen_id(begun))

            def apply(now: ScenarioRun) -> ScenarioRun:
                if now.final_state != state or now.scorings != run.scorings:
                    raise Conflict(f"scenario run {id} was changed meanwhile; look at it and try again")
                return now.model_copy(update=_request_fields(now, request_id, scenario.revision))

            try:
                return await self._run_records.change(id, apply), True
            except BaseException:
                await self._scoring.forget(frozen_id(begun))
                raise

    async def run(self, id: str) -> None:
        """Score a run again if that was requested; errors are recorded in the run."""
        run = await retry_store(self._run_records.records.get, id)
        if run.rescoring is None:
            return
        outcome = await attempt_scoring(self._outcome(run), id)
        await retry_store(self._run_records.change, id, partial(rescored_run, run.scorings, outcome))
        # Last, since the next server would find the unfinished scoring by this image.
        await self._scoring.forget(frozen_id(run))

    async def _outcome(self, run: ScenarioRun) -> Outcome:
        state = _final_state(run)
        revision = run.rescoring.scenario_revision if run.rescoring else run.scenario_revision
        wanted = await retry_store(self._scenarios.at, run.scenario_id, revision)
        own = of_round(await retry_store(self._own, run), run.round)
        # The scoring may be new; task and place of work stay as they were.
        task = {"environment": own.environment, "input_context": own.input_context}
        graded = of_round(wanted, run.round).model_copy(update=task)
        outcome = await self._scoring.score(await self._scoring.case_of_final_state(run, graded, state))
        outcome = await self._references.judge(run, wanted, outcome)
        # Of earlier rounds only the scores are stored.
        return replace(outcome, result=join_rounds(wanted, run, outcome.result))

    async def _own(self, run: ScenarioRun) -> Scenario:
        return await self._scenarios.at(run.scenario_id, run.scenario_revision)

    async def _require_end(self, run: ScenarioRun) -> None:
        if run.state is RunState.COMPLETED:
            return
        try:
            devbox = await self._tools.live_devboxes.get(run.devbox_id)
        except NotFound:
            return
        if devbox.status not in ENDED:
            raise Conflict(
                f"the devbox of scenario run {run.id} is {devbox.status}: `score` scores it as it is now, "
                "and once the run is completed `rescore` scores what it left"
            )


def _request_fields(run: ScenarioRun, request_id: str | None, revision: int) -> dict[str, object]:
    return {
        "rescoring": RunRescoring(scenario_revision=revision, create_time_ms=now_ms()),
        "rescoring_failure": None,
        "scorings": run.scorings + 1,
        "scoring_request": request_id,
    }


def _final_state(run: ScenarioRun) -> FinalState:
    """Return a run's final state; raises Conflict with the reason if there is none."""
    if run.state not in (RunState.COMPLETED, RunState.SCORED):
        raise Conflict(
            f"scenario run {run.id} is {run.state}: only a run that was scored and completed can be scored "
            "again from what it left"
        )
    if run.result is None:
        raise Conflict(f"scenario run {run.id} was never scored, and keeps nothing that could be")
    if run.final_state is None:
        why = run.final_state_gone or "it was scored before this server kept any"
        raise Conflict(f"what scenario run {run.id} left is not there to be scored again: {why}")
    return run.final_state


def _require_scorable(run: ScenarioRun, scenario: Scenario, state: FinalState) -> None:
    """Raise Conflict if this revision's scoring needs more than the final state has."""
    if run.round > scenario.n_rounds or (scenario.steps and not (run.result and run.result.rounds)):
        raise Conflict(
            f"scenario run {run.id} was scored in round {run.round}, and revision {scenario.revision} of its "
            "scenario has other rounds"
        )
    told = f"scenario {scenario.id} is scored `{scenario.isolation}` in revision {scenario.revision}"
    if scenario.isolation == "live":
        raise Conflict(f"{told}, in a devbox that runs, and that of scenario run {run.id} has ended")
    if scenario.isolation in ("answer", "system") and state.start_image_id is None:
        raise Conflict(
            f"{told}, onto what the devbox was when it began; that was not kept for scenario run {run.id}, "
            "which began with another isolation"
        )
