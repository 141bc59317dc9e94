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
from benchyard.models.scenarios import Scenario, of_round
from benchyard.models.trials import EndedBy, Stage, Trial, TrialRound, TrialState

AGENT_EXECUTION = "agent"
"""The id of the agent's execution; in later rounds with their number behind it."""
AGENT_SECONDS_DEFAULT = 7200.0
_LEAST_SECONDS = 1.0
"""With less time than that nobody tries again."""


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
        self.round = 1
        self.scenario = of_round(cast.scenario, 1)
        """As it is in this round."""
        self.ended_by: EndedBy | None = self._known_end()
        """What ended the agent in this round."""
        self.waited_ms = 0.0
        """How long the agent waited for its provider in the rounds before."""

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
        """Whether an earlier server got as far as a score: then this round has nothing left to be done."""
        run = self.run
        if run is None or run.round != self.round:
            return run is not None and run.round > self.round
        return run.result_of(self.round) is not None or run.state is RunState.SCORING

    @property
    def execution(self) -> str:
        """The id of the agent's execution in this round."""
        return self.numbered(AGENT_EXECUTION)

    def numbered(self, name: str) -> str:
        """What something is called in this round that is there in each."""
        return name if self.round == 1 else f"{name}-{self.round}"

    @property
    def is_shared(self) -> bool:
        """Whether all rounds share the agent's time: tries do, and each step has its own."""
        return not self.cast.scenario.steps

    def goes_on(self) -> bool:
        """Whether another round follows; no further try does when the time or the money is gone."""
        if self.run is None or self.round >= self.cast.scenario.n_rounds:
            return False
        if self.run.round > self.round or self.run.next_round is None:
            return self.run.round > self.round
        waited = self.trial.usage.get("rate_limited_ms", 0.0) / 1000
        is_over = self.ended_by or self._seconds_after(self.round) + waited < _LEAST_SECONDS
        return not (self.is_shared and is_over)

    def agent_seconds(self) -> float:
        """How long the agent has in this round: of a time that tries share, what is left of it."""
        return self._seconds_after(self.round - 1) if self.is_shared else self.limit_of(self.scenario)

    def _seconds_after(self, number: int) -> float:
        worked = sum(each.agent_ms for each in self.trial.rounds if each.number <= number)
        return self.limit_of(self.scenario) - worked / 1000

    def limit_of(self, scenario: Scenario) -> float:
        """The scenario's limit of time or the job's, whichever is less, times the multiplier."""
        limits = [
            each for each in (scenario.agent_timeout_sec, self.config.timeout_seconds) if each is not None
        ]
        return min(limits, default=AGENT_SECONDS_DEFAULT) * self.multiplier

    def _known_end(self) -> EndedBy | None:
        """What an earlier server noted of this round."""
        if self.cast.scenario.n_rounds == 1:
            return self.trial.ended_by
        return next((each.ended_by for each in self.trial.rounds if each.number == self.round), None)

    def next_round(self) -> None:
        """Go on to the next round."""
        self.round += 1
        self.scenario = of_round(self.cast.scenario, self.round)
        self.ended_by, self.last_error = self._known_end(), None
        self.waited_ms = self.trial.usage.get("rate_limited_ms", 0.0)

    def task(self) -> Task:
        """The scenario as the agent is told of it."""
        continues = self.round > 1 and self.is_shared and self.cast.agent.can_continue
        return Task(
            prompt=self._prompt(continues=continues),
            working_directory=self.working_directory,
            scenario=self.scenario.view(),
            round=self.round,
            continues=continues,
            user=self.user,
            model=self.config.model_name,
            access=self._access(),
            is_online=self.trial.network == "open",
        )

    def _prompt(self, *, continues: bool) -> str:
        """Who cannot go on with a conversation is told in a further try what all of it is about."""
        told = prompt_of(self.scenario)
        following = self.run.next_round if self.run else None
        if self.round == 1 or not self.is_shared or following is None:
            return told
        return following.problem_statement if continues else f"{told}\n\n{following.problem_statement}"

    def _access(self) -> ModelAccess | None:
        route = self.cast.route
        return self.desk.access.told(self.trial, self.the_devbox.id, route) if route else None

    def launch(self) -> Launch | None:
        """How the agent is started; None where nothing is."""
        return self.cast.agent.launch(self.task())

    @contextlib.asynccontextmanager
    async def stage(self, name: str, state: TrialState) -> AsyncIterator[None]:
        """A stage: shown while it lasts, noted when it is over."""
        name = self.numbered(name)
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

    def note_round(self, **changes: object) -> None:
        """Note what is known of this round; nothing where there is but one."""
        if self.cast.scenario.n_rounds == 1:
            return
        steps = self.cast.scenario.steps
        known = {each.number: each for each in self.trial.rounds}
        fresh = TrialRound(number=self.round, name=steps[self.round - 1].name if steps else None)
        known[self.round] = known.get(self.round, fresh).model_copy(update=changes)
        self.note(rounds=[known[number] for number in sorted(known)])

    def end_by(self, reason: EndedBy) -> None:
        """Note what ended the agent in this round."""
        self.ended_by = reason
        self.note(ended_by=reason)
        self.note_round(ended_by=reason)

    def completed(self, result: ContractResult) -> Trial:
        """The trial with its score."""
        usage = self.trial.usage or (self.run.usage if self.run else {})
        scored = {
            "score": result.score,
            "rewards": result.rewards,
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
