"""The plan of a job: its trials, and all that is missing for it, known before anything is started."""

from pydantic import Field

from benchyard.models.agents import SourceType
from benchyard.models.base import Model, ShortText
from benchyard.models.jobs import JobRequest
from benchyard.models.model_access import Budget


class JobPlanRequest(JobRequest):
    """The body of a create call that creates nothing."""

    pending_secrets: list[ShortText] | None = Field(default=None, max_length=100)
    """Names of secrets that the caller will create before the job."""


class PastCost(Model):
    """The cost of a trial of the same agent, model and benchmark in earlier jobs."""

    usd_per_trial: float
    n_trials: int
    """Number of trials that the mean is taken over."""
    job_ids: list[str]


class PlannedAgent(Model):
    """An agent as a job would run it."""

    name: str
    version: str | None = None
    model_name: str | None = None
    timeout_seconds: float | None = None
    """Time of the agent for a scenario, multiplier included; a scenario's own limit may be shorter."""
    source: SourceType | None = None
    """The kind of source it is installed from; None if it is a part of the server."""
    is_installed: bool = True
    problem: str | None = None
    """The reason why it cannot be installed here."""
    asks_models: bool = False
    past_cost: PastCost | None = None
    """None if there is no earlier job to compare with."""

    @property
    def label(self) -> str:
        """Return its name for people: `agent@version:model`."""
        version = f"@{self.version}" if self.version else ""
        model = f":{self.model_name}" if self.model_name else ""
        return f"{self.name}{version}{model}"


class PlannedScenario(Model):
    """A scenario that would be run."""

    id: str
    name: str


class PlannedImage(Model):
    """An image that would have to be made first."""

    what: str
    """A description such as `building environment-12ab from python:3.12`."""
    n_scenarios: int


class JobPlanView(Model):
    """The plan of a job; nothing of it is stored."""

    name: str
    benchmark_id: str | None = None
    benchmark_name: str | None = None
    n_scenarios: int
    n_agents: int
    n_attempts: int
    n_trials: int
    n_concurrent_trials: int
    scenarios: list[PlannedScenario]
    agents: list[PlannedAgent]
    missing_images: list[PlannedImage] = Field(default_factory=list)
    trial_budget: Budget | None = None
    job_budget: Budget | None = None
    deadline_seconds: float | None = None
    max_retries: int = 0
    estimated_cost_usd: float | None = None
    """Cost of the whole job, estimated from earlier trials; None if that is not known of every agent."""

    @property
    def count_line(self) -> str:
        """Return the product as text: `12 scenarios x 3 agents x 4 attempts = 144 trials`."""
        return count_line(self.n_scenarios, self.n_agents, self.n_attempts)


def count_line(scenarios: int, agents: int, attempts: int) -> str:
    """Return the product as text: `12 scenarios x 3 agents x 4 attempts = 144 trials`."""
    parts = [count_text(scenarios, "scenario"), count_text(agents, "agent"), count_text(attempts, "attempt")]
    return f"{' x '.join(parts)} = {count_text(scenarios * agents * attempts, 'trial')}"


def count_text(number: int, noun: str) -> str:
    """Return a number with its noun: `1 trial`, `2 trials`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
