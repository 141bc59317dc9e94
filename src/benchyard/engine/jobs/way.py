"""One trial on its way through its stages: what is known of it, and where it is."""

import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from benchyard.agents.base import Launch, ModelAccess, Task
from benchyard.engine.given_secrets import scrubber_of
from benchyard.engine.homes import usual_home
from benchyard.engine.jobs.access import Access
from benchyard.engine.jobs.failures import TrialFailed
from benchyard.engine.jobs.ledger import Ledger
from benchyard.engine.jobs.turn import Cast, Turn
from benchyard.engine.journal import now_ms
from benchyard.engine.runs.scenario_runs import ScenarioRuns
from benchyard.engine.runs.traces import Traces
from benchyard.engine.scrubbing import Scrubber
from benchyard.engine.tools import Tools
from benchyard.models.devboxes import Devbox
from benchyard.models.runs import ContractResult
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


class Way(Turn):
    """A trial and what its stages have led to so far."""

    def __init__(self, desk: Desk, cast: Cast, trial: Trial, on_change: Callable[[Trial], None]) -> None:
        super().__init__(cast, trial, on_change)
        self.desk = desk
        self.is_fresh = trial.start_time_ms is None
        """Whether no earlier server began with it: then there is nothing to be found."""
        self.devbox: Devbox | None = None
        self.stage_name = ""

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

    def completed(self, result: ContractResult) -> Trial:
        """The trial with its score."""
        usage = self.trial.usage or (self.run.usage if self.run else {})
        scored = {
            "score": result.score,
            "rewards": result.rewards,
            "suspicions": result.suspicions,
            "conditions": result.conditions,
            "scored_revision": result.scenario_revision,
            "answer_failure": result.answer_failure,
            "scorer_note": result.scorer_note,
            "scoring_network": result.network,
            "isolation": result.isolation,
            "isolation_reason": result.isolation_reason,
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
