"""Scenarios for the API: create, change, archive; each revision is kept for its runs."""

import asyncio
import contextlib
from collections import OrderedDict
from typing import Any

from benchyard.engine.clock import now_ms
from benchyard.engine.context import Caller
from benchyard.engine.devboxes.request_checks import check_request
from benchyard.engine.devboxes.start_image import ImageResolver
from benchyard.engine.scenarios.custom_scorers import CustomScorers
from benchyard.engine.scenarios.scoring_rules import check_path, check_weights, rules_from
from benchyard.errors import Conflict, Forbidden, NotFound, UsageError
from benchyard.hosts.cancellation import run_to_end
from benchyard.models.devboxes import DevboxRequest
from benchyard.models.scenarios import (
    RULES,
    Scenario,
    ScenarioChange,
    ScenarioEnvironment,
    ScenarioOptions,
    ScenarioRequest,
    ScoringContract,
    functions_of,
    revision_id,
)
from benchyard.scorers import catalog
from benchyard.scorers.base import ScoringContext
from benchyard.store.collection import Collection

SCENARIO_PREFIX = "scn_"
_REMEMBERED = 512
_KEPT = {"id", "create_time_ms", "request_hash", "revision", "status", "is_public"}


class Scenarios:
    """All scenarios of this server."""

    def __init__(
        self,
        records: Collection[Scenario],
        revisions: Collection[Scenario],
        scorers: CustomScorers,
        image_resolver: ImageResolver,
    ) -> None:
        self.records = records
        self._revisions = revisions
        self._frozen: OrderedDict[str, Scenario] = OrderedDict()
        self._as_it_was: OrderedDict[tuple[str, int], Scenario] = OrderedDict()
        """Cached revisions under the ids of their scenarios, as runs use them."""
        self._scorers = scorers
        self._image_resolver = image_resolver

    async def create(self, caller: Caller, request: ScenarioRequest, *, is_public: bool = False) -> Scenario:
        """Store a new scenario; the same request again returns the same one."""
        scenario = _scenario_from_request(caller, request, is_public=is_public)
        existing = await self.records.find(caller.id)
        if existing is None:
            # Its blueprint or scorers may be gone when the same request comes again.
            await self.check(scenario)
        kept, _ = await run_to_end(self.records.insert_once(scenario))
        return kept

    async def check(self, scenario: Scenario) -> None:
        """Refuse a scenario that could never run or be scored; raises UsageError."""
        for contract in (
            scenario.scoring_contract,
            *(each.scoring_contract for each in scenario.steps or []),
        ):
            check_weights(contract or scenario.scoring_contract)
        functions = functions_of(scenario)
        for function in functions:
            try:
                catalog.parse(str(function.scorer.get("type")), function.scorer, ScoringContext())
            except UsageError as error:
                raise UsageError(
                    f"scorer {function.name!r}: {error.message}", field="scoring_contract"
                ) from error
            # A contract may have many, and reading one may take as long as a callback may.
            await asyncio.sleep(0)
        await self._scorers.check(functions)
        await self._check_environment(scenario.environment or ScenarioEnvironment())

    async def get(self, id: str) -> Scenario:
        """Return the scenario as it is now; raises NotFound."""
        return await self.records.get(id)

    async def at(self, id: str, revision: int) -> Scenario:
        """Return a revision of a scenario; raises NotFound."""
        kept = self._as_it_was.get((id, revision))
        if kept is not None:
            return kept
        current = None if revision_id(id, revision) in self._frozen else await self.records.find(id)
        if current is not None and current.revision == revision:
            return current
        kept = (await self._revision(revision_id(id, revision))).model_copy(update={"id": id})
        self._as_it_was[id, revision] = kept
        while len(self._as_it_was) > _REMEMBERED:
            self._as_it_was.popitem(last=False)
        return kept

    async def _revision(self, id: str) -> Scenario:
        """Return a stored revision, cached for a while since it never changes."""
        found = self._frozen.pop(id, None) or await self._revisions.get(id)
        self._frozen[id] = found
        while len(self._frozen) > _REMEMBERED:
            self._frozen.popitem(last=False)
        return found

    async def freeze(self, scenario: Scenario) -> None:
        """Store the present revision, since a run is about to begin with it."""
        if revision_id(scenario.id, scenario.revision) in self._frozen:
            return
        frozen = scenario.frozen()
        if await self._revisions.find(frozen.id) is None:
            await self._revisions.insert_once(frozen)
        await self._revision(frozen.id)

    async def update(self, id: str, change: ScenarioChange) -> Scenario:
        """Change fields: None leaves one, an empty value clears it. The revision counts the differences."""
        before = await self.records.get(id)
        _check_own(before)
        if before.status == "archived":
            raise Conflict(f"scenario {id} is archived; unarchive it first")
        await self.freeze(before)
        changed = Scenario.model_validate({**before.model_dump(), **_changes(before, change)})
        if change.validated_isolation is None and before.graded_digest != changed.graded_digest:
            # The validation was of a scenario that is graded differently.
            changed = changed.model_copy(update={"validated_isolation": None})
        await self.check(changed)

        def apply(scenario: Scenario) -> Scenario:
            if scenario.revision != before.revision:
                raise Conflict(f"scenario {id} was changed meanwhile; look at it and try again")
            if scenario.status == "archived":
                raise Conflict(f"scenario {id} is archived; unarchive it first")
            same = scenario.model_dump(exclude=_KEPT) == changed.model_dump(exclude=_KEPT)
            return scenario if same else changed.model_copy(update={"revision": scenario.revision + 1})

        return await self.records.change(id, apply)

    async def publish(self, id: str, request: ScenarioRequest) -> Scenario:
        """Create or update a public scenario of Benchyard itself.

        It is not checked at each start of a server: tests have done that once.
        """
        before = await self.records.find(id)
        wanted = _scenario_from_request(Caller(id), request, is_public=True)
        if before is None:
            return await self.records.insert(wanted)
        await self.freeze(before)

        def apply(scenario: Scenario) -> Scenario:
            same = scenario.model_dump(exclude=_KEPT) == wanted.model_dump(exclude=_KEPT)
            kept = {"create_time_ms": scenario.create_time_ms, "revision": scenario.revision + (not same)}
            return wanted.model_copy(update=kept)

        return await self.records.change(id, apply)

    async def archive(self, id: str, *, is_archived: bool) -> Scenario:
        """Hide a scenario from lists, or show it again; it can be read by id in any case."""

        def apply(scenario: Scenario) -> Scenario:
            _check_own(scenario)
            wanted = "archived" if is_archived else "active"
            return scenario if scenario.status == wanted else scenario.model_copy(update={"status": wanted})

        return await self.records.change(id, apply)

    async def delete(self, id: str) -> Scenario:
        """Delete a scenario; the revisions of its runs stay."""
        scenario = await self.records.get(id)
        _check_own(scenario)
        # A run that begins just now needs the revision.
        await self.freeze(scenario)
        await run_to_end(self.records.delete(id))
        return scenario

    async def revisions(self, id: str) -> list[Scenario]:
        """Return the stored revisions of a scenario."""
        return [each for each in await self._revisions.containing(id) if each.id.startswith(f"{id}@")]

    async def own_attachments(self, id: str) -> list[str]:
        """Return the objects attached to a deleted scenario and to no revision of another."""
        kept = await self.revisions(id)
        found = []
        for object_id in sorted({each for old in kept for each in (old.attachments or {}).values()}):
            others = [each for each in await self._revisions.containing(object_id) if each not in kept]
            if not others and not await self.records.containing(object_id, limit=1):
                found.append(object_id)
        return found

    async def deleted(self) -> set[str]:
        """Return the ids of deleted scenarios that still have revisions."""
        kept = {each.partition("@")[0] for each in await self._revisions.ids({})}
        return kept - await self.records.ids({})

    async def forget_revisions(self, id: str) -> None:
        """Remove all revisions of a deleted scenario that no run needs any more."""
        for revision in await self.revisions(id):
            self._frozen.pop(revision.id, None)
            self._as_it_was.pop((id, revision.revision), None)
            with contextlib.suppress(NotFound):
                await self._revisions.delete(revision.id)

    async def _check_environment(self, environment: ScenarioEnvironment) -> None:
        if environment.working_directory:
            check_path(environment.working_directory, "environment_parameters.working_directory")
        request = DevboxRequest(
            blueprint_id=environment.blueprint_id,
            snapshot_id=environment.snapshot_id,
            launch_parameters=environment.launch_parameters,
        )
        check_request(request)
        try:
            await self._image_resolver.find(request)
        except NotFound as error:
            raise UsageError(error.message, field="environment_parameters") from error


