"""`benchyard job run`: ask for a job or show its plan, and if wanted wait for its end."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.compare import MARGIN, find_pairs, print_gates, require_passed, require_side
from benchyard.cli.job.gates import (
    BELOW,
    INCONCLUSIVE,
    SUSPECT,
    UNFINISHED,
    UNSCORED,
    check_gates,
    exit_statuses,
    fail_under_option,
    max_unscored_option,
    require_good,
    suspect_option,
)
from benchyard.cli.job.names import find_job
from benchyard.cli.job.watch import require_scores, show_end, watch_to_end
from benchyard.cli.multi_value_options import SeveralCommand
from benchyard.cli.notices import tell
from benchyard.cli.options import FloatRange, IntRange, checked_input, name_values
from benchyard.cli.render import duration, facts, indented, output_option, show
from benchyard.client import job_request
from benchyard.client.client import Client
from benchyard.client.job_request import ATTEMPTS, CONCURRENT, MULTIPLIER, TIMEOUT_SECONDS, Body, ShortFlags
from benchyard.client.plain_text import clean
from benchyard.client.provider_keys import with_known_keys, with_pending_keys
from benchyard.errors import NotFound, UsageError
from benchyard.models.agents import origin
from benchyard.models.base import MAX_INT
from benchyard.models.comparisons import GateView
from benchyard.models.job_plans import JobPlanView, PlannedAgent, count_text
from benchyard.models.jobs import (
    MOST_ATTEMPTS,
    MOST_CONCURRENT,
    MOST_SECONDS,
    BenchmarkJobView,
    JobRequest,
    JobState,
)
from benchyard.models.model_access import Budget
from benchyard.reports.junit import junit

_MOST_NAMES = 20
_MOST_IMAGES = 10


def announce_plan(client: Client, request: JobRequest) -> None:
    """Tell on stderr the number of trials and the preparations of a job before it is started."""
    try:
        plan = client.jobs.plan(request)
    except NotFound:
        # Servers of other makes have no plans.
        return
    tell(f"{plan.count_line}")
    for line in _missing(plan):
        tell(f"{line}")


def plan_text(plan: JobPlanView, pending_secrets: list[str]) -> str:
    """Return a plan in full, as text."""
    names = [clean(each.name) for each in plan.scenarios]
    more = [f"... and {len(names) - _MOST_NAMES} more"] if len(names) > _MOST_NAMES else []
    told = facts(
        {
            "would run": plan.count_line,
            "name": plan.name,
            "benchmark": plan.benchmark_name or plan.benchmark_id,
            "at the same time": count_text(plan.n_concurrent_trials, "trial"),
            "job budget": _budget(plan.job_budget),
            "trial budget": _budget(plan.trial_budget),
            "deadline": None if plan.deadline_seconds is None else _seconds(plan.deadline_seconds),
            "cost": _cost(plan),
        }
    )
    lines = [told, "", "agents:"]
    for each in plan.agents:
        first, *rest = indented(_agent(each), 4)
        lines += [f"  {first}", *rest]
    lines += ["", *(_missing(plan) or ["nothing has to be installed or built first"])]
    lines += [f"the secret {name} would be made from ${name.partition('_')[2]}" for name in pending_secrets]
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
    basis = f"{count_text(past.n_trials, 'trial')} of {', '.join(past.job_ids)}"
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
    """Return the installs and builds that must come first, one line each."""
    lines = []
    for each in {each.label.partition(":")[0]: each for each in plan.agents}.values():
        label = clean(f"{each.name}@{each.version}" if each.version else each.name)
        if each.problem:
            lines.append(f"{label} cannot be installed: {clean(each.problem)}")
        elif not each.is_installed:
            lines.append(f"{label} has to be installed first, from {origin(each.source)}")
    for image in plan.missing_images[:_MOST_IMAGES]:
        users = count_text(image.n_scenarios, "scenario")
        lines.append(f"an image has to be made first: {clean(image.what)}, for {users}")
    if len(plan.missing_images) > _MOST_IMAGES:
        lines.append(f"... and {count_text(len(plan.missing_images) - _MOST_IMAGES, 'more image')}")
    return lines


def _budget(budget: Budget | None) -> str | None:
    if budget is None:
        return None
    parts = [
        f"${budget.usd:g}" if budget.usd is not None else "",
        count_text(budget.tokens, "token") if budget.tokens is not None else "",
        count_text(budget.requests, "request") if budget.requests is not None else "",
    ]
    return ", ".join(part for part in parts if part) or None


def _seconds(seconds: float) -> str:
    return duration(round(seconds * 1000))


_PAIRS = {
    "env_vars": "--env-vars",
    "secrets": "--secrets",
    "agent_kwargs": "--agent-kwargs",
    "trial_budget": "--trial-budget",
    "job_budget": "--job-budget",
    "metadata": "--metadata",
}
_BUDGET = "usd=N, tokens=N or requests=N"
_BUDGETS = ("trial_budget", "job_budget")
_LISTS = ("agents", "scenarios", "filter", "include", "exclude")
_SECRET_NAME = re.compile(r"(^|_)(API_?KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)


@click.command(
    cls=SeveralCommand,
    epilog=exit_statuses(
        *(0, UNFINISHED, 2, 4, BELOW, SUSPECT, UNSCORED, 130),
        note=", where it waits; else 0 at once",
    ),
)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="AGENT[@VERSION][:MODEL]",
    help="Agent to run; repeatable, each has results of its own.",
)
@click.option("--benchmark", metavar="ID|NAME", help="Run the scenarios of this benchmark.")
@click.option("--scenarios", multiple=True, metavar="ID...", help="Run these scenarios, by id or name.")
@click.option("-n", "--job-name", "name", help="Name of the job.")
@click.option("--metadata", multiple=True, metavar="KEY=VALUE...", help="Labels of the job.")
@click.option("--env-vars", multiple=True, metavar="NAME=VALUE...", help="Variables for the agents.")
@click.option("--secrets", multiple=True, metavar="ENV=SECRET...", help="Stored secrets for the agents.")
@click.option(
    "--agent-kwargs",
    multiple=True,
    metavar="[AGENT.]KEY=VALUE...",
    help="Options of the agents, such as run=...; AGENT.KEY=VALUE is for that agent only.",
)
@click.option(
    "--timeout",
    type=FloatRange(min=0, min_open=True, max=MOST_SECONDS),
    help=f"Seconds an agent has for a scenario.  [default: {TIMEOUT_SECONDS:g}]",
)
@click.option(
    "--n-attempts",
    type=IntRange(min=1, max=MOST_ATTEMPTS),
    help=f"How often each agent tries each scenario.  [default: {ATTEMPTS}]",
)
@click.option(
    "--n-concurrent-trials",
    type=IntRange(min=1, max=MOST_CONCURRENT),
    help=f"How many trials run at the same time.  [default: {CONCURRENT}]",
)
@click.option(
    "--timeout-multiplier",
    type=FloatRange(min=0, min_open=True, max=1000),
    help=f"Every time limit is multiplied by this.  [default: {MULTIPLIER:g}]",
)
@click.option("--limit", type=IntRange(min=1, max=MAX_INT), help="Run only the first N scenarios.")
@click.option(
    "--sample",
    type=IntRange(min=1, max=MAX_INT),
    help="Run this many scenarios only, chosen at random.",
)
@click.option(
    "--seed",
    type=IntRange(-MAX_INT, MAX_INT),
    help="Seed of --sample: the same number chooses the same scenarios.",
)
@click.option(
    "--filter",
    multiple=True,
    metavar="CONDITION...",
    help="Only scenarios of which all these hold: KEY=GLOB, KEY!=GLOB, KEY~=REGEX, KEY!~REGEX. KEY is "
    "`name`, `id`, `tag` or a key of the metadata. KEY= given again, and ` or ` in one, are alternatives.",
)
@click.option("--include", multiple=True, metavar="GLOB...", help="Only scenarios with names like these.")
@click.option("--exclude", multiple=True, metavar="GLOB...", help="No scenarios with names like these.")
@click.option(
    "--trial-budget",
    multiple=True,
    metavar="usd=N|tokens=N|requests=N...",
    help="What one trial may use of its model; after that it is refused, and what the agent left is scored.",
)
@click.option(
    "--job-budget",
    multiple=True,
    metavar="usd=N|tokens=N|requests=N...",
    help="What all trials of the job may use of their models together.",
)
@click.option(
    "--base-url", metavar="URL", help="Address that requests for models go to, instead of the provider's."
)
@click.option(
    "--logprobs",
    is_flag=True,
    default=None,
    help="Keep logprobs and token ids, of models that are asked by Chat Completions.",
)
@click.option(
    "-f",
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read the job from a YAML file; flags override what it says.",
)
@click.option("--like", metavar="JOB", help="Run the same as another job; flags override what it says.")
@click.option("--dry-run", is_flag=True, help="Say what would run and what is missing; start nothing.")
@click.option("--watch", is_flag=True, help="Watch it until it has ended.")
@fail_under_option(waits=True)
@max_unscored_option()
@suspect_option("What becomes of suspect scores")
@click.option(
    "--junit",
    "junit_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Wait for the end, and write a JUnit file: a suite per agent, a case per scenario.",
)
@click.option(
    "--gate-against",
    metavar="JOB|BASELINE",
    help="Wait for the end, then compare with this as `benchyard job gate` does, and end with its status.",
)
@click.option(
    "--margin",
    type=FloatRange(0, 1),
    default=MARGIN,
    show_default=True,
    help="With --gate-against: how much worse the mean score may be.",
)
@click.option(
    "--inconclusive",
    type=click.Choice(["pass", "fail"]),
    help=f"With --gate-against: end with 0 or {BELOW} where it cannot be told. Default: {INCONCLUSIVE}.",
)
@output_option
def run(
    file: Path | None,
    like: str | None,
    dry_run: bool,
    watch: bool,
    fail_under: float | None,
    max_unscored: tuple[float, bool],
    junit_file: Path | None,
    gate_against: str | None,
    margin: float,
    inconclusive: str | None,
    output: str,
    **given: Any,
) -> None:
    """Run agents on a benchmark, or on some scenarios; the server carries it to the end.

    Keys of model providers that are set here (ANTHROPIC_API_KEY and the like) become secrets named BMJ_<VAR>
    for the agents that use them.

    \b
      benchyard job run --agent oracle --benchmark quickstart --watch
      benchyard job run --agent claude-code:claude-sonnet-4-5 \\
          --agent codex:gpt-5 --benchmark quickstart
      benchyard job run --agent command --agent-kwargs run='sh solve.sh' \\
          --benchmark quickstart --limit 3
      benchyard job run --agent oracle --benchmark quickstart \\
          --filter 'name!=*bug*' 'name~=^[a-m]' --dry-run
      benchyard job run -f job.yaml --fail-under 0.8 --junit results.xml
      benchyard job run --like my-job --n-attempts 4
      benchyard job run -f job.yaml --gate-against main --margin 0.03
    """
    if file is not None and like is not None:
        raise UsageError("give --file or --like, not both")
    check_gates(fail_under, max_unscored, is_gated=gate_against is not None)
    if gate_against is None and inconclusive is not None:
        raise UsageError("--inconclusive goes with --gate-against: say what to compare with")
    if junit_file is not None and not junit_file.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {junit_file.parent} for --junit; make it first")
    short = _short_flags(given)
    with connect() as client:
        if gate_against is not None:
            require_side(client, gate_against)
        body = _body(client, short, file, like)
        if dry_run:
            body, pending = with_pending_keys(client, body, os.environ)
            with checked_input():
                plan = client.jobs.plan(job_request.finish_body(body), pending)
            show(plan, output, plan_text(plan, pending))
            return
        with checked_input():
            request = job_request.finish_body(with_known_keys(client, body, os.environ, tell))
        announce_plan(client, request)
        # Only here: the server has refused the keys of models by now.
        _warn_of_open_secrets(short.env_vars or {})
        view = client.jobs.create(request)
        waits = watch or fail_under is not None or junit_file is not None or gate_against is not None
        if not waits:
            show(
                view,
                output,
                f"{view.id}  {clean(view.name)}\n  `benchyard job watch {view.id}` shows how it goes",
            )
            return
        tell(f"{view.id} is {view.state.value}")
        view = watch_to_end(client, view, output, plainly=not watch)
        gates = _gates(client, view, gate_against, margin, max_unscored)
    if junit_file is not None:
        junit_file.write_text(junit(view), encoding="utf-8")
    show_end(view, output)
    _show_gates(gates, output)
    require_good(view, fail_under, max_unscored=max_unscored)
    require_scores(view)
    require_passed(gates, inconclusive)


def _gates(
    client: Client,
    view: BenchmarkJobView,
    against: str | None,
    margin: float,
    max_unscored: tuple[float, bool],
) -> list[GateView]:
    """Return the verdicts of a job's gate; none without a gate, or for a job that did not complete."""
    if against is None or view.state is not JobState.COMPLETED:
        return []
    number, is_share = max_unscored
    allowed = f"{number:.9g}{'%' if is_share else ''}"
    return [
        client.jobs.gate(a, b, margin, max_unscored=allowed, tell=True)
        for a, b in find_pairs(client, against, view.id, None)
    ]


