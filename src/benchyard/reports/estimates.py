"""Estimates of a job's cost from the last jobs with the same agent, model and benchmark or scenarios."""

from collections.abc import Iterable, Sequence

from benchyard.models.job_plans import JobPlanView, PastCost, PlannedAgent
from benchyard.models.jobs import BenchmarkJobView

_MOST_JOBS = 3


def with_costs(plan: JobPlanView, past: Iterable[BenchmarkJobView]) -> JobPlanView:
    """Return the plan with its agents' costs in earlier jobs (newest first), and the estimate from them."""
    jobs = [job for job in past if _is_alike(plan, job)]
    agents = [agent.model_copy(update={"past_cost": _past_cost(agent, jobs)}) for agent in plan.agents]
    trials = plan.n_scenarios * plan.n_attempts
    costs = [0.0 if not agent.asks_models else _usd(agent) for agent in agents]
    known = [cost for cost in costs if cost is not None]
    is_asked = any(agent.asks_models for agent in agents)
    total = sum(known) * trials if is_asked and len(known) == len(costs) else None
    return plan.model_copy(update={"agents": agents, "estimated_cost_usd": total})


def _usd(agent: PlannedAgent) -> float | None:
    return agent.past_cost.usd_per_trial if agent.past_cost else None


def _is_alike(plan: JobPlanView, job: BenchmarkJobView) -> bool:
    if plan.benchmark_id is not None and job.job_source.benchmark_id == plan.benchmark_id:
        return True
    return not {scenario.id for scenario in plan.scenarios}.isdisjoint(job.job_spec.scenario_ids)


def _past_cost(agent: PlannedAgent, jobs: Sequence[BenchmarkJobView]) -> PastCost | None:
    """Return the mean over the last few jobs with the agent; its version may differ."""
    costs: list[tuple[str, float, int]] = []
    for job in jobs:
        for outcome in job.benchmark_outcomes:
            counts = outcome.attempts
            if counts.crashed + counts.unscored and not counts.passed + counts.not_passed:
                # Where every trial broke off, the costs are not representative.
                continue
            is_same = (outcome.agent_name, outcome.model_name) == (agent.name, agent.model_name)
            if is_same and outcome.usage.get("model_calls") and "cost_usd" in outcome.usage:
                costs.append((job.id, outcome.usage["cost_usd"], max(1, outcome.n_trials)))
        if len(costs) >= _MOST_JOBS:
            break
    if not costs:
        return None
    n_trials = sum(count for _, _, count in costs)
    return PastCost(
        usd_per_trial=sum(cost for _, cost, _ in costs) / n_trials,
        n_trials=n_trials,
        job_ids=list(dict.fromkeys(id for id, _, _ in costs)),
    )