def _scenario_from_request(caller: Caller, request: ScenarioRequest, *, is_public: bool) -> Scenario:
    given = request.model_dump(exclude={"environment_parameters", *RULES})
    return Scenario(
        **{name: value for name, value in given.items() if value is not None},
        **rules_from(request.metadata or {}, request),
        environment=request.environment_parameters,
        id=caller.id,
        create_time_ms=now_ms(),
        request_hash=caller.request_hash,
        is_public=is_public,
    )


def _changes(before: Scenario, change: ScenarioChange) -> dict[str, Any]:
    plain = change.model_dump(
        exclude={"input_context", "scoring_contract", "environment_parameters", *RULES},
        exclude_none=True,
    )
    found: dict[str, Any] = {name: value or _EMPTY.get(name) for name, value in plain.items()}
    if change.environment_parameters is not None:
        found["environment"] = change.environment_parameters.model_dump()
    if change.input_context is not None:
        given = change.input_context.model_dump(exclude_none=True)
        found["input_context"] = {**before.input_context.model_dump(), **given}
    functions = change.scoring_contract and change.scoring_contract.scoring_function_parameters
    if functions is not None:
        if not functions:
            raise UsageError("a scoring contract needs at least one function", field="scoring_contract")
        found["scoring_contract"] = ScoringContract(scoring_function_parameters=functions).model_dump()
    return {**found, **rules_from(change.metadata or {}, _with_previous_rules(before, change))}


def _with_previous_rules(before: Scenario, change: ScenarioChange) -> ScenarioOptions:
    """Return the rules of a change; rules not in its fields or metadata stay as they were."""
    said = rules_from(change.metadata or {}, ScenarioOptions())
    rules = {}
    for name in RULES:
        own = getattr(change, name)
        rules[name] = own if own is not None else said.get(name, getattr(before, name))
    return ScenarioOptions.model_validate(rules)


_EMPTY: dict[str, Any] = {"metadata": {}}


def _check_own(scenario: Scenario) -> None:
    if scenario.is_public:
        raise Forbidden(f"scenario {scenario.id} is public and cannot be changed; make a copy of it")
