"""Steps of trials while their agents work."""

from collections.abc import AsyncIterator

from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.secrets import scrubber_of
from benchyard.engine.jobs.model_access import TrialModelAccess
from benchyard.engine.jobs.store import JobStore
from benchyard.engine.redaction import Scrubber
from benchyard.engine.trajectories.live_steps import AgentAtWork, follow_steps
from benchyard.gateway.trajectory.live_steps import LiveCursor
from benchyard.models.trials import Trial, TrialState


class LiveTrialSteps:
    """Steps of trials under way."""

    def __init__(self, tools: EngineContext, job_store: JobStore, access: TrialModelAccess) -> None:
        self._tools = tools
        self._job_store = job_store
        self._access = access

    async def follow(self, trial_id: str, cursor: str | None) -> AsyncIterator[bytes]:
        """Return the frames of a trial's steps; raises NotFound, or UsageError for a wrong cursor."""
        trial = await self._job_store.trials.get(trial_id)
        job = await self._job_store.jobs.get(trial.job_id)
        environment = job.spec.agent_configs[trial.agent].agent_environment
        given = ((environment and environment.secrets) or {}).values()
        # All secrets that the trial may have had, whichever of its keys it used.
        names = [*given, *self._access.keys.usual_names()]

        async def scrubber() -> Scrubber:
            now = await self._job_store.trials.get(trial_id)
            return await scrubber_of(self._tools, now.devbox_id or "", names)

        async def reason_of_end() -> str | None:
            return _reason_of_end(await self._job_store.trials.get(trial_id))

        agent = AgentAtWork(self._access.grants, trial_id, scrubber, reason_of_end)
        return follow_steps(self._tools, agent, LiveCursor.of(cursor))


def _reason_of_end(trial: Trial) -> str | None:
    """Return why the agent does nothing more; None while it may."""
    if trial.has_ended:
        return f"the trial is {trial.state.value}"
    # A scenario with several rounds calls its agent again.
    is_last = trial.state is TrialState.SCORING and not trial.rounds
    return "the agent has ended, and is being scored" if is_last else None
