"""Context of one trial: its agent and scenario, its round, and the results of its stages so far."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from benchyard.agents.base import Agent, Launch, Task
from benchyard.devboxes.base import HostFolder
from benchyard.engine.agents.service import Agents
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.boot import usual_home
from benchyard.engine.devboxes.secrets import scrubber_of
from benchyard.engine.jobs.failures import TrialFailed
from benchyard.engine.jobs.model_access import TrialModelAccess
from benchyard.engine.jobs.store import JobStore
from benchyard.engine.network.model_routes import ModelKeys, ModelRoute
from benchyard.engine.redaction import Scrubber
from benchyard.engine.runs.scenario_runs import ScenarioRuns
from benchyard.engine.scenarios.scenarios import Scenarios
from benchyard.engine.trajectories.traces import Traces
from benchyard.errors import NotFound, UsageError
from benchyard.models.devboxes import Devbox
from benchyard.models.jobs import AgentConfig, Job
from benchyard.models.runs import ContractResult, RunState, ScenarioRun
from benchyard.models.scenarios import Scenario, of_round
from benchyard.models.trials import EndedBy, Stage, Trial, TrialRound, TrialState

AGENT_EXECUTION = "agent"
"""Id of the agent's execution; a later round adds its number."""
AGENT_SECONDS_DEFAULT = 7200.0
_LEAST_SECONDS = 1.0
"""Least time, in seconds, for a further try."""


@dataclass(frozen=True)
class TrialInputs:
    """Agent, scenario and model of one trial."""

    job: Job
    scenario: Scenario
    """The revision with which the job began."""
    agent: Agent[Any]
    shown: tuple[HostFolder, ...]
    """Folders of the host that the agent's devbox must show."""
    route: ModelRoute | None = None
    """Route to its model; None for an agent that does not use the gateway."""


