"""`benchyard job rescore`: score the agents' final states again, beside the old scores."""

import time
from collections.abc import Sequence

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.names import find_job
from benchyard.cli.progress import spinner
from benchyard.cli.render import echo_sentence, output_option, print_table, score_text, show, wire
from benchyard.cli.table import Narrow
from benchyard.client.client import Client
from benchyard.client.plain_text import clean
from benchyard.models.base import Model
from benchyard.models.job_plans import count_text
from benchyard.models.jobs import BenchmarkJobView
from benchyard.models.trials import TrialView
from benchyard.reports.comparison import agent_labels

_PAGE = 1000
_FIRST_LOOK_SECONDS = 0.1
_LATER_LOOKS_SECONDS = 2.0
_SAME = 1e-9


class ScoreChange(Model):
    """A trial that was scored again: its old score, and the new one."""

    trial_id: str
    agent: str
    scenario_name: str
    attempt: int
    old_score: float | None = None
    score: float | None = None
    note: str | None = None
    """Reason why it could not be scored again; it keeps its old score then."""

    @property
    def is_other(self) -> bool:
        """Tell whether the score has changed."""
        if self.old_score is None or self.score is None:
            return self.old_score is not self.score
        return abs(self.old_score - self.score) > _SAME


class MeanChange(Model):
    """Mean score of an agent before, and now."""

    agent: str
    old_mean: float | None = None
    mean: float | None = None


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.option("--trial", "trials", multiple=True, metavar="ID", help="Only this trial; repeatable.")
@click.option("--wait/--no-wait", default=True, help="Wait until all are scored, and show what changed.")
@output_option
def rescore(given: str, trials: Sequence[str], wait: bool, output: str) -> None:
    """Score the final states of trials again, with the scorers as they are now; the old scores are kept.

    Shows the old scores beside the new, and the means. Names the trials whose final state is not kept any
    more. Ctrl-C leaves the scoring to the server.

    \b
      benchyard job rescore my-job
      benchyard job rescore my-job --trial trl_2Kf... --no-wait
    """
    with connect() as client:
        before = find_job(client, given)
        known = {each.id: each for each in client.jobs.trials(before.id, limit=_PAGE)}
        view = client.jobs.rescore(before.id, list(trials) or None)
        ids = view.rescoring.trial_ids if view.rescoring else []
        if wait and view.rescoring is not None:
            with spinner(f"scoring {count_text(len(ids), 'trial')} again"):
                view = _await_rescoring(client, view)
        after = list(client.jobs.trials(before.id, limit=_PAGE)) if wait else []
    changes = [_change(before, known.get(each.id), each) for each in after if each.id in set(ids)]
    changes.sort(key=lambda each: (each.agent, each.scenario_name, each.attempt))
    means = _means(before, view) if wait else []
    if output == "text":
        _print(view, changes, means, is_over=wait)
    else:
        told = {"rescored": [wire(each) for each in changes], "means": [wire(each) for each in means]}
        show({**wire(view), **(told if wait else {})}, output, "")


def _await_rescoring(client: Client, view: BenchmarkJobView) -> BenchmarkJobView:
    """Return the job once its current rescoring is over."""
    delay = _FIRST_LOOK_SECONDS
    while view.rescoring_state == "running":
        time.sleep(delay)
        delay = min(delay * 2, _LATER_LOOKS_SECONDS)
        view = client.jobs.get(view.id, scenarios=False)
    # The looks left the scenarios out.
    return client.jobs.get(view.id)


def _change(job: BenchmarkJobView, old: TrialView | None, new: TrialView) -> ScoreChange:
    return ScoreChange(
        trial_id=new.id,
        agent=job.job_spec.agent_configs[new.agent].label,
        scenario_name=new.scenario_name,
        attempt=new.attempt,
        old_score=old.score if old else None,
        score=new.score,
        note=new.rescore_note,
    )


def _means(before: BenchmarkJobView, after: BenchmarkJobView) -> list[MeanChange]:
    old = {each.benchmark_run_id: each.mean_score for each in before.benchmark_outcomes}
    named = zip(agent_labels(after.benchmark_outcomes), after.benchmark_outcomes, strict=True)
    return [
        MeanChange(agent=label, old_mean=old.get(each.benchmark_run_id), mean=each.mean_score)
        for label, each in named
    ]


def _print(
    view: BenchmarkJobView, changes: Sequence[ScoreChange], means: Sequence[MeanChange], *, is_over: bool
) -> None:
    rescoring = view.rescoring
    click.echo(f"{view.id}  {view.state.value}")
    if rescoring is None:
        return
    if not is_over:
        echo_sentence(f"to be scored again: {len(rescoring.trial_ids)}; `job summary` shows how far it is")
    elif changes:
        _print_changes(changes, means)
    for id in rescoring.pruned:
        echo_sentence(f"{clean(id)}: its final state is not kept any more")


def _print_changes(changes: Sequence[ScoreChange], means: Sequence[MeanChange]) -> None:
    other = sum(each.is_other for each in changes)
    click.echo(f"scored again: {len(changes)}, another score: {other}\n")
    rows = [
        [
            clean(each.agent),
            clean(each.scenario_name),
            str(each.attempt),
            score_text(each.old_score),
            score_text(each.score),
            "changed" if each.is_other else "",
            clean(f"not scored again: {each.note}") if each.note else "",
        ]
        for each in changes
    ]
    titles = ["AGENT", "SCENARIO", "ATTEMPT", "OLD", "NEW", "CHANGE", "NOTE"]
    kept = [at for at, title in enumerate(titles) if title in ("OLD", "NEW") or any(row[at] for row in rows)]
    narrow = Narrow(["AGENT", "SCENARIO"], ["ATTEMPT", "NOTE"])
    print_table([titles[at] for at in kept], [[row[at] for at in kept] for row in rows], narrow)
    click.echo()
    told = [[clean(each.agent), score_text(each.old_mean), score_text(each.mean)] for each in means]
    print_table(["AGENT", "OLD MEAN", "NEW MEAN"], told, Narrow(["AGENT"]))
