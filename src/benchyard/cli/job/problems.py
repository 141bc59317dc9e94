"""`benchyard job problems`: what went wrong in a job, where, and what usually helps."""

import re
from collections.abc import Iterator, Sequence

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.judgement_lines import agreement_lines, summary_lines
from benchyard.cli.job.names import of_job
from benchyard.cli.progress import spinner
from benchyard.cli.render import (
    command_text,
    echo_sentence,
    facts,
    indented,
    output_option,
    show,
    when,
)
from benchyard.client.plain_text import clean
from benchyard.models.job_plans import count_text
from benchyard.models.reports.baselines import is_run
from benchyard.models.reports.judgements import JudgementsView
from benchyard.models.reports.problems import (
    Association,
    FailureGroup,
    Problem,
    ProblemExample,
    ProblemsView,
)
from benchyard.reports.problems.selection import selected_problems

_SHOWN_GROUPS = 5
_SHOWN_TESTS = 3
_RUN_PREFIX = "scr_"
"""Beginning of the ids of scenario runs, which are the trials of a benchmark run."""
_OF_RUNS = (
    ("benchyard trial show TRIAL", "benchyard run show RUN"),
    ("benchyard trial steps TRIAL --step N", "benchyard run show RUN --steps N-N"),
    ("benchyard trial steps TRIAL", "benchyard run show RUN --full"),
    ("benchyard trial show", "benchyard run show"),
)
"""Commands for trials, and those for scenario runs instead."""
_ONLY_JOBS = re.compile(r"`benchyard job (?:retry|rescore)\b|`job run\b")

signal_option = click.option("--signal", metavar="NAME", help="Only this problem, with all its examples.")


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.option("--agent", metavar="AGENT[:MODEL]", help="Only problems and failures of this agent.")
@signal_option
@output_option
def problems(given: str, agent: str | None, signal: str | None, output: str) -> None:
    """Show what went wrong in a job's trials: signals with their steps, and failures that are alike.

    Nothing is asked of a model; `job judge` asks one, and what it said is shown at the end. New problems,
    which the last job of the same benchmark did not have, come first. A problem `goes with failing` only
    where that holds inside scenarios and agents, corrected for the number of problems.

    \b
      benchyard job problems my-job
      benchyard job problems my-job --agent codex
      benchyard job problems my-job --signal repeated-call
      benchyard job problems my-job -o json
    """
    with connect() as client:
        with spinner("reading trajectories"):
            view = of_job(client, given, client.jobs.problems)
        is_judged = output == "text" and signal is None and not is_run(view.job_id)
        judged = client.jobs.judgements(view.job_id) if is_judged else None
    view = selected_problems(view, agent, signal)
    if output != "text":
        show(view, output, "")
    else:
        print_problems(view, is_alone=signal is not None, judged=judged, agent=agent)


def print_problems(
    view: ProblemsView, *, is_alone: bool, judged: JudgementsView | None = None, agent: str | None = None
) -> None:
    """Print problems for people; that of a single signal alone, with all its examples."""
    click.echo(_head(view))
    for problem in view.problems:
        click.echo()
        helps = _helps_run(problem.helps) if is_run(view.job_id) else problem.helps
        _print_problem(problem, helps, is_alone=is_alone)
    if not is_alone:
        _print_groups(view)
    if judged is not None:
        _print_judged(judged, agent)
    for note in view.notes:
        click.echo()
        echo_sentence(f"! {clean(note)}")


def _head(view: ProblemsView) -> str:
    new = sum(bool(each.is_new) for each in view.problems)
    told = count_text(len(view.problems), "problem")
    return facts(
        {
            "run" if is_run(view.job_id) else "job": view.job_id,
            "name": view.job_name,
            "trials": f"{view.n_trials} ended, {view.n_with_trajectory} of them with a trajectory",
            "unread": view.n_trials - view.n_read or None,
            "found": told + (f", {new} new since {view.previous_job_id}" if view.previous_job_id else ""),
        }
    )


def _helps_run(helps: str) -> str:
    """Return what helps in terms of runs: what only a job can do is left out if there is something else."""
    for of_trial, of_run in _OF_RUNS:
        helps = helps.replace(of_trial, of_run)
    parts = helps.split("; ")
    return "; ".join([part for part in parts if not _ONLY_JOBS.search(part)] or parts)