class TrialContext:
    """A trial in one of its rounds, and the results of its stages so far; most trials have one round."""

    def __init__(
        self,
        tools: EngineContext,
        runs: ScenarioRuns,
        traces: Traces,
        job_store: JobStore,
        access: TrialModelAccess,
        inputs: TrialInputs,
        trial: Trial,
        on_change: Callable[[Trial], None],
    ) -> None:
        self.tools = tools
        self.runs = runs
        self.traces = traces
        self.job_store = job_store
        self.access = access
        self.inputs = inputs
        self.trial = trial
        self._on_change = on_change
        self.is_fresh = trial.start_time_ms is None
        """True if no earlier server has begun the trial: then there is no earlier work to find."""
        self.devbox: Devbox | None = None
        self.stage_name = ""
        self.run: ScenarioRun | None = None
        self.last_error: str | None = None
        """Error of the agent's last model call."""
        self.round = 1
        self.scenario = of_round(inputs.scenario, 1)
        """The scenario as it is in this round."""
        self.ended_by: EndedBy | None = self._known_end()
        """Reason of the agent's end in this round."""
        self.waited_ms = 0.0
        """Time that the agent waited for its provider in earlier rounds."""

    @property
    def config(self) -> AgentConfig:
        """Return the job's configuration of the agent."""
        return self.inputs.job.spec.agent_configs[self.trial.agent]

    @property
    def multiplier(self) -> float:
        """Return the factor for all time limits."""
        return self.inputs.job.orchestrator.multiplier

    @property
    def is_scored(self) -> bool:
        """Tell whether an earlier server got as far as scoring this round, which ends its work."""
        run = self.run
        if run is None or run.round != self.round:
            return run is not None and run.round > self.round
        return run.result_of(self.round) is not None or run.state is RunState.SCORING

    def in_round(self, name: str) -> str:
        """Return the name of a thing in this round that exists in every round."""
        return name if self.round == 1 else f"{name}-{self.round}"

    @property
    def is_shared(self) -> bool:
        """Tell whether all rounds share the agent's time: tries do, but each step has its own."""
        return not self.inputs.scenario.steps

    def goes_on(self) -> bool:
        """Tell whether another round follows; no further try does without time or money."""
        if self.run is None or self.round >= self.inputs.scenario.n_rounds:
            return False
        if self.run.round > self.round or self.run.next_round is None:
            return self.run.round > self.round
        waited = self.trial.usage.get("rate_limited_ms", 0.0) / 1000
        is_over = self.ended_by or self._seconds_after(self.round) + waited < _LEAST_SECONDS
        return not (self.is_shared and is_over)

    def agent_seconds(self) -> float:
        """Return the agent's seconds in this round: for tries, the rest of their common time."""
        return self._seconds_after(self.round - 1) if self.is_shared else self.limit_of(self.scenario)

    def _seconds_after(self, number: int) -> float:
        worked = sum(each.agent_ms for each in self.trial.rounds if each.number <= number)
        return self.limit_of(self.scenario) - worked / 1000

    def limit_of(self, scenario: Scenario) -> float:
        """Return the shorter time limit of scenario and job, times the multiplier."""
        limits = [
            each for each in (scenario.agent_timeout_sec, self.config.timeout_seconds) if each is not None
        ]
        return min(limits, default=AGENT_SECONDS_DEFAULT) * self.multiplier

    def _known_end(self) -> EndedBy | None:
        """Return the agent's end in this round as an earlier server stored it."""
        if self.inputs.scenario.n_rounds == 1:
            return self.trial.ended_by
        return next((each.ended_by for each in self.trial.rounds if each.number == self.round), None)

    def next_round(self) -> None:
        """Go on to the next round."""
        self.round += 1
        self.scenario = of_round(self.inputs.scenario, self.round)
        self.ended_by, self.last_error = self._known_end(), None
        self.waited_ms = self.trial.usage.get("rate_limited_ms", 0.0)

    def note(self, **changes: object) -> None:
        """Note results of a stage; stored with the next change of the trial's state."""
        self.trial = self.trial.model_copy(update=changes)
        self._on_change(self.trial)

    def note_round(self, **changes: object) -> None:
        """Note facts about this round; does nothing if there is only one."""
        if self.inputs.scenario.n_rounds == 1:
            return
        steps = self.inputs.scenario.steps
        known = {each.number: each for each in self.trial.rounds}
        fresh = TrialRound(number=self.round, name=steps[self.round - 1].name if steps else None)
        known[self.round] = known.get(self.round, fresh).model_copy(update=changes)
        self.note(rounds=[known[number] for number in sorted(known)])

    def end_by(self, reason: EndedBy) -> None:
        """Note the reason of the agent's end in this round."""
        self.ended_by = reason
        self.note(ended_by=reason)
        self.note_round(ended_by=reason)

    @property
    def user(self) -> str:
        """Return the user of the devbox."""
        return self.the_devbox.launch_parameters.username

    @property
    def the_devbox(self) -> Devbox:
        """Return the devbox of the trial; only valid after its start."""
        if self.devbox is None:
            raise TrialFailed("infrastructure", "DevboxLost", "the devbox of the trial is not known")
        return self.devbox

    @property
    def working_directory(self) -> str:
        """Return the directory that the agent starts in."""
        home = self.the_devbox.purpose.home if self.the_devbox.purpose else None
        return self.inputs.scenario.working_directory or home or usual_home(self.user)

    def task(self) -> Task:
        """Return the task for the agent."""
        continues = self.round > 1 and self.is_shared and self.inputs.agent.can_continue
        route = self.inputs.route
        return Task(
            prompt=self._prompt(continues=continues),
            working_directory=self.working_directory,
            scenario=self.scenario.view(),
            round=self.round,
            continues=continues,
            user=self.user,
            model=self.config.model_name,
            access=self.access.agent_access(self.trial, self.the_devbox.id, route) if route else None,
            is_online=self.trial.network == "open",
        )

    def _prompt(self, *, continues: bool) -> str:
        """Return the prompt; without a conversation to continue, a further try repeats the whole task."""
        prompt = prompt_of(self.scenario)
        following = self.run.next_round if self.run else None
        if self.round == 1 or not self.is_shared or following is None:
            return prompt
        return following.problem_statement if continues else f"{prompt}\n\n{following.problem_statement}"

    def launch(self) -> Launch | None:
        """Return the agent's launch; None if there is no program to start."""
        return self.inputs.agent.launch(self.task())

    @contextlib.asynccontextmanager
    async def stage(self, name: str, state: TrialState) -> AsyncIterator[None]:
        """Run a stage within this context: shown while it lasts, stored at its end."""
        name = self.in_round(name)
        self.stage_name = name
        begun = now_ms()
        changes: dict[str, object] = {"state": state}
        if self.trial.start_time_ms is None:
            changes["start_time_ms"] = begun
        self.note(**changes)
        self.job_store.soon(self.trial)
        yield
        over = Stage(name=name, start_ms=begun, end_ms=max(begun, now_ms()))
        # A resumed trial goes through its stages again, and finds them done.
        stages = [each for each in self.trial.stages if each.name != name]
        self.note(stages=[*stages, over])

    def with_score(self, result: ContractResult) -> Trial:
        """Return the trial with its score."""
        usage = self.trial.usage or (self.run.usage if self.run else {})
        scored = {
            "score": result.score,
            "rewards": result.rewards,
            "suspicions": result.suspicions,
            "conditions": list(dict.fromkeys([*self.trial.conditions, *result.conditions])),
            "scored_revision": result.scenario_revision,
            "answer_failure": result.answer_failure,
            "scorer_note": result.scorer_note,
            "scoring_network": result.network,
            "isolation": result.isolation,
            "isolation_reason": result.isolation_reason,
        }
        return self._end(_ended_trial(self.trial, state=TrialState.COMPLETED, usage=usage, **scored))

    def with_failure(self, failure: TrialFailed) -> Trial:
        """Return the trial without a score, with its failure."""
        return self._end(failed_trial(self.trial, failure, self.stage_name or None))

    def _end(self, trial: Trial) -> Trial:
        self.trial = trial
        self._on_change(trial)
        return trial


