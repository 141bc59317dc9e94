"""What a job would be, for people: counted, with what is missing, limits, and what the like cost before."""

from benchyard.cli.notices import tell
from benchyard.cli.render import clean, duration, facts, hanging
from benchyard.client.client import Client
from benchyard.errors import NotFound
from benchyard.models.agents import origin
from benchyard.models.budgets import Budget
from benchyard.models.job_plans import JobPlanView, PlannedAgent, counted
from benchyard.models.jobs import JobRequest

_MOST_NAMES = 20
_MOST_IMAGES = 10


def announce(client: Client, request: JobRequest) -> None:
    """Say on stderr how many trials a job has, and what has to be made for it, before it is started."""
    try:
        plan = client.jobs.plan(request)
    except NotFound:
        # A server of another make does not know how to tell.
        return
    tell(f"{plan.count_line}")
    for line in _missing(plan):
        tell(f"{line}")


def described(plan: JobPlanView, pending_secrets: list[str]) -> str:
    """A plan in full."""
    names = [clean(each.name) for each in plan.scenarios]
    more = [f"... and {len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    told = facts(
        {
            "would run": plan.count_line,
            "name": plan.name,
            "benchmark": plan.benchmark_name or plan.benchmark_id,
            "at the same time": counted(plan.n_concurrent_trials, "trial"),
            "job budget": _budget(plan.job_budget),
            "trial budget": _budget(plan.trial_budget),
            "deadline": None if plan.deadline_seconds is None else _seconds(plan.deadline_seconds),
            "cost": _cost(plan),
        }
    )
    lines = [told, "", "agents:"]
    for each in plan.agents:
        first, *rest = hanging(_agent(each), 4)
        lines += [f"  {first}", *rest]
    lines += ["", *(_missing(plan) or ["nothing has to be installed or built first"])]
    lines += [f"the secret {name} would be made of your {name.partition('_')[2]}" for name in pending_secrets]
    lines += ["", "scenarios:", *(f"  {name}" for name in [*names[:_MOST_NAMES], *more])]
    return "\n".join([*lines, "", "nothing was started"])


def _agent(agent: PlannedAgent) -> str:
    limit = agent.timeout_seconds
    parts = [
        clean(agent.label),
        "" if limit is None else f"{_seconds(limit)} for each scenario",
        _past(agent),
    ]
    return ", ".join(part for part in parts if part)


def _past(agent: PlannedAgent) -> str:
    if not agent.asks_models:
        return ""
    past = agent.past_cost
    if past is None:
        return "cost unknown"
    basis = f"{counted(past.n_trials, 'trial')} of {', '.join(past.job_ids)}"
    return f"${past.usd_per_trial:.4f} for each trial by {basis}"


def _cost(plan: JobPlanView) -> str | None:
    asking = [each for each in plan.agents if each.asks_models]
    if not asking:
        return None
    if plan.estimated_cost_usd is not None:
        return f"about ${plan.estimated_cost_usd:.2f}, by the last jobs like it"
    unknown = [clean(each.label) for each in asking if each.past_cost is None]
    return f"unknown: no earlier job tells what {', '.join(unknown)} costs on these scenarios"


def _missing(plan: JobPlanView) -> list[str]:
    """What has to be installed and built first, one line each."""
    lines = []
    for each in {each.label.partition(":")[0]: each for each in plan.agents}.values():
        label = clean(f"{each.name}@{each.version}" if each.version else each.name)
        if each.problem:
            lines.append(f"{label} cannot be installed: {clean(each.problem)}")
        elif not each.is_installed:
            lines.append(f"{label} has to be installed first, from {origin(each.source)}")
    for image in plan.missing_images[:_MOST_IMAGES]:
        users = counted(image.n_scenarios, "scenario")
        lines.append(f"an image has to be made first: {clean(image.what)}, for {users}")
    if len(plan.missing_images) > _MOST_IMAGES:
        lines.append(f"... and {counted(len(plan.missing_images) - _MOST_IMAGES, 'more image')}")
    return lines


def _budget(budget: Budget | None) -> str | None:
    if budget is None:
        return None
    parts = [
        f"${budget.usd:g}" if budget.usd is not None else "",
        counted(budget.tokens, "token") if budget.tokens is not None else "",
        counted(budget.requests, "request") if budget.requests is not None else "",
    ]
    return ", ".join(part for part in parts if part) or None


def _seconds(seconds: float) -> str:
    return duration(round(seconds * 1000))
