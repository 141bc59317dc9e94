"""Who works on what: the agents and scenarios of a job, ready to be used by its trials."""

from collections.abc import Mapping
from typing import Any, Protocol

from benchyard.agents.base import Agent
from benchyard.devboxes.base import Shown
from benchyard.engine.definitions.scenarios import Scenarios
from benchyard.engine.jobs.failures import TrialFailed
from benchyard.engine.jobs.turn import Cast
from benchyard.engine.model_keys import ModelKeys
from benchyard.errors import NotFound, UsageError
from benchyard.models.agents import AgentChoice, RegisteredAgent
from benchyard.models.jobs import Job
from benchyard.models.scenarios import Scenario
from benchyard.models.trials import Trial


class AgentSource(Protocol):
    """Where agents come from."""

    async def resolve(
        self, name: str, agent_id: str | None, version: str | None, kwargs: Mapping[str, str]
    ) -> AgentChoice:
        """Which agent is meant; raises UsageError with those there are."""

    async def check(self, choice: AgentChoice, model: str | None) -> Agent[Any] | None:
        """The agent, if it comes with us; raises UsageError where it cannot be run with this model."""

    async def missing(self, choice: AgentChoice) -> RegisteredAgent | None:
        """The agent that has to be installed before this choice can be used; None if it is there."""

    async def ready(self, choice: AgentChoice) -> tuple[Agent[Any], tuple[Shown, ...]]:
        """An agent that can be used at once, and what its devbox must show; installed if it was not."""


class Casting:
    """Finds the cast of trials."""

    def __init__(self, scenarios: Scenarios, agents: AgentSource, keys: ModelKeys) -> None:
        self._scenarios = scenarios
        self._agents = agents
        self._keys = keys

    async def missing(self, choice: AgentChoice) -> RegisteredAgent | None:
        """The agent that has to be installed before this choice can be used; None if it is there."""
        return await self._agents.missing(choice)

    async def ready(self, choice: AgentChoice) -> None:
        """Make an agent ready; raises an error that says what to do."""
        await self._agents.ready(choice)

    async def cast(self, job: Job, trial: Trial) -> Cast:
        """Who works on what in this trial; raises TrialFailed where its agent is gone."""
        scenario = await self.scenario(trial.scenario_id, job.scenario_revisions[trial.scenario])
        choice = job.choices[trial.agent]
        try:
            agent, shown = await self._agents.ready(choice)
        except NotFound as error:
            told = f"agent {choice.name!r} ({choice.agent_id}) was deleted while the job ran"
            raise TrialFailed("infrastructure", "AgentGone", told) from error
        try:
            route = await self._keys.route(agent, job.spec.agent_configs[trial.agent])
        except UsageError as error:
            # It was there when the job was made.
            raise TrialFailed("infrastructure", "SecretGone", error.message) from error
        return Cast(job, scenario, agent, shown, route)

    async def scenario(self, id: str, revision: int) -> Scenario:
        """A scenario as it was when its job began."""
        return await self._scenarios.at(id, revision)