def _show_gates(gates: list[GateView], output: str) -> None:
    """Show verdicts below the results of a job, or beside its JSON."""
    if gates and output == "text":
        click.echo()
        print_gates(gates)
        return
    for each in gates:
        tell(f"{each.verdict}: {clean(each.comparison.b.label)}: {clean(each.reason)}")


def _warn_of_open_secrets(variables: Mapping[str, str]) -> None:
    for name in variables:
        if _SECRET_NAME.search(name):
            tell(
                f"warning: --env-vars {name}: everybody who sees the job can read this "
                f"value; keep it with `benchyard secret set {name}` and give it with "
                f"`--secrets {name}={name}`",
            )


def _short_flags(given: dict[str, Any]) -> ShortFlags:
    """Return the flags of the command line."""
    for key, option in _PAIRS.items():
        like = _BUDGET if key in _BUDGETS else "NAME=VALUE"
        pairs = name_values(given[key], option, like)
        given[key] = pairs or None
    for key in _LISTS:
        given[key] = list(given[key]) or None
    for key in _BUDGETS:
        for name in given[key] or {}:
            if name not in Budget.model_fields:
                known = ", ".join(Budget.model_fields)
                raise UsageError(f"{_PAIRS[key]} {name}=...: a budget has {known}")
    with checked_input():
        return ShortFlags.model_validate(given)


def _body(client: Client, short: ShortFlags, file: Path | None, like: str | None) -> Body:
    """Return the request of the job, with ids in place of names."""
    body: Body = {}
    if file is not None:
        body = job_request.body_of_file(file)
    if like is not None:
        body = job_request.body_like(client, find_job(client, like), tell)
    body = job_request.with_ids(client, job_request.apply_flags(body, short))
    with checked_input():
        job_request.finish_body(body)
    return body