def _print_problem(problem: Problem, helps: str, *, is_alone: bool) -> None:
    unit = "scenario" if problem.subject == "scenario" else "trial"
    new = "new  " if problem.is_new else ""
    count = f"{problem.n_found} of {count_text(problem.n_known, unit)}"
    click.echo(f"{click.style(f'{new}{clean(problem.signal)}', bold=True)}  {count}")
    _detail(problem.summary)
    if problem.association is not None:
        _detail(_association(problem.association))
    if len(problem.agents) > 1:
        _detail(", ".join(f"{clean(row.label)} {row.n_found} of {row.n_known}" for row in problem.agents))
    for example in problem.examples if is_alone else problem.examples[:1]:
        _print_example(example)
    _detail(f"helps: {helps}")


def _detail(text: str) -> None:
    first, *rest = indented(text, 4)
    click.echo("\n".join([f"  {first}", *rest]))


def _association(found: Association) -> str:
    shares = [
        f"{share:.0%} fail {word} it"
        for share, word in ((found.failed_with, "with"), (found.failed_without, "without"))
        if share is not None
    ]
    told = "; ".join(shares) or "no trial with it has a score"
    if found.p is None:
        return f"{told}; inside scenarios nothing can be tested"
    claim = f"goes with {found.goes_with}" if found.goes_with else "inside scenarios no connection is shown"
    return f"{claim}: {told}; p = {found.p:.2g} inside scenarios, {found.p_adjusted or 1.0:.2g} corrected"


def _print_example(example: ProblemExample) -> None:
    _detail(f"{clean(example.scenario_name)} #{example.attempt}: {clean(example.detail)}")
    click.echo("\n".join(command_text(_command(example), "    ")))


def _command(example: ProblemExample) -> str:
    if example.trial_id.startswith(_RUN_PREFIX):
        steps = f" --steps {example.steps[0]}-{example.steps[0]}" if example.steps else ""
        return f"benchyard run show {example.trial_id}{steps}"
    if example.steps:
        return f"benchyard trial steps {example.trial_id} --step {example.steps[0]}"
    return f"benchyard trial show {example.trial_id}"


def _print_groups(view: ProblemsView) -> None:
    if not view.groups:
        return
    click.echo(f"\n{click.style('failures that are alike', bold=True)}")
    for group in view.groups[:_SHOWN_GROUPS]:
        for line in _group_lines(group):
            _detail(line)
        for example in group.examples[:1]:
            whole = example.model_copy(update={"steps": []})
            click.echo("\n".join(command_text(_command(whole), "    ")))
    if view.n_groups > _SHOWN_GROUPS:
        click.echo(f"... and {view.n_groups - _SHOWN_GROUPS} more; -o json shows more")


def _print_judged(judged: JudgementsView, agent: str | None) -> None:
    """Print what judges said, apart from the signals; of one agent, `job judgements` is the place."""
    if not judged.judgements or agent is not None:
        return
    click.echo("\n" + click.style("judged by a model, apart from the signals", bold=True))
    for line in (*summary_lines(judged.judgements), *agreement_lines(judged.agreement)):
        click.echo(f"  {line}")
    click.echo("\n".join(command_text(f"benchyard job judgements {judged.job_id}", "    ")))


def _group_lines(group: FailureGroup) -> Iterator[str]:
    new = "new: " if group.is_new else ""
    where = f" in {group.stage}" if group.stage else ""
    yield f"{new}{count_text(group.n_trials, 'trial')}, {clean(group.kind)}{where}: {clean(group.template)}"
    if group.failed_tests:
        yield f"  failed tests: {_first(group.failed_tests)}"
    scenarios = count_text(group.n_scenarios, "scenario")
    yield f"  {_first(group.agents)}; {scenarios}; {when(group.first_time_ms)} to {when(group.last_time_ms)}"


def _first(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN_TESTS
    return ", ".join(clean(name) for name in names[:_SHOWN_TESTS]) + (f" and {more} more" if more > 0 else "")
