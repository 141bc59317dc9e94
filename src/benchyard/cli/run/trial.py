"""`benchyard trial`: details of one attempt of one agent at one scenario."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.judgement_lines import judgement_lines
from benchyard.cli.job.names import find_job
from benchyard.cli.job.summary import conditions_once
from benchyard.cli.lazy_group import Noun
from benchyard.cli.options import IntRange
from benchyard.cli.render import (
    command_text,
    duration,
    facts,
    output_option,
    print_paged,
    score_text,
    show,
    show_many,
    table_lines,
    when,
    wire,
)
from benchyard.cli.run.report import (
    EXCERPT,
    RunDetails,
    StepSelection,
    fetch_details,
    spending,
    steps_options,
    traces_of,
    trajectory_lines,
)
from benchyard.cli.run.trial_notes import label_lines
from benchyard.cli.run.trial_rescoring import rescore
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.client.lookup import find_scenario, scenario_id_in
from benchyard.client.plain_text import clean
from benchyard.errors import NotFound, UsageError
from benchyard.models.jobs import BenchmarkJobView
from benchyard.models.reports.judgements import JudgementView
from benchyard.models.runs import ScenarioRunView
from benchyard.models.trials import TrialView

TrialKind = Literal["passed", "not-passed", "crashed", "unscored", "suspect"]
KINDS: Sequence[TrialKind] = ("passed", "not-passed", "crashed", "unscored", "suspect")
TRIAL_PREFIX = "trl_"
PAGE = 1000
_MOST_OTHERS = 10
_SHOWN_NAMES = 10
_WORST = ("crashed", "not_passed", "unscored", None, "passed")
"""Outcomes from worst to best: the worst of several trials is shown unless the user chooses one."""
_MOST_COMMANDS = 10
_ALL = StepSelection()
_NO_DETAILS: Mapping[str, Any] = {"agent_executions": [], "trajectory": None}


_ELSEWHERE = {
    "diff": "benchyard.cli.run.trial_work:diff",
    "label": "benchyard.cli.run.trial_notes:label",
    "note": "benchyard.cli.run.trial_notes:note",
    "open": "benchyard.cli.run.trial_work:open_",
    "steps": "benchyard.cli.run.trial_steps:steps",
    "tag": "benchyard.cli.run.trial_notes:tag",
}


@click.group(cls=Noun, places=_ELSEWHERE)
def trial() -> None:
    """Look at trials: one attempt of one agent at one scenario of a job.

    \b
      benchyard trial list my-job --only not-passed
      benchyard trial show my-job quickstart/fix-a-bug
      benchyard trial diff trl_4kY...
    """


trial.add_command(rescore)


@trial.command("list")
@click.argument("given", metavar="[JOB]", required=False)
@click.option(
    "--agent", "agent_name", metavar="NAME", help="Only trials of this agent: its name, or name:model."
)
@click.option("--scenario", metavar="ID|NAME", help="Only trials of this scenario.")
@click.option("--only", type=click.Choice(KINDS), help="Only trials that ended this way.")
@click.option("--tag", help="Only trials with this tag.")
@click.option("--all", "show_all", is_flag=True, help="Also those that were tried again, and do not count.")
@click.option(
    "--limit",
    type=IntRange(min=1),
    default=50,
    show_default=True,
    help="Without JOB: look at this many at most.",
)
@output_option
def list_(
    given: str | None,
    agent_name: str | None,
    scenario: str | None,
    only: TrialKind | None,
    tag: str | None,
    show_all: bool,
    limit: int,
    output: str,
) -> None:
    """List the trials of a job, by agent, scenario and attempt; without JOB the newest of all jobs.

    \b
      benchyard trial list my-job
      benchyard trial list my-job --only crashed
      benchyard trial list --scenario quickstart/fix-a-bug --tag flaky
      benchyard trial list my-job --agent claude-code \\
          --scenario quickstart/fix-a-bug -o json
    """
    with connect() as client:
        job = find_job(client, given) if given is not None else None
        if job is not None:
            found = _find_trials(client, job, scenario, agent_name)
            found.sort(key=lambda each: (each.agent, each.scenario_name, each.attempt, each.retry))
        else:
            found = _of_all_jobs(client, scenario, agent_name, only, tag, limit)
    kept = [
        each
        for each in found
        if (show_all or not each.is_superseded)
        and (only is None or _is_kind(each, only))
        and (tag is None or tag in each.tags)
    ]
    counts = f"; `benchyard job summary {job.id}` counts all" if job is not None else ""
    show_many(
        kept,
        output,
        _columns(_labels(job) if job is not None else None, kept),
        none=f"no trials{' that are ' + only if only else ''}{counts}",
        narrow=Narrow(
            shorten=["SCENARIO", "AGENT"], drop=["DURATION", "JOB", "ID", "SCORE", "WHY", "ATTEMPT"]
        ),
    )


@trial.command("show")
@click.argument("given", metavar="JOB")
@click.argument("scenario", metavar="SCENARIO", required=False)
@click.option("--agent", "agent_name", metavar="NAME", help="Trial of this agent: its name, or name:model.")
@click.option("--attempt", type=IntRange(min=1), help="Number of the attempt, from 1.")
@steps_options
@output_option
def show_(
    given: str,
    scenario: str | None,
    agent_name: str | None,
    attempt: int | None,
    steps: StepSelection | None,
    full: bool,
    output: str,
) -> None:
    """Show one trial: its result and why, stages, scorers, the agent's last lines and its trajectory.

    Where several trials are meant, the worst is shown, and the others are named. A trial's own id can
    take the place of JOB and SCENARIO. --steps shows only the trajectory. In a terminal, --steps and --full
    go through your pager (PAGER).
    -o json has everything, the whole trajectory included.

    \b
      benchyard trial show my-job quickstart/fix-a-bug
      benchyard trial show my-job fix-a-bug --agent nop --attempt 2
      benchyard trial show my-job fix-a-bug --steps 3-10
      benchyard trial show trl_4kY... --full
    """
    with connect() as client:
        if given.startswith(TRIAL_PREFIX) and scenario is None:
            chosen = client.jobs.trial(given)
            job, others = client.jobs.get(chosen.job_id), list[TrialView]()
        else:
            job = find_job(client, given)
            chosen, others = _chosen(client, job, scenario, agent_name, attempt)
        details = _details(client, chosen, full=full or output != "text")
        judged = _judgements(client, chosen)
    report = TrialReport(job, chosen, others, details, judged)
    if output != "text":
        show(report.data(), output, "")
        return
    lines = report.lines(steps or (_ALL if full else EXCERPT), full=full)
    if steps or full:
        print_paged(lines)
    else:
        click.echo("\n".join(lines))


@dataclass(frozen=True)
class TrialReport:
    """A trial with its job, run, commands and trajectory."""

    job: BenchmarkJobView
    trial: TrialView
    others: Sequence[TrialView]
    details: RunDetails | None
    """None while the run does not exist yet, and after its deletion."""
    judgements: Sequence[JudgementView] = ()
    """Opinions of models on it."""

    def data(self) -> dict[str, Any]:
        """Return all as one value for -o json."""
        return {
            "trial": wire(self.trial),
            "agent_label": _labels(self.job)[self.trial.agent],
            "scenario_run": wire(self.details.run) if self.details else None,
            **(self.details.data("agent_executions") if self.details else _NO_DETAILS),
            "other_trial_ids": [other.id for other in self.others],
            "judgements": [wire(judgement) for judgement in self.judgements],
        }

    def lines(self, wanted: StepSelection, *, full: bool) -> Iterator[str]:
        """Yield the report as text for people."""
        details = self.details
        yield from _head(self.job, self.trial, details.run if details else None).splitlines()
        if not full and not wanted.is_excerpt:
            traces = traces_of(details.run) if details else []
            trajectory = details.trajectory if details else None
            yield from trajectory_lines(trajectory or "there is none", traces, wanted)
            return
        yield from _others(self.job, self.trial, self.others)
        for each in self.judgements:
            yield from ("", *judgement_lines(each))
        yield from _stages(self.trial)
        if details is not None:
            yield from details.lines("agent", wanted, full=full)
        yield from _next(self.job, self.trial, is_excerpt=wanted.is_excerpt)


def result_of(trial: TrialView) -> str:
    """Return the outcome of a trial in the words of the summary; its state while it is under way."""
    word = (trial.outcome or trial.state.value).replace("_", " ")
    return f"{word}, suspect" if trial.is_suspect else word


def failure_reason(trial: TrialView) -> str:
    """Return the reason of a trial's end: its failure, the limit that ended the agent, or a scorer's note."""
    parts = [f"suspect: {trial.suspicions[0]}"] if trial.is_suspect else []
    if trial.ended_by:
        parts.append(f"ended by {trial.ended_by}")
    if trial.failure is not None:
        parts.append(trial.failure.told)
    if trial.answer_failure:
        parts.append(f"answer: {trial.answer_failure}")
    elif trial.scorer_note and trial.outcome == "not_passed":
        parts.append(trial.scorer_note)
    return "; ".join(parts)


def _is_kind(trial: TrialView, only: TrialKind) -> bool:
    return trial.is_suspect if only == "suspect" else trial.outcome == only.replace("-", "_")


def _columns(
    labels: Sequence[str] | None, found: Sequence[TrialView]
) -> Mapping[str, Callable[[TrialView], object]]:
    columns: dict[str, Callable[[TrialView], object]] = {
        "ID": lambda each: each.id,
        "JOB": lambda each: each.job_id,
        "AGENT": lambda each: labels[each.agent] if labels is not None else each.agent_label or each.agent,
        "SCENARIO": lambda each: each.scenario_name,
        "ATTEMPT": lambda each: f"{each.attempt}{f' (try {each.retry + 1})' if each.retry else ''}",
        "OUTCOME": lambda each: result_of(each) + (", tried again" if each.is_superseded else ""),
        "SCORE": lambda each: score_text(each.score),
        "DURATION": lambda each: duration(each.duration_ms),
        "WHY": lambda each: failure_reason(each)[:300],
    }
    if all(each.attempt == 1 and not each.retry for each in found):
        del columns["ATTEMPT"]
    if labels is not None:
        del columns["JOB"]
    return columns


def _of_all_jobs(
    client: Client,
    scenario: str | None,
    agent_name: str | None,
    only: TrialKind | None,
    tag: str | None,
    limit: int,
) -> list[TrialView]:
    """Return the newest trials of all jobs."""
    outcome = None if only in (None, "suspect") else str(only).replace("-", "_")
    wanted = {
        "scenario_id": find_scenario(client, scenario).id if scenario is not None else None,
        "agent": agent_name,
        "outcome": outcome,
        "tag": tag,
    }
    said = {name: value for name, value in wanted.items() if value is not None}
    return list(islice(client.trials.list(limit=min(limit, PAGE), **said), limit))  # type: ignore[arg-type]


def _find_trials(
    client: Client, job: BenchmarkJobView, scenario: str | None, agent_name: str | None
) -> list[TrialView]:
    """Return the trials of a job, of one scenario or of all, and of the agents of that name."""
    found: list[TrialView] = []
    if scenario is None:
        found = list(client.jobs.trials(job.id, limit=PAGE))
    else:
        found = list(client.jobs.trials(job.id, scenario_name=scenario, limit=PAGE))
        found = found or list(client.jobs.trials(job.id, scenario_id=scenario, limit=PAGE))
        found = found or _alike(client, job, scenario)
    if agent_name is None:
        return found
    agents = _agents_named(job, agent_name)
    return [each for each in found if each.agent in agents]


def _alike(client: Client, job: BenchmarkJobView, scenario: str) -> list[TrialView]:
    """Return the trials of the one scenario whose name ends so; raises NotFound with the nearest name."""
    every = list(client.jobs.trials(job.id, limit=PAGE))
    if own := [each for each in every if each.id == scenario]:
        return own
    id = scenario_id_in(job, every, scenario)
    return [each for each in every if each.scenario_id == id]


def _agents_named(job: BenchmarkJobView, given: str) -> set[int]:
    """Return the numbers of the agents of that name or label; raises NotFound."""
    configs = job.job_spec.agent_configs
    numbers = {
        number
        for number, config in enumerate(configs)
        if given in (config.name, config.label, f"{config.name}:{config.model_name}", config.model_name)
    }
    if not numbers:
        labels = ", ".join(clean(each.label) for each in configs[:_SHOWN_NAMES])
        raise NotFound(f"no agent of job {job.id} is called {given!r}; its agents are: {labels}")
    return numbers


def _chosen(
    client: Client, job: BenchmarkJobView, scenario: str | None, agent_name: str | None, attempt: int | None
) -> tuple[TrialView, list[TrialView]]:
    """Return the trial that is meant, the worst of several, and the others."""
    found = _find_trials(client, job, scenario, agent_name)
    names = sorted({each.scenario_name for each in found})
    if scenario is None and len(names) > 1:
        shown = ", ".join(clean(name) for name in names[:_SHOWN_NAMES])
        more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
        raise UsageError(f"say which scenario: {shown}{more}; `benchyard trial list {job.id}` shows all")
    counting = [each for each in found if not each.is_superseded] or found
    meant = [each for each in counting if attempt is None or each.attempt == attempt]
    if not meant:
        there = max((each.attempt for each in counting), default=0)
        what = f"no attempt {attempt}; there are {there}" if there else "no such trial yet"
        raise NotFound(f"job {job.id} has {what}; `benchyard trial list {job.id}` shows all")
    ordered = sorted(meant, key=_badness)
    rest = [each for each in found if each.id != ordered[0].id]
    return ordered[0], sorted(rest, key=lambda each: (each.agent, each.attempt, each.retry))


def _badness(trial: TrialView) -> tuple[int, float, int, int]:
    score = trial.score if trial.score is not None else 0.0
    return _WORST.index(trial.outcome), score, trial.agent, trial.attempt


def _details(client: Client, trial: TrialView, *, full: bool) -> RunDetails | None:
    if trial.scenario_run_id is None:
        return None
    try:
        run = client.scenarios.runs.retrieve(trial.scenario_run_id)
    except NotFound:
        return None
    return fetch_details(client, run, full=full, most_commands=_MOST_COMMANDS, of_agent=True)


def _judgements(client: Client, trial: TrialView) -> Sequence[JudgementView]:
    """Return what judges said of a trial; nothing is said of one that has not ended."""
    if trial.outcome is None:
        return ()
    try:
        return client.jobs.judgements(trial.job_id, trial.id).judgements
    except NotFound:
        # Servers of other makes have no judges.
        return ()


def _head(job: BenchmarkJobView, trial: TrialView, run: ScenarioRunView | None) -> str:
    config = job.job_spec.orchestrator_config
    attempts = config.attempts if config else 1
    tries = f", try {trial.retry + 1}" if trial.retry else ""
    superseded = "; it was tried again and does not count" if trial.is_superseded else ""
    return facts(
        {
            "trial": trial.id,
            "job": f"{job.id}  {job.name}",
            "scenario": trial.scenario_name,
            "agent": _labels(job)[trial.agent],
            "attempt": f"{trial.attempt} of {attempts}{tries}{superseded}"
            if attempts > 1 or tries or superseded
            else None,
            "result": result_of(trial),
            "score": _told_score(trial),
            "why": failure_reason(trial),
            "suspect": "; ".join(trial.suspicions[1:]) if trial.is_suspect else None,
            "exit status": trial.exit_status,
            "rounds": ", ".join(
                f"{each.name or each.number} {score_text(each.score)}" for each in trial.rounds
            ),
            "rewards": ", ".join(f"{name} {value:.3g}" for name, value in trial.rewards.items()),
            **spending(trial.usage),
            "isolation": _isolation(trial),
            "network": _network(trial),
            "meanwhile": "; ".join(conditions_once(trial.conditions)),
            "rescoring": trial.rescore_note,
            "tags": " ".join(clean(tag) for tag in trial.tags),
            "note": clean(trial.note) if trial.note else None,
            "labels": "; ".join(label_lines(trial)),
            "started": when(trial.start_time_ms),
            "took": duration(trial.duration_ms),
            "run": trial.scenario_run_id,
            "files": ", ".join(clean(trace.name) for trace in run.traces) if run else None,
        }
    )


def _told_score(trial: TrialView) -> str | None:
    if trial.score is None:
        return "0.000 (a crash counts 0)" if trial.outcome == "crashed" else None
    before = [score_text(earlier_score.score) for earlier_score in trial.earlier_scores]
    return score_text(trial.score) + (f" (before it was scored again: {', '.join(before)})" if before else "")


def _isolation(trial: TrialView) -> str | None:
    if trial.isolation is None:
        return None
    return trial.isolation + (f" ({trial.isolation_reason})" if trial.isolation_reason else "")


def _network(trial: TrialView) -> str | None:
    if trial.network is None:
        return None
    return f"agent {trial.network}" + (f", scorers {trial.scoring_network}" if trial.scoring_network else "")


def _others(job: BenchmarkJobView, trial: TrialView, others: Sequence[TrialView]) -> Iterator[str]:
    """Yield the other trials that match."""
    if not others:
        return
    labels = _labels(job)
    yield ""
    yield f"{len(others)} more of this scenario; --agent and --attempt choose, and so does a trial's id"
    rows = [
        [clean(labels[other.agent]), str(other.attempt), result_of(other), score_text(other.score), other.id]
        for other in others[:_MOST_OTHERS]
    ]
    titles = ["AGENT", "ATTEMPT", "OUTCOME", "SCORE", "ID"]
    yield from table_lines(titles, rows, Narrow(["AGENT"], ["SCORE"]))
    if len(others) > _MOST_OTHERS:
        yield f"... and {len(others) - _MOST_OTHERS} more: {_list_command(job, trial)}"


def _stages(trial: TrialView) -> Iterator[str]:
    if not trial.stages:
        return
    begin = trial.start_time_ms or trial.stages[0].start_ms
    rows = [
        [clean(stage.name), duration(stage.end_ms - stage.start_ms), duration(max(0, stage.start_ms - begin))]
        for stage in trial.stages
    ]
    yield ""
    yield from table_lines(["STAGE", "TOOK", "BEGAN AFTER"], rows)


def _next(job: BenchmarkJobView, trial: TrialView, *, is_excerpt: bool) -> Iterator[str]:
    """Yield the commands that show more, or retry."""
    name = quote_name(trial.scenario_name)
    commands = [f"benchyard trial show {trial.id} --full"] if is_excerpt else []
    commands.append(f"benchyard job logs {job.id} --scenario {name}")
    if trial.score is not None:
        commands.append(f"benchyard trial diff {trial.id}")
    if trial.outcome in ("crashed", "not_passed", "unscored"):
        kind = trial.outcome.replace("_", "-")
        commands.append(f"benchyard job retry {job.id} --only {kind} --scenario {name}")
    if trial.score is not None:
        commands.append(f"benchyard job rescore {job.id} --trial {trial.id}")
    yield ""
    yield "next"
    for command in commands:
        yield from command_text(command, "  ")


def _list_command(job: BenchmarkJobView, trial: TrialView) -> str:
    return f"benchyard trial list {job.id} --scenario {quote_name(trial.scenario_name)}"


def quote_name(name: str) -> str:
    """Return a name as it is typed in a shell."""
    return shlex.quote(clean(name))


def _labels(job: BenchmarkJobView) -> list[str]:
    return [config.label for config in job.job_spec.agent_configs]
