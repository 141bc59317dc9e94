"""Custom scorers: bash scripts that scoring contracts name by type; tried in devboxes of their own."""

import contextlib
from collections.abc import Iterable
from functools import partial
from typing import Any

from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller, EngineContext
from benchyard.engine.devboxes.service import Devboxes
from benchyard.engine.devboxes.states import BOOTING
from benchyard.engine.ids import random_id
from benchyard.engine.runs.scoring_room import RoomRequest, open_room
from benchyard.engine.scenarios.scoring_rules import check_path
from benchyard.errors import Conflict, Forbidden, NotFound, ScorerFailed, UsageError
from benchyard.hosts.cancellation import run_to_end
from benchyard.models.devboxes import Devbox, DevboxPurpose, DevboxRequest, DevboxStatus
from benchyard.models.scenarios import (
    SCORER_SECONDS_DEFAULT,
    CustomScorer,
    CustomScorerRequest,
    ScenarioEnvironment,
    ScorerValidationRequest,
    ScorerValidationResult,
    ScorerValidationView,
    ScoringFunction,
)
from benchyard.scorers import catalog
from benchyard.scorers.base import ScoringContext
from benchyard.store.collection import Collection

SCORER_PREFIX = "scs_"
CUSTOM_TYPE = "custom_scorer"
RESERVED = "benchyard."
"""Prefix of the types of scorers that come with the server."""


class CustomScorers:
    """All custom scorers; their types are unique."""

    def __init__(self, records: Collection[CustomScorer]) -> None:
        self.records = records

    async def create(self, caller: Caller, request: CustomScorerRequest) -> CustomScorer:
        """Store a new scorer; raises UsageError if its type is taken, Forbidden if it is reserved."""
        _check_free(request.type)
        return await self._insert(caller, request)

    async def publish(self, id: str, request: CustomScorerRequest) -> CustomScorer:
        """Create or update a scorer that comes with the server."""
        if await self.records.find(id) is None:
            return await self._insert(Caller(id), request)
        return await self._change(id, request)

    async def _insert(self, caller: Caller, request: CustomScorerRequest) -> CustomScorer:
        record = CustomScorer(
            id=caller.id,
            create_time_ms=now_ms(),
            request_hash=caller.request_hash,
            type=request.type,
            bash_script=request.bash_script,
        )
        try:
            kept, _ = await self.records.insert_once(record)
        except Conflict as error:
            raise _type_conflict(request.type) from error
        return kept

    async def update(self, id: str, request: CustomScorerRequest) -> CustomScorer:
        """Change type and script; scored runs keep their scores."""
        _check_free(request.type)
        _check_free((await self.records.get(id)).type)
        return await self._change(id, request)

    async def _change(self, id: str, request: CustomScorerRequest) -> CustomScorer:
        def apply(scorer: CustomScorer) -> CustomScorer:
            wanted = {"type": request.type, "bash_script": request.bash_script}
            if (scorer.type, scorer.bash_script) == (request.type, request.bash_script):
                return scorer
            return scorer.model_copy(update={**wanted, "revision": scorer.revision + 1})

        try:
            return await self.records.change(id, apply)
        except Conflict as error:
            raise _type_conflict(request.type) from error

    async def scripts(self, functions: Iterable[ScoringFunction]) -> dict[str, CustomScorer]:
        """Return the registered custom scorers that functions name, by type."""
        found = {}
        for name in {
            str(function.scorer.get("custom_scorer_type")) for function in functions if _is_custom(function)
        }:
            scorer = await self.records.find_named(name)
            if scorer is not None:
                found[name] = scorer
        return found

    async def check(self, functions: Iterable[ScoringFunction]) -> None:
        """Raise UsageError if a function names a type that is not registered."""
        functions = list(functions)
        known = await self.scripts(functions)
        for function in functions:
            name = function.scorer.get("custom_scorer_type")
            if _is_custom(function) and name not in known:
                raise UsageError(
                    f"scorer {function.name!r}: no custom scorer of type {str(name)[:200]!r}; register it "
                    "first with POST /v1/scenarios/scorers",
                    field="scoring_contract",
                )


def _is_custom(function: ScoringFunction) -> bool:
    return function.scorer.get("type") == CUSTOM_TYPE


def _check_free(type: str) -> None:
    if type.startswith(RESERVED):
        raise Forbidden(f"types that begin with {RESERVED!r} are the server's own; choose another type")


def _type_conflict(type: str) -> UsageError:
    return UsageError(f"a custom scorer of type {type!r} is there already; update it, or choose another type")


_BOOT_SECONDS = 600.0


class ScorerValidation:
    """Tries custom scorers."""

    def __init__(self, tools: EngineContext, devboxes: Devboxes, scorers: CustomScorers) -> None:
        self._tools = tools
        self._devboxes = devboxes
        self._scorers = scorers

    async def run(self, id: str, request: ScorerValidationRequest) -> ScorerValidationView:
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
        caller = Caller(random_id("dbx_"), scorer_id=id, purpose=purpose)
        try:
            devbox = await self._devboxes.create(caller, wanted)
        except NotFound as error:
            # The scorer itself exists; a 404 would deny that.
            raise UsageError(error.message, field="environment_parameters") from error
        try:
            result = await self._grade(scorer, devbox.id, environment, request.scoring_context)
        finally:
            with contextlib.suppress(NotFound):
                await run_to_end(self._devboxes.shutdown(devbox.id, force=True))
        return ScorerValidationView(
            name=scorer.type,
            scoring_context=request.scoring_context,
            scoring_result=result,
            environment_parameters=request.environment_parameters,
        )

    async def _grade(
        self, scorer: CustomScorer, devbox_id: str, environment: ScenarioEnvironment, context: Any
    ) -> ScorerValidationResult:
        fields = {"type": CUSTOM_TYPE, "custom_scorer_type": scorer.type, "scorer_params": context}
        result = partial(ScorerValidationResult, scoring_function_name=scorer.type)
        try:
            scripts = {scorer.type: scorer.bash_script}
            told_to = ScoringContext({}, scripts, call=self._tools.workers.call)
            grading = catalog.parse(CUSTOM_TYPE, fields, told_to)
            devbox = await self._wait_until_booted(devbox_id)
            room_request = RoomRequest(
                devbox_id=devbox_id,
                user=devbox.launch_parameters.username,
                working_directory=environment.working_directory,
                seconds=float(SCORER_SECONDS_DEFAULT),
            )
            async with open_room(self._tools, room_request) as room:
                verdict = await grading.score(room)
        except ScorerFailed as error:
            output = f"{error.details.get('output', '')}\n[benchyard] {error.message}\n".lstrip()
            return result(score=0.0, state="error", output=output)
        return result(score=verdict.score, state="complete", output=verdict.output)

    async def _wait_until_booted(self, devbox_id: str) -> Devbox:
        devbox = await self._tools.live_devboxes.wait(
            devbox_id, lambda record: record.status not in BOOTING, _BOOT_SECONDS
        )
        if devbox.status is not DevboxStatus.RUNNING:
            detail = devbox.state_transitions[-1].detail or devbox.failure_reason or ""
            raise Conflict(f"the devbox of the trial is {devbox.status}: {detail}")
        return devbox