async def trial_scrubber(context: TrialContext) -> Scrubber:
    """Return a scrubber for the secrets of a trial, also for those that only the gateway had."""
    environment = context.config.agent_environment
    names = [*((environment and environment.secrets) or {}).values()]
    if context.inputs.route is not None and context.inputs.route.secret is not None:
        # The job need not name this secret: the server may keep it for all jobs.
        names.append(context.inputs.route.secret)
    return await scrubber_of(context.tools, context.trial.devbox_id or "", names)


def failed_trial(trial: Trial, failure: TrialFailed, stage: str | None = None) -> Trial:
    """Return a trial that ended without a score, with its failure."""
    states = {"timeout": TrialState.TIMEOUT, "cancelled": TrialState.CANCELED}
    state = states.get(failure.kind, TrialState.FAILED)
    return _ended_trial(trial, state=state, failure=failure.reason(stage))


def canceled_trial(trial: Trial, failure: TrialFailed) -> Trial:
    """Return a trial that was canceled."""
    end = max(trial.start_time_ms or 0, now_ms())
    changes = {"failure": failure.reason(None), "end_time_ms": end, "state": "canceled"}
    return Trial.model_validate({**trial.model_dump(), **changes})


def _ended_trial(trial: Trial, **changes: object) -> Trial:
    begun = trial.start_time_ms or now_ms()
    # The end is never before the beginning, even if the clock was set back.
    times = {"start_time_ms": begun, "end_time_ms": max(begun, now_ms())}
    return trial.model_copy(update={**times, **changes})


def prompt_of(scenario: Scenario) -> str:
    """Return the prompt for an agent: the problem statement and any additional context."""
    inputs = scenario.input_context
    if not inputs.additional_context:
        return inputs.problem_statement
    context = inputs.model_dump_json(include={"additional_context"}, indent=2)
    return f"{inputs.problem_statement}\n\n## Additional context\n\n```json\n{context}\n```\n"


async def inputs_of_trial(
    job: Job, trial: Trial, scenarios: Scenarios, agents: Agents, keys: ModelKeys
) -> TrialInputs:
    """Return the inputs of a trial; raises TrialFailed if its agent is gone."""
    scenario = await scenarios.at(trial.scenario_id, job.scenario_revisions[trial.scenario])
    choice = job.choices[trial.agent]
    try:
        agent, shown = await agents.ready(choice)
    except NotFound as error:
        message = f"agent {choice.name!r} ({choice.agent_id}) was deleted while the job ran"
        raise TrialFailed("infrastructure", "AgentGone", message) from error
    try:
        route = await keys.route(agent, job.spec.agent_configs[trial.agent])
    except UsageError as error:
        # The secret existed when the job was created.
        raise TrialFailed("infrastructure", "SecretGone", error.message) from error
    return TrialInputs(job, scenario, agent, shown, route)
