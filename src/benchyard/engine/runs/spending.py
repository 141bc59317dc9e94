"""What was spent on models in a run, and what they said: kept with the run when its access to them ends."""

import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from benchyard.engine.descriptors import read_pieces
from benchyard.engine.grants import Grants
from benchyard.engine.runs.traces import Traces
from benchyard.engine.scrubbing import Scrubber
from benchyard.engine.work import until_kept
from benchyard.errors import BenchyardError
from benchyard.gateway.grants import Budget, Spent
from benchyard.gateway.trajectory.making import About
from benchyard.models.budgets import Budget as AskedBudget
from benchyard.models.runs import ScenarioRun, TraceKind
from benchyard.store.collection import Collection
from benchyard.workers.workers import Limits, Workers

CALLS_NAME = "calls.db"
"""The trace that has every call as it was."""
TRAJECTORY_NAME = "trajectory.json"
_NAMES = (CALLS_NAME, TRAJECTORY_NAME)
MOST_RECORD_BYTES = 512 * 1024**2
_TRAJECTORY = "benchyard.engine.runs.call_traces:make_trajectory"
_CALLS = "benchyard.engine.runs.call_traces:make_shown_calls"
_LIMITS = Limits(seconds=300, memory_bytes=4 * 1024**3, output_bytes=2 * MOST_RECORD_BYTES)

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


@dataclass(frozen=True)
class Spending:
    """Ends the access of runs to models."""

    grants: Grants
    runs: Collection[ScenarioRun]
    traces: Traces
    workers: Workers

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
        given = {"file": str(record), "secrets": telling.clean.values}
        about = {"about": asdict(telling.about), "trailing": telling.trailing}
        name = numbered(TRAJECTORY_NAME, telling.number)
        if not await self._made(run_id, name, _TRAJECTORY, {**given, **about}, "atif"):
            return
        if record.stat().st_size <= MOST_RECORD_BYTES:
            await self._made(run_id, numbered(CALLS_NAME, telling.number), _CALLS, given, "file")

    async def _made(
        self, run_id: str, name: str, function: str, given: Mapping[str, Any], kind: TraceKind
    ) -> bool:
        """Keep what a worker makes of a grant's calls; False where that is nothing."""
        descriptor = await self.workers.make_file(function, b"", given, _LIMITS)
        try:
            size = os.fstat(descriptor).st_size
            if size:
                await self.traces.keep(run_id, name, read_pieces(descriptor, name, size), kind)
            return bool(size)
        finally:
            os.close(descriptor)


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
