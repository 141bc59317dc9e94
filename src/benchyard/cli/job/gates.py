"""Gates for pipelines: exit statuses for jobs whose results are not good enough."""

from collections.abc import Callable, Sequence
from typing import Any

import click

from benchyard.cli.notices import tell
from benchyard.cli.options import FloatRange
from benchyard.client.plain_text import clean
from benchyard.errors import UsageError
from benchyard.models.job_plans import count_text
from benchyard.models.jobs import BenchmarkJobView
from benchyard.models.trials import SuspectRule
from benchyard.reports.comparison import agent_labels, suspects

BELOW = 20
"""Exit status if a mean is below the required one."""
SUSPECT = 21
"""Exit status if a score is suspect and the rule is `fail`."""
INCONCLUSIVE = 21
"""Exit status of `job gate` if the results decide nothing."""
UNSCORED = 22
"""Exit status if more trials have no score than are allowed."""
UNFINISHED = 1
"""Exit status of a job that ended, but was not completed, or has an agent without any score."""
STATUSES = {
    0: "the job was completed, every agent has a score, and all gates passed",
    UNFINISHED: "it was not completed, or an agent has no score at all",
    2: "a mistake in the flags; nothing was started",
    4: "there is no job, benchmark or scenario of that name",
    5: "what is asked for does not fit the job as it is now",
    BELOW: "--fail-under: a mean is below, or nothing was scored; a gate fails",
    SUSPECT: "--suspect fail: a score is suspect; a gate is inconclusive",
    UNSCORED: "--fail-under: more trials are unscored than --max-unscored allows",
    130: "Ctrl-C; the job goes on",
}
"""Meanings of the exit statuses. If several gates fail, the first of 20, 22, 21 counts."""
RULES: Sequence[SuspectRule] = ("keep", "zero", "fail")
_MOST_TOLD = 10


def exit_statuses(*shown: int, note: str = "", **told: str) -> str:
    """Return the list of exit statuses for a command's help; `told` replaces texts, by keys such as `s0`."""
    rows = [f"  {status:<4} {told.get(f's{status}', STATUSES[status])}" for status in shown]
    return "\b\n" + "\n".join([f"Exit status{note}:", *rows])


def fail_under_option(*, waits: bool = False) -> Callable[[Any], Any]:
    """Return the option `--fail-under`, for a command that waits for the end, or does not."""
    start = "Wait for the end; e" if waits else "E"
    return click.option(
        "--fail-under",
        type=FloatRange(0, 1),
        help=f"{start}xit status {BELOW} if the mean score of an agent is below this, "
        f"{UNSCORED} if a trial is unscored.",
    )


def _unscored_limit(context: click.Context, option: click.Parameter, text: str) -> tuple[float, bool]:
    """Return the limit as a number, and whether it is a percentage."""
    number_text, is_share = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        number = float(number_text)
    except ValueError:
        number = -1.0
    is_known = 0 <= number <= 100 if is_share else number >= 0 and number.is_integer()
    if not is_known:
        raise click.BadParameter(
            f"{text!r} is neither a number of trials such as 3, nor a share such as 5%",
            ctx=context,
            param=option,
        )
    return number, is_share


def max_unscored_option() -> Callable[[Any], Any]:
    """Return the option `--max-unscored`, which goes with `--fail-under`."""
    return click.option(
        "--max-unscored",
        metavar="N|P%",
        callback=_unscored_limit,
        default="0",
        show_default=True,
        help="With --fail-under or a gate: how many trials of an agent, or which share, may be unscored.",
    )


def check_gates(
    fail_under: float | None, max_unscored: tuple[float, bool], *, is_gated: bool = False
) -> None:
    """Raise UsageError for a limit without a gate, which would have no effect."""
    if fail_under is None and max_unscored[0] > 0 and not is_gated:
        raise UsageError("--max-unscored goes with --fail-under: give that too, 0 if any mean will do")


def suspect_option(what: str) -> Callable[[Any], Any]:
    """Return the option `--suspect`, for a command that stores the rule, or only applies it to its output."""
    return click.option(
        "--suspect",
        type=click.Choice(RULES),
        help=f"{what}: `keep` and mark them, count them as `zero`, or `fail` with {SUSPECT}.",
    )


def require_good(
    view: BenchmarkJobView,
    least: float | None,
    rule: SuspectRule | None = None,
    max_unscored: tuple[float, bool] = (0.0, False),
) -> None:
    """Exit with a gate's status if a mean is too low, too many trials are unscored, or a score is suspect."""
    problems = [] if least is None else means_below(view, least)
    status = BELOW
    if least is not None and (missing := agents_unscored(view, max_unscored)):
        status = BELOW if problems else UNSCORED
        problems += missing
    if (rule or suspect_rule(view)) == "fail" and (found := suspect_scores(view)):
        status = status if problems else SUSPECT
        problems += found
    for problem in problems:
        tell(f"{problem}")
    if problems:
        raise click.exceptions.Exit(status)


def suspect_rule(view: BenchmarkJobView) -> SuspectRule:
    """Return the rule for suspect scores that the job was created with."""
    config = view.job_spec.orchestrator_config
    return config.suspect_rule if config else "keep"


def means_below(view: BenchmarkJobView, least: float) -> list[str]:
    """Return the means that are below the least, as sentences; empty if the job is good enough."""
    if len(view.benchmark_outcomes) < max(1, len(view.job_spec.agent_configs)):
        return [f"the job is {view.state.value}, and not every agent has an outcome"]
    found = []
    for label, outcome in zip(agent_labels(view.benchmark_outcomes), view.benchmark_outcomes, strict=True):
        if outcome.mean_score is None:
            found.append(f"{clean(label)}: nothing was scored")
        elif outcome.mean_score < least:
            found.append(f"{clean(label)}: the mean {outcome.mean_score:.3f} is below {least:g}")
    return found


def agents_unscored(view: BenchmarkJobView, most: tuple[float, bool]) -> list[str]:
    """Return the agents of a job with more unscored trials than are allowed, as sentences."""
    number, is_share = most
    found = []
    for label, outcome in zip(agent_labels(view.benchmark_outcomes), view.benchmark_outcomes, strict=True):
        limit = outcome.n_trials * number / 100 if is_share else number
        if outcome.unscored > limit:
            told = f"{clean(label)}: {outcome.unscored} of {count_text(outcome.n_trials, 'trial')} unscored"
            allowed = f"{number:g}{'%' if is_share else ''}"
            found.append(f"{told}; --max-unscored allows {allowed}, and `job retry` tries them again")
    return found


def agents_without_score(view: BenchmarkJobView) -> list[str]:
    """Return the agents of a job that ended without any score, as sentences."""
    named = zip(agent_labels(view.benchmark_outcomes), view.benchmark_outcomes, strict=True)
    return [f"{clean(label)}: nothing was scored" for label, each in named if each.mean_score is None]


def suspect_scores(view: BenchmarkJobView) -> list[str]:
    """Return the suspect scores of a job, one line each, and the number of further ones."""
    found = suspects(view.benchmark_outcomes)
    told = [
        clean(f"{each.label}: {each.scenario_name} is suspect: {each.why}") for each in found[:_MOST_TOLD]
    ]
    return [*told, f"... and {len(found) - _MOST_TOLD} more"] if len(found) > _MOST_TOLD else told
