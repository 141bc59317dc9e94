"""`benchyard job judge` and `job judgements`: why trials failed, in a model's opinion."""

import time
from collections.abc import Sequence

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.judgement_lines import agreement_lines, judgement_lines, run_text, summary_lines
from benchyard.cli.job.names import find_job
from benchyard.cli.notices import tell
from benchyard.cli.options import IntRange, checked_input, name_values
from benchyard.cli.progress import spinner
from benchyard.cli.render import command_text, output_option, show
from benchyard.client.client import Client
from benchyard.errors import UsageError
from benchyard.models.job_plans import count_text
from benchyard.models.model_access import Budget
from benchyard.models.reports.judgements import (
    CATEGORY_LABEL,
    MOST_JUDGED,
    USUAL_LIMIT,
    JudgementsView,
    JudgeRunView,
    JudgeSelection,
)

_FIRST_LOOK_SECONDS = 0.1
_LATER_LOOKS_SECONDS = 2.0
_BUDGET = "usd=N, tokens=N or requests=N"


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.option("--model", metavar="[PROVIDER/]MODEL", help="The model to ask; needed unless --stop is given.")
@click.option("--provider", metavar="NAME", help="Its provider, where the model's name does not tell it.")
@click.option(
    "--only",
    type=click.Choice(["unexplained", "failed", "all"]),
    default="unexplained",
    show_default=True,
    help="Failed trials that no signal explains, all failed ones, or also those that passed.",
)
@click.option("--agent", metavar="AGENT[:MODEL]", help="Only trials of this agent.")
@click.option("--scenario", metavar="ID|NAME", help="Only trials at this scenario.")
@click.option(
    "--limit",
    type=IntRange(min=1, max=MOST_JUDGED),
    default=USUAL_LIMIT,
    show_default=True,
    help="Most trials.",
)
@click.option(
    "--budget",
    multiple=True,
    metavar="usd=N|tokens=N|requests=N",
    help="What it may use in all: usd=1 by default, tokens=500000 where prices are not known; repeatable.",
)
@click.option("--secret", metavar="NAME", help="The stored secret with the key of the provider.")
@click.option("--base-url", metavar="URL", help="The address of a proxy in front of the provider.")
@click.option("--wait/--no-wait", default=True, help="Wait until it is done, and show what it says.")
@click.option("--stop", is_flag=True, help="End the judge that is at work on the job.")
@output_option
def judge(
    given: str,
    model: str | None,
    provider: str | None,
    only: JudgeSelection,
    agent: str | None,
    scenario: str | None,
    limit: int,
    budget: Sequence[str],
    secret: str | None,
    base_url: str | None,
    wait: bool,
    stop: bool,
    output: str,
) -> None:
    """Have a model say why trials failed: a category, the critical step, and quotes that are looked up.

    The model is asked through the gateway with a key and a budget of its own. It is given the task, the
    result, the scorers' output, the signals, and excerpts of the steps. Trials that it has judged by the same
    evidence are not paid for again. Ctrl-C leaves the rest to the server. It is an opinion: label some trials
    yourself with `trial label TRIAL category=...`, and see how far you agree.

    \b
      benchyard job judge my-job --model claude-sonnet-4-5
      benchyard job judge my-job --model gpt-5.5 --agent codex --budget usd=0.50
      benchyard job judge my-job --model vllm/qwen3 --only failed --limit 20
      benchyard job judge my-job --stop
    """
    if (model is None) != stop:
        raise UsageError("give either --model, or --stop to end the judge that is at work")
    with connect() as client:
        job_id = find_job(client, given, scenarios=False).id
        if model is None:
            _show(client.jobs.stop_judge(job_id), output)
            return
        with checked_input(), spinner("choosing trials"):
            run = client.jobs.judge(
                job_id,
                model,
                only=only,
                agent=agent,
                scenario=scenario,
                limit=limit,
                budget=_budget(budget),
                secret=secret,
                provider=provider,
                base_url=base_url,
            )
        if not wait:
            show(run, output, f"{run.id}  {run_text(run)}")
            return
        tell(f"{run.id} judges {count_text(run.n_chosen, 'trial')}")
        view = _watch(client, run)
    _show(view, output, run.id)
    ended = next((each for each in view.runs if each.id == run.id), run)
    if ended.state == "failed":
        raise UsageError(f"the judge ended early: {ended.note}")


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.option("--trial", metavar="ID", help="Only of this trial.")
@click.option(
    "--label",
    metavar="NAME",
    default=CATEGORY_LABEL,
    show_default=True,
    help="Name of the people's labels that judgements are compared with.",
)
@output_option
def judgements(given: str, trial: str | None, label: str, output: str) -> None:
    """Show what judges said about a job's trials, and how far people's labels agree; nothing is asked.

    \b
      benchyard job judgements my-job
      benchyard job judgements my-job --trial trl_4kY...
      benchyard job judgements my-job --label cause -o json
    """
    with connect() as client:
        view = client.jobs.judgements(find_job(client, given, scenarios=False).id, trial, label=label)
    _show(view, output)


def _watch(client: Client, run: JudgeRunView) -> JudgementsView:
    """Return the judgements once a judge run is over."""
    delay = _FIRST_LOOK_SECONDS
    with spinner("judging") as line:
        while True:
            view = client.jobs.judgements(run.job_id)
            now = next((each for each in view.runs if each.id == run.id), run)
            if now.state != "running":
                return view
            line.text = f"judging, {run_text(now)}"
            time.sleep(delay)
            delay = min(delay * 2, _LATER_LOOKS_SECONDS)


def _show(view: JudgementsView, output: str, run_id: str | None = None) -> None:
    """Print judgements: all of them, after the judge run that is meant or the last one."""
    if output != "text":
        show(view, output, "")
        return
    for run in [each for each in view.runs if run_id in (None, each.id)][:1]:
        click.echo(f"{click.style(run.id, bold=True)}  {run_text(run)}")
    if not view.judgements:
        click.echo("no judgements")
        return
    click.echo("\n".join(["", *summary_lines(view.judgements)]))
    for each in view.judgements:
        click.echo("\n".join(["", *judgement_lines(each)]))
    click.echo("\n".join(["", *agreement_lines(view.agreement)]))
    if not view.agreement:
        command = f"benchyard trial label {view.judgements[0].trial_id} {CATEGORY_LABEL}=..."
        click.echo("\n".join(command_text(command, "  ")))


def _budget(given: Sequence[str]) -> Budget | None:
    pairs = name_values(given, "--budget", _BUDGET)
    if not pairs:
        return None
    found: dict[str, float | int] = {}
    for name, value in pairs.items():
        if name not in Budget.model_fields:
            raise UsageError(f"--budget {name}=...: a budget has {', '.join(Budget.model_fields)}")
        try:
            found[name] = float(value) if name == "usd" else int(value)
        except ValueError as error:
            raise UsageError(f"--budget {name}={value[:40]!r} is not a number") from error
    with checked_input():
        return Budget.model_validate(found)
