"""One trial on its way through its stages: what is known of it, and where it is."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from benchyard.agents.base import Agent, Launch, ModelAccess, Task
from benchyard.devboxes.base import Shown
from benchyard.engine.given_secrets import scrubber_of
from benchyard.engine.homes import usual_home
from benchyard.engine.jobs.access import Access
from benchyard.engine.jobs.failures import TrialFailed
from benchyard.engine.jobs.ledger import Ledger
from benchyard.engine.journal import now_ms
from benchyard.engine.model_keys import Route
from benchyard.engine.runs.scenario_runs import ScenarioRuns
from benchyard.engine.runs.traces import Traces
from benchyard.engine.scrubbing import Scrubber
from benchyard.engine.tools import Tools
from benchyard.models.devboxes import Devbox
from benchyard.models.jobs import AgentConfig, Job
from benchyard.models.runs import ContractResult, RunState, ScenarioRun
from benchyard.models.scenarios import Scenario
from benchyard.models.trials import Stage, Trial, TrialState


@dataclass(frozen=True)
class Desk:
    """What every trial works with."""

    tools: Tools
    runs: ScenarioRuns
    traces: Traces
    ledger: Ledger
    access: Access


@dataclass(frozen=True)
class Cast:
    """Who works on what in one trial."""

    job: Job
    scenario: Scenario
    """As it was when the job began."""
    agent: Agent[Any]
    shown: tuple[Shown, ...]
    """What the agent's devbox must show of the host."""
    route: Route | None = None
    """Its way to its model; None for an agent that asks none through the gateway."""


class Way:
    """A trial and what its stages have led to so far."""

    def __init__(self, desk: Desk, cast: Cast, trial: Trial, on_change: Callable[[Trial], None]) -> None:
        self.desk = desk
        self.cast = cast
        self.trial = trial
        self.is_fresh = trial.start_time_ms is None
        """Whether no earlier server began with it: then there is nothing to be found."""
        self._on_change = on_change
        self.run: ScenarioRun | None = None
        self.devbox: Devbox | None = None
        self.stage_name = ""
        self.last_error: str | None = None
        """What the agent's last call of its model failed with."""

    @property
    def config(self) -> AgentConfig:
        """What the job says of the agent."""
        return self.cast.job.spec.agent_configs[self.trial.agent]

    @property
    def multiplier(self) -> float:
        """What every limit of time is multiplied by."""
        return self.cast.job.orchestrator.multiplier

    @property
    def user(self) -> str:
        """Who works in the devbox."""
        user = self.the_devbox.launch_parameters.user_parameters
        return user.username if user else "user"

    @property
    def the_devbox(self) -> Devbox:
        """The devbox of the trial; asked for after it is there."""
        if self.devbox is None:
            raise TrialFailed("infrastructure", "DevboxLost", "the devbox of the trial is not known")
        return self.devbox

    @property
    def working_directory(self) -> str:
        """Where the agent begins."""
        home = self.the_devbox.purpose.home if self.the_devbox.purpose else None
        return self.cast.scenario.working_directory or home or usual_home(self.user)

    @property
    def is_scored(self) -> bool:
        """Whether an earlier server got as far as a score: then nothing is left to be done in the devbox."""
        return self.run is not None and (self.run.result is not None or self.run.state is RunState.SCORING)

    def task(self) -> Task:
        """The scenario as the agent is told of it."""
        scenario = self.cast.scenario
        return Task(
            prompt=prompt_of(scenario),
            working_directory=self.working_directory,
            scenario=scenario.view(),
            user=self.user,
            model=self.config.model_name,
            access=self._access(),
            is_online=self.trial.network == "open",
        )

    def _access(self) -> ModelAccess | None:
        route = self.cast.route
        return self.desk.access.told(self.trial, self.the_devbox.id, route) if route else None

    def launch(self) -> Launch | None:
        """How the agent is started; None where nothing is."""
        return self.cast.agent.launch(self.task())

    @contextlib.asynccontextmanager
    async def stage(self, name: str, state: TrialState) -> AsyncIterator[None]:
        """A stage: shown while it lasts, noted when it is over."""
        self.stage_name = name
        begun = now_ms()
        changes: dict[str, object] = {"state": state}
        if self.trial.start_time_ms is None:
            changes["start_time_ms"] = begun
        self.note(**changes)
        self.desk.ledger.soon(self.trial)
        yield
        over = Stage(name=name, start_ms=begun, end_ms=max(begun, now_ms()))
        # A trial that is taken up again goes through its stages again, and finds them done.
        stages = [each for each in self.trial.stages if each.name != name]
        self.note(stages=[*stages, over])

    def note(self, **changes: object) -> None:
        """Note what a stage led to; it is kept with the next change of the trial's state."""
        self.trial = self.trial.model_copy(update=changes)
        self._on_change(self.trial)

    def completed(self, result: ContractResult) -> Trial:
        """The trial with its score."""
        usage = self.trial.usage or (self.run.usage if self.run else {})
        scored = {
            "score": result.score,
            "scored_revision": result.scenario_revision,
            "scoring_network": result.network,
        }
        return self._ended(_over(self.trial, state=TrialState.COMPLETED, usage=usage, **scored))

    def failed(self, failure: TrialFailed) -> Trial:
        """The trial without a score, and why."""
        return self._ended(failed(self.trial, failure, self.stage_name or None))

    def _ended(self, trial: Trial) -> Trial:
        self.trial = trial
        self._on_change(trial)
        return trial


async def scrubber(way: Way) -> Scrubber:
    """What knows the secrets of a trial, those that only the gateway was told too."""
    environment = way.config.agent_environment
    names = [*((environment and environment.secrets) or {}).values()]
    if way.cast.route is not None and way.cast.route.secret is not None:
        # Nobody has to name it: it may be one that the server keeps for all jobs.
        names.append(way.cast.route.secret)
    return await scrubber_of(way.desk.tools, way.trial.devbox_id or "", names)


def failed(trial: Trial, failure: TrialFailed, stage: str | None = None) -> Trial:
    """A trial that is over without a score, and why."""
    states = {"timeout": TrialState.TIMEOUT, "cancelled": TrialState.CANCELED}
    state = states.get(failure.kind, TrialState.FAILED)
    return _over(trial, state=state, failure=failure.reason(stage))


def canceled(trial: Trial, failure: TrialFailed) -> Trial:
    """A trial that somebody ended."""
    end = max(trial.start_time_ms or 0, now_ms())
    changes = {"failure": failure.reason(None), "end_time_ms": end, "state": "canceled"}
    return Trial.model_validate({**trial.model_dump(), **changes})


def _over(trial: Trial, **changes: object) -> Trial:
    begun = trial.start_time_ms or now_ms()
    # A clock that was set back must not make it end before it began.
    times = {"start_time_ms": begun, "end_time_ms": max(begun, now_ms())}
    return trial.model_copy(update={**times, **changes})


def prompt_of(scenario: Scenario) -> str:
    """What an agent is told: the problem statement, and the additional context where there is some."""
    told = scenario.input_context
    if not told.additional_context:
        return told.problem_statement
    context = told.model_dump_json(include={"additional_context"}, indent=2)
    return f"{told.problem_statement}\n\n## Additional context\n\n```json\n{context}\n```\n"
