"""One run before its scorers: what they are told about it, and what they make of it."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from benchyard.engine.journal import now_ms
from benchyard.engine.runs.outcomes import Outcome
from benchyard.engine.runs.scoring import Scoring
from benchyard.engine.runs.stages import Case
from benchyard.engine.states import BOOTING, ENDED
from benchyard.engine.supplies import Supplies
from benchyard.engine.tools import Tools
from benchyard.engine.work import until_kept
from benchyard.errors import BenchyardError, Conflict, from_os
from benchyard.models.devboxes import Devbox, DevboxPurpose
from benchyard.models.runs import FinalState, ScenarioRun
from benchyard.models.scenarios import Scenario

MOST_TRAJECTORY_BYTES = 64 * 1024**2
"""Of a trajectory that scorers are shown."""
_HOUR = 3600.0

_log = logging.getLogger(__name__)


class Judging:
    """Has runs scored."""

    def __init__(self, tools: Tools, scoring: Scoring, supplies: Supplies) -> None:
        self.scoring = scoring
        self._tools = tools
        self._supplies = supplies

    async def outcome(self, run: ScenarioRun, scenario: Scenario) -> Outcome:
        """What the scorers make of a run's devbox; raises when it cannot be had."""
        devbox = await until_kept(partial(self._tools.roster.get, run.devbox_id))
        while devbox.status in BOOTING:
            devbox = await self._tools.roster.wait(devbox.id, _has_booted, _HOUR)
        if devbox.status in ENDED:
            raise Conflict(f"its devbox has ended ({devbox.status}) before it was scored")
        facts = _facts(run, scenario, now_ms())
        await self._supplies.graded_in(scenario)
        return await self.scoring.score(Case(run, scenario, devbox, facts, _trajectory(run)))

    async def of_final_state(self, run: ScenarioRun, scenario: Scenario, state: FinalState) -> Outcome:
        """What the scorers make of what a run left; raises when it cannot be had."""
        worked_in = Devbox(
            id=run.devbox_id,
            create_time_ms=run.create_time_ms,
            image=state.image_id,
            launch_parameters=state.launch_parameters,
            environment_variables=state.environment_variables,
            purpose=DevboxPurpose(home=state.home or state.working_directory),
        )
        facts = _facts(run, scenario, state.create_time_ms)
        await self._supplies.graded_in(scenario)
        trajectory = _trajectory(run)
        return await self.scoring.score(Case(run, scenario, worked_in, facts, trajectory, state))


def _trajectory(run: ScenarioRun) -> str | None:
    """The object of the last trajectory that came with a run; None without one, or where it is too large."""
    traces = [each for each in run.traces if each.kind == "atif"]
    if not traces or traces[-1].size_bytes > MOST_TRAJECTORY_BYTES:
        return None
    return traces[-1].object_id


async def attempt(work: Callable[[], Awaitable[Outcome]], run_id: str) -> Outcome | str:
    """The boundary of a scoring: its outcome, or the reason why there is none."""
    try:
        return await work()
    except BenchyardError as error:
        return error.message
    except OSError as error:
        return from_os(error).message
    except Exception:  # noqa: BLE001
        # A bug of ours must not leave a run that is being scored for ever.
        _log.exception("the scoring of run %s failed", run_id)
        return "the server made a mistake; its log tells which. Score it again"


def _facts(run: ScenarioRun, scenario: Scenario, until_ms: int) -> dict[str, object]:
    facts: dict[str, object] = {
        "problem_statement": scenario.input_context.problem_statement,
        "scenario_id": scenario.id,
        "scenario_run_id": run.id,
        "duration_ms": until_ms - run.create_time_ms,
        "usage": run.usage or None,
    }
    if scenario.validation_type == "EVALUATION":
        facts["reference_output"] = scenario.reference_output
    return facts


def _has_booted(devbox: Devbox) -> bool:
    return devbox.status not in BOOTING
