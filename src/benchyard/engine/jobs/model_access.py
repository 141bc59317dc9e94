"""A trial's access to its model: a door of its devbox, a token valid only there, and a budget."""

import logging
from collections.abc import Collection, Iterable

from benchyard.agents.base import ModelAccess
from benchyard.engine.background import retry_store
from benchyard.engine.clock import now_ms
from benchyard.engine.context import EngineContext
from benchyard.engine.devboxes.secrets import note_given_values
from benchyard.engine.jobs.failures import TrialFailed
from benchyard.engine.network.gateway_access import url_of
from benchyard.engine.network.model_routes import ModelKeys, ModelRoute
from benchyard.engine.runs.model_access import ModelSpending, gateway_budget
from benchyard.engine.scenarios.scenarios import Scenarios
from benchyard.errors import BenchyardError, NotFound
from benchyard.gateway.grants import Grant, GrantBudget
from benchyard.models.jobs import Job
from benchyard.models.model_access import Budget as AskedBudget
from benchyard.models.trials import Trial

TOKEN_PREFIX = "gws_"  # noqa: S105  (prefix of tokens)
_SLACK_MS = 3_600_000
"""Validity of a token beyond the agent's time, in case no server is there to end it."""

_log = logging.getLogger(__name__)


class TrialModelAccess:
    """Gives trials access to models, and ends it."""

    def __init__(
        self, tools: EngineContext, spending: ModelSpending, keys: ModelKeys, scenarios: Scenarios
    ) -> None:
        self.tools = tools
        self.spending = spending
        self.grants = spending.grants
        self.scenarios = scenarios
        self.keys = keys

    def agent_access(self, trial: Trial, devbox_id: str, route: ModelRoute) -> ModelAccess:
        """Return the agent's model access: always the same, whether the door is open or not."""
        url = url_of(devbox_id, route.provider)
        return ModelAccess(url, self._token(trial), route.provider, route.model, route.variable)

    async def open(self, job: Job, trial: Trial, devbox_id: str, route: ModelRoute, seconds: float) -> None:
        """Open the door for an agent with this much time; a second call keeps it open."""
        config, orchestrator = job.spec.agent_configs[trial.agent], job.orchestrator
        try:
            upstream = await retry_store(self.keys.upstream, route, config.base_url)
        except NotFound as error:
            raise TrialFailed("infrastructure", "SecretGone", error.message) from error
        grant = Grant(
            id=trial.id,
            token=self._token(trial),
            devbox_id=devbox_id,
            upstreams={route.provider: upstream},
            expires_ms=now_ms() + int((seconds + orchestrator.waits) * 1000) + _SLACK_MS,
            group=job.id,
            budget=gateway_budget(orchestrator.trial_budget),
            group_budget=_remaining_budget(gateway_budget(orchestrator.job_budget), job.spent),
            wait_seconds=orchestrator.waits,
            logprobs=bool(config.logprobs),
        )
        devbox = await retry_store(self.tools.live_devboxes.get, devbox_id)
        # Recorded before the token is used, so that it is removed from all stored output.
        await note_given_values(self.tools, devbox, [grant.token])
        await self.grants.open(grant)

    async def end(self, trial: Trial) -> None:
        """End the token of a trial that is over."""
        if not self.grants.knows(trial.id):
            return
        try:
            await self.grants.close(trial.id)
        except BenchyardError as error:
            # A gateway that does not answer lets no calls through either.
            _log.warning("trial %s: its token could not be ended: %s", trial.id, error)

    async def clear(self, trials: Iterable[Trial], running: Collection[str]) -> None:
        """Close what an earlier server left open: grants of other trials, and doors of lost devboxes."""
        await self.grants.clear({trial.id for trial in trials if not trial.has_ended}, running)

    async def forget(self, trials: Iterable[Trial]) -> None:
        """Remove the gateway's records of an ended job: its budget is settled, and runs have copies."""
        for trial in trials:
            try:
                await self.grants.forget(trial.id)
            except BenchyardError as error:
                # The end of the job must not wait for that.
                _log.warning("trial %s: the record of its calls could not be removed: %s", trial.id, error)

    def _token(self, trial: Trial) -> str:
        return TOKEN_PREFIX + self.tools.vault.derive("gateway-tokens", trial.id).hex()


def _remaining_budget(budget: GrantBudget, spent: AskedBudget) -> GrantBudget:
    """Return the rest of a job's budget; no dollars if the costs so far are unknown."""
    if spent == AskedBudget():
        return budget
    dollars = budget.usd
    if dollars is not None:
        dollars = 0.0 if spent.usd is None else max(0.0, dollars - spent.usd)
    requests = None if budget.requests is None else max(0, budget.requests - (spent.requests or 0))
    tokens = None if budget.tokens is None else max(0, budget.tokens - (spent.tokens or 0))
    return GrantBudget(requests, tokens, dollars)


def budget_spent(trials: Iterable[Trial]) -> AskedBudget:
    """Return the total spending of trials whose records at the gateway are gone."""
    trials = list(trials)
    used = [trial.usage for trial in trials if _requests(trial)]
    costs = [each.get("cost_usd") for each in used]
    known = [cost for cost in costs if cost is not None]
    return AskedBudget(
        requests=sum(map(_requests, trials)),
        tokens=int(sum(each.get("input_tokens", 0) + each.get("output_tokens", 0) for each in used)),
        usd=sum(known) if len(known) == len(costs) else None,
    )


def _requests(trial: Trial) -> int:
    """Return the number of a trial's requests; earlier servers counted calls of models only."""
    return int(trial.usage.get("requests", trial.usage.get("model_calls", 0)))
