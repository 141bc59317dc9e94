"""Which scenarios a job is about; conditions and globs are a client's, so a worker looks for them."""

import asyncio
from collections.abc import Sequence

from benchyard.engine.jobs.plan import cut, of_ids
from benchyard.errors import UsageError, WorkerFailed
from benchyard.models.conditions import Condition, question
from benchyard.models.jobs import Selection
from benchyard.models.scenarios import Scenario
from benchyard.workers.workers import Call, Limits

_ANSWER = "benchyard.models.conditions:answer"
_LIMITS = Limits(seconds=5)
_FIELD = "spec.selection"


async def selected(scenarios: list[Scenario], selection: Selection | None, call: Call) -> list[Scenario]:
    """The scenarios that are asked for, in their order; raises UsageError when none is left."""
    if selection is None or not scenarios:
        return scenarios
    if selection.scenario_ids is not None:
        scenarios = of_ids(scenarios, selection.scenario_ids)
    globs = selection.include or (), selection.exclude or ()
    found, problem = await fitting(scenarios, selection.wanted(), *globs, call)
    if problem:
        raise UsageError(problem, field=_FIELD)
    return cut(found, selection)


async def fitting(
    scenarios: list[Scenario],
    wanted: Sequence[Sequence[Condition]],
    include: Sequence[str],
    exclude: Sequence[str],
    call: Call,
) -> tuple[list[Scenario], str | None]:
    """Those for which all of this holds, or why there are none."""
    if not (wanted or include or exclude):
        return scenarios, None
    content = await asyncio.to_thread(question, scenarios, wanted, include, exclude)
    try:
        told = await call(_ANSWER, content, limits=_LIMITS)
    except WorkerFailed:
        first = next((one.text for group in wanted for one in group), next(iter([*include, *exclude]), ""))
        return [], f"to look for {first[:200]!r} takes too long here; write simpler conditions, or fewer"
    return [scenarios[place] for place in told.get("chosen", [])], told.get("problem")
