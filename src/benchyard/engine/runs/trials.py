"""Custom scorers, tried in a devbox that is made for it and ends with it."""

import contextlib
from functools import partial
from typing import Any

from benchyard.engine.definitions.custom_scorers import CUSTOM_TYPE, CustomScorers
from benchyard.engine.definitions.rules import check_path
from benchyard.engine.devboxes import Asked, Devboxes
from benchyard.engine.ids import random_id
from benchyard.engine.runs.rooms import Place, room_in
from benchyard.engine.states import BOOTING
from benchyard.engine.tools import Tools
from benchyard.errors import Conflict, NotFound, ScorerFailed, UsageError
from benchyard.hosts.uninterrupted import uninterrupted
from benchyard.models.devboxes import Devbox, DevboxPurpose, DevboxRequest, DevboxStatus
from benchyard.models.scenarios import (
    SCORER_SECONDS_DEFAULT,
    CustomScorer,
    ScenarioEnvironment,
    ScorerTrialRequest,
    ScorerTrialResult,
    ScorerTrialView,
)
from benchyard.scorers import catalog
from benchyard.scorers.base import ScoringContext

_BOOT_SECONDS = 600.0


class ScorerTrials:
    """Tries custom scorers."""

    def __init__(self, tools: Tools, devboxes: Devboxes, scorers: CustomScorers) -> None:
        self._tools = tools
        self._devboxes = devboxes
        self._scorers = scorers

    async def run(self, id: str, request: ScorerTrialRequest) -> ScorerTrialView:
        """Run a custom scorer once, with this context, in a fresh devbox of this environment."""
        scorer = await self._scorers.records.get(id)
        environment = request.environment_parameters or ScenarioEnvironment()
        if environment.working_directory:
            check_path(environment.working_directory, "environment_parameters.working_directory")
        wanted = DevboxRequest(
            name=f"trial of {scorer.type}"[:200],
            blueprint_id=environment.blueprint_id,
            snapshot_id=environment.snapshot_id,
            launch_parameters=environment.launch_parameters,
        )
        purpose = DevboxPurpose(working_directory=environment.working_directory)
        asked = Asked(random_id("dbx_"), scorer_id=id, purpose=purpose)
        try:
            devbox = await self._devboxes.create(asked, wanted)
        except NotFound as error:
            # The scorer is there; 404 would say that it is not.
            raise UsageError(error.message, field="environment_parameters") from error
        try:
            result = await self._graded(scorer, devbox.id, environment, request.scoring_context)
        finally:
            with contextlib.suppress(NotFound):
                await uninterrupted(self._devboxes.shutdown(devbox.id, force=True))
        return ScorerTrialView(
            name=scorer.type,
            scoring_context=request.scoring_context,
            scoring_result=result,
            environment_parameters=request.environment_parameters,
        )

    async def _graded(
        self, scorer: CustomScorer, devbox_id: str, environment: ScenarioEnvironment, context: Any
    ) -> ScorerTrialResult:
        fields = {"type": CUSTOM_TYPE, "custom_scorer_type": scorer.type, "scorer_params": context}
        told = partial(ScorerTrialResult, scoring_function_name=scorer.type)
        try:
            scripts = {scorer.type: scorer.bash_script}
            told_to = ScoringContext({}, scripts, call=self._tools.workers.call)
            grading = catalog.parse(CUSTOM_TYPE, fields, told_to)
            devbox = await self._booted(devbox_id)
            user = devbox.launch_parameters.user_parameters
            place = Place(
                devbox_id=devbox_id,
                user=user.username if user else "user",
                working_directory=environment.working_directory,
                seconds=float(SCORER_SECONDS_DEFAULT),
            )
            async with room_in(self._tools, place) as room:
                verdict = await grading.score(room)
        except ScorerFailed as error:
            output = f"{error.details.get('output', '')}\n[benchyard] {error.message}\n".lstrip()
            return told(score=0.0, state="error", output=output)
        return told(score=verdict.score, state="complete", output=verdict.output)

    async def _booted(self, devbox_id: str) -> Devbox:
        devbox = await self._tools.roster.wait(
            devbox_id, lambda record: record.status not in BOOTING, _BOOT_SECONDS
        )
        if devbox.status is not DevboxStatus.RUNNING:
            detail = devbox.state_transitions[-1].detail or devbox.failure_reason or ""
            raise Conflict(f"the devbox of the trial is {devbox.status}: {detail}")
        return devbox
