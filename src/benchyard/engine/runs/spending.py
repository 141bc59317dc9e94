"""What was spent on models in a run, and what they said: kept with the run when its access to them ends."""

import asyncio
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from benchyard.engine.grants import Grants
from benchyard.engine.runs.traces import Traces
from benchyard.engine.scrubbing import Scrubber
from benchyard.engine.work import until_kept
from benchyard.errors import BenchyardError
from benchyard.gateway.calls import Call
from benchyard.gateway.cleaning import cleaned
from benchyard.gateway.grants import Budget, Spent
from benchyard.gateway.trajectory.making import About, trajectory_of
from benchyard.models.budgets import Budget as AskedBudget
from benchyard.models.runs import ScenarioRun
from benchyard.store.collection import Collection

CALLS_NAME = "calls.db"
"""The trace that has every call as it was."""
TRAJECTORY_NAME = "trajectory.json"
_NAMES = (CALLS_NAME, TRAJECTORY_NAME)
MOST_RECORD_BYTES = 512 * 1024**2

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Telling:
    """How it is told what a grant's calls said."""

    about: About
    clean: Scrubber
    """Knows what must not be told."""
    trailing: Mapping[str, str] | None = None
    """The results of tools that no call carries any more."""
    number: int = 1
    """A grant that is opened and ended again has all its calls in traces of the next number."""

    def trajectory(self, calls: list[Call]) -> bytes:
        """The trajectory of calls, as it is kept (blocks)."""
        made = trajectory_of(calls, about=self.about, trailing=self.trailing)
        return self.clean.data(json.dumps(made, ensure_ascii=False).encode(errors="replace"))


@dataclass(frozen=True)
class Spending:
    """Ends the access of runs to models."""

    grants: Grants
    runs: Collection[ScenarioRun]
    traces: Traces

    async def settle(self, run_id: str, grant_id: str, telling: Telling) -> Spent:
        """End a grant, and keep with its run what it spent and said; the same again changes nothing."""
        spent = await self.grants.close(grant_id)
        usage = usage_of(spent)

        def noted(run: ScenarioRun) -> ScenarioRun:
            return run.model_copy(update={"usage": usage})

        await until_kept(partial(self.runs.change, run_id, noted))
        try:
            await self._keep(run_id, grant_id, telling)
        except (BenchyardError, OSError) as error:
            _log.warning("scenario run %s: what its model said is not kept: %s", run_id, error)
        return spent

    def next_number(self, run: ScenarioRun, after: int) -> int:
        """The first number after another under which nobody else has kept traces with a run."""
        number = after + 1
        while not all(self.traces.is_free(run, numbered(each, number)) for each in _NAMES):
            number += 1
        return number

    async def _keep(self, run_id: str, grant_id: str, telling: Telling) -> None:
        record = self.grants.records.file(grant_id)
        if not record.is_file():
            return
        calls = await asyncio.to_thread(self.grants.records.calls, grant_id)
        if not calls:
            return
        content = await asyncio.to_thread(telling.trajectory, calls)
        await self.traces.keep(run_id, numbered(TRAJECTORY_NAME, telling.number), content, "atif")
        if record.stat().st_size <= MOST_RECORD_BYTES:
            shown = await asyncio.to_thread(cleaned, record, telling.clean.data)
            await self.traces.keep(run_id, numbered(CALLS_NAME, telling.number), shown, "file")


def numbered(name: str, number: int) -> str:
    """The name of a trace that is not the first of its kind."""
    stem, dot, suffix = name.rpartition(".")
    return name if number == 1 else f"{stem}-{number}{dot}{suffix}"


def budget_of(asked: AskedBudget | None) -> Budget:
    """A budget as the gateway takes it; none is no limit."""
    return Budget(asked.requests, asked.tokens, asked.usd) if asked else Budget()


def usage_of(spent: Spent) -> dict[str, float]:
    """What was spent, as it is kept with runs and trials; a cost that is not known is not there."""
    used = spent.usage
    told: dict[str, float] = {
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cached_tokens": used.cached_tokens,
        "reasoning_tokens": used.reasoning_tokens,
        "model_calls": spent.calls,
        "requests": spent.requests,
    }
    if spent.rate_limited_ms:
        told["rate_limited_ms"] = spent.rate_limited_ms
    if spent.cost_usd is not None:
        told["cost_usd"] = spent.cost_usd
    return told
