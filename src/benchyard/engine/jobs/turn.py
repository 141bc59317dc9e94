"""The round that a trial is in: how long its agent has, what is known of it, and whether another follows."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchyard.agents.base import Agent
from benchyard.devboxes.base import Shown
from benchyard.engine.model_keys import Route
from benchyard.models.jobs import AgentConfig, Job
from benchyard.models.runs import RunState, ScenarioRun
from benchyard.models.scenarios import Scenario, of_round
from benchyard.models.trials import EndedBy, Trial, TrialRound

AGENT_EXECUTION = "agent"
"""The id of the agent's execution; in later rounds with their number behind it."""
AGENT_SECONDS_DEFAULT = 7200.0
_LEAST_SECONDS = 1.0
"""With less time than that nobody tries again."""


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


class Turn:
    """A trial in one of its rounds; most have but one."""

    def __init__(self, cast: Cast, trial: Trial, on_change: Callable[[Trial], None]) -> None:
        self.cast = cast
        self.trial = trial
        self._on_change = on_change
        self.run: ScenarioRun | None = None
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
    def is_scored(self) -> bool:
        """Whether an earlier server got as far as a score: then this round has nothing left to be done."""
        run = self.run
        if run is None or run.round != self.round:
            return run is not None and run.round > self.round
        return run.result_of(self.round) is not None or run.state is RunState.SCORING

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
