"""Custom scorers: bash scripts that scoring contracts name by their type."""

from collections.abc import Iterable

from benchyard.engine.devboxes import Asked
from benchyard.engine.journal import now_ms
from benchyard.errors import Conflict, Forbidden, UsageError
from benchyard.models.scenarios import CustomScorer, CustomScorerRequest, ScoringFunction
from benchyard.store.collection import Collection

SCORER_PREFIX = "scs_"
CUSTOM_TYPE = "custom_scorer"
RESERVED = "benchyard."
"""What the types of scorers begin with that come with the server itself."""


class CustomScorers:
    """All custom scorers; no two have the same type."""

    def __init__(self, records: Collection[CustomScorer]) -> None:
        self.records = records

    async def create(self, asked: Asked, request: CustomScorerRequest) -> CustomScorer:
        """Keep a new one; raises UsageError if its type is taken, Forbidden if it is one of ours."""
        _check_free(request.type)
        return await self._insert(asked, request)

    async def publish(self, id: str, request: CustomScorerRequest) -> CustomScorer:
        """Make one of those that come with the server itself, or make it what is asked for now."""
        if await self.records.find(id) is None:
            return await self._insert(Asked(id), request)
        return await self._change(id, request)

    async def _insert(self, asked: Asked, request: CustomScorerRequest) -> CustomScorer:
        record = CustomScorer(
            id=asked.id,
            create_time_ms=now_ms(),
            request_hash=asked.request_hash,
            type=request.type,
            bash_script=request.bash_script,
        )
        try:
            kept, _ = await self.records.insert_once(record)
        except Conflict as error:
            raise _taken(request.type) from error
        return kept

    async def update(self, id: str, request: CustomScorerRequest) -> CustomScorer:
        """Change type and script; runs that were scored keep what they got."""
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
            raise _taken(request.type) from error

    async def scripts(self, functions: Iterable[ScoringFunction]) -> dict[str, CustomScorer]:
        """Type -> custom scorer, of those that functions name and that are there."""
        found = {}
        for name in {str(each.scorer.get("custom_scorer_type")) for each in functions if _is_custom(each)}:
            scorer = await self.records.find_named(name)
            if scorer is not None:
                found[name] = scorer
        return found

    async def check(self, functions: Iterable[ScoringFunction]) -> None:
        """Raise UsageError where a function names a type that is not registered."""
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


def _taken(type: str) -> UsageError:
    return UsageError(f"a custom scorer of type {type!r} is there already; update it, or choose another type")
