"""What a job would be: counted, and with what is missing for it, before anything is started."""

from pydantic import Field

from benchyard.models.agents import SourceType
from benchyard.models.base import Model, ShortText
from benchyard.models.jobs import JobRequest
from benchyard.models.model_access import Budget


class JobPlanRequest(JobRequest):
    """The body of a create call that creates nothing."""

    pending_secrets: list[ShortText] | None = Field(default=None, max_length=100)
    """Secrets that the caller will make before the job is created."""


class PastCost(Model):
    """What a trial of the same agent, model and benchmark cost in earlier jobs."""

    usd_per_trial: float
    n_trials: int
    """How many trials that is the mean of."""
    job_ids: list[str]


class PlannedAgent(Model):
    """An agent as a job would run it."""

    name: str
    version: str | None = None
    model_name: str | None = None
    timeout_seconds: float | None = None
    """What it has for a scenario, already multiplied; a scenario's own limit may be shorter."""
    source: SourceType | None = None
    """Where it is installed from; None for one that is a part of the server."""
    is_installed: bool = True
    problem: str | None = None
    """Why it cannot be installed here."""
    asks_models: bool = False
    past_cost: PastCost | None = None
    """None where no earlier job tells."""

    @property
    def label(self) -> str:
        """What people call it: `agent@version:model`."""
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
    """In words: `building environment-12ab from python:3.12`."""
    n_scenarios: int


class JobPlanView(Model):
    """What a job would be; nothing is kept of it."""

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
    """Of the whole job, by what such trials cost before; None where that is not known of every agent."""

    @property
    def count_line(self) -> str:
        """`12 scenarios x 3 agents x 4 attempts = 144 trials`."""
        return count_line(self.n_scenarios, self.n_agents, self.n_attempts)


def count_line(scenarios: int, agents: int, attempts: int) -> str:
    """`12 scenarios x 3 agents x 4 attempts = 144 trials`."""
    parts = [count_text(scenarios, "scenario"), count_text(agents, "agent"), count_text(attempts, "attempt")]
    return f"{' x '.join(parts)} = {count_text(scenarios * agents * attempts, 'trial')}"


def count_text(number: int, noun: str) -> str:
    """`1 trial`, `2 trials`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
