"""How a job is carried out: how often, how many at once, how long, and for how much."""

from typing import Annotated

from pydantic import Field

from benchyard.models.base import Model, WireBool, WireFloat, WireInt
from benchyard.models.budgets import Budget
from benchyard.models.trials import SuspectRule

MOST_ATTEMPTS = 1_000
MOST_CONCURRENT = 10_000
MOST_SECONDS = 30 * 24 * 3600
RETRIES_DEFAULT = 2
RATE_LIMIT_SECONDS = 600.0

Seconds = Annotated[WireFloat, Field(gt=0, le=MOST_SECONDS)]


class OrchestratorConfig(Model):
    """How a job is carried out; from `max_retries` on these are extensions."""

    n_concurrent_trials: Annotated[WireInt, Field(ge=1, le=MOST_CONCURRENT)] | None = None
    n_attempts: Annotated[WireInt, Field(ge=0, le=MOST_ATTEMPTS)] | None = None
    timeout_multiplier: Annotated[WireFloat, Field(gt=0, le=1000)] | None = None
    quiet: WireBool | None = None
    max_retries: Annotated[WireInt, Field(ge=0, le=20)] | None = None
    """How often a trial is begun again after a failure of the infrastructure."""
    deadline_seconds: Seconds | None = None
    """Of the whole job."""
    trial_budget: Budget | None = None
    """What each trial may use of models; the agent is refused more, and what it left is scored."""
    job_budget: Budget | None = None
    """What all trials of the job may use together."""
    rate_limit_seconds: Annotated[WireFloat, Field(ge=0, le=MOST_SECONDS)] | None = None
    """How long the gateway may wait for a provider in one trial; its agent has so much longer."""

    suspect: SuspectRule | None = None
    """What becomes of suspect scores: `keep` and mark them, count them as `zero`, or `fail` the gate."""

    @property
    def suspect_rule(self) -> SuspectRule:
        """What becomes of suspect scores."""
        return self.suspect or "keep"

    @property
    def attempts(self) -> int:
        """How often each agent tries each scenario."""
        return self.n_attempts or 1

    @property
    def concurrency(self) -> int:
        """How many trials of the job may run at the same time."""
        return self.n_concurrent_trials or 1

    @property
    def multiplier(self) -> float:
        """What every limit of time is multiplied by."""
        return self.timeout_multiplier or 1.0

    @property
    def waits(self) -> float:
        """How many seconds a trial may wait for providers that say to come back later."""
        return RATE_LIMIT_SECONDS if self.rate_limit_seconds is None else self.rate_limit_seconds

    @property
    def retries(self) -> int:
        """How often the infrastructure may fail a trial before that is its result."""
        return RETRIES_DEFAULT if self.max_retries is None else self.max_retries
