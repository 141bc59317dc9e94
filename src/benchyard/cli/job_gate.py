"""Gates: when what a job came to is not good enough, for whoever runs it in a pipeline."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from benchyard.cli.render import clean
from benchyard.models.jobs import BenchmarkJobView
from benchyard.models.trials import SuspectRule
from benchyard.reports.comparison import labels, suspects

BELOW = 20
"""The exit status where a mean is below what was asked for."""
SUSPECT = 21
"""The exit status where a score is suspect that must not be."""
RULES: Sequence[SuspectRule] = ("keep", "zero", "fail")
_MOST_TOLD = 10


def fail_under_option(end: str) -> Callable[[Any], Any]:
    """`--fail-under`, for a command that waits, or does not."""
    return click.option(
        "--fail-under",
        type=click.FloatRange(0, 1),
        help=f"{end} with {BELOW} if the mean of any agent is below, or nothing was scored.",
    )


def suspect_option(what: str) -> Callable[[Any], Any]:
    """`--suspect`, for a command that stores it, or only shows by it."""
    return click.option(
        "--suspect",
        type=click.Choice(RULES),
        help=f"{what}: `keep` and mark them, count them as `zero`, or `fail` with {SUSPECT}.",
    )


def require_good(view: BenchmarkJobView, least: float | None, rule: SuspectRule | None = None) -> None:
    """End with a status of its own where a mean is below the least, or where suspect scores must not be."""
    problems = [] if least is None else below(view, least)
    status = BELOW if problems else SUSPECT
    if (rule or rule_of(view)) == "fail":
        problems += suspect_scores(view)
    for problem in problems:
        click.echo(f"benchyard: {problem}", err=True)
    if problems:
        raise click.exceptions.Exit(status)


def rule_of(view: BenchmarkJobView) -> SuspectRule:
    """What becomes of suspect scores in a job, as it was asked for."""
    config = view.job_spec.orchestrator_config
    return config.suspect_rule if config else "keep"


def below(view: BenchmarkJobView, least: float) -> list[str]:
    """Why a job is not good enough; empty when every agent's mean is at least this."""
    if len(view.benchmark_outcomes) < max(1, len(view.job_spec.agent_configs)):
        return [f"the job is {view.state.value}, and not every agent has an outcome"]
    found = []
    for label, outcome in zip(labels(view.benchmark_outcomes), view.benchmark_outcomes, strict=True):
        if outcome.mean_score is None:
            found.append(f"{clean(label)}: nothing was scored")
        elif outcome.mean_score < least:
            found.append(f"{clean(label)}: the mean {outcome.mean_score:.3f} is below {least:g}")
    return found


def suspect_scores(view: BenchmarkJobView) -> list[str]:
    """The suspect scores of a job, one line each, and how many more there are."""
    found = suspects(view.benchmark_outcomes)
    told = [
        clean(f"{each.label}: {each.scenario_name} is suspect: {each.why}") for each in found[:_MOST_TOLD]
    ]
    return [*told, f"... and {len(found) - _MOST_TOLD} more"] if len(found) > _MOST_TOLD else told
