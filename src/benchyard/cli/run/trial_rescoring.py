"""`benchyard trial rescore`: score one final state again and again, to see the noise of its scorers."""

from collections import Counter

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.names import find_job
from benchyard.cli.options import IntRange
from benchyard.cli.progress import spinner
from benchyard.cli.render import echo_sentence, output_option, score_text, show
from benchyard.client.client import Client
from benchyard.client.lookup import scenario_id_in
from benchyard.errors import NotFound, UsageError
from benchyard.models.jobs import MOST_SCORINGS
from benchyard.models.reports.trends import ScorerNoiseView
from benchyard.models.trials import TrialView

_PREFIX = "trl_"
_SHOWN = 5


@click.command()
@click.argument("given", metavar="TRIAL|JOB")
@click.argument("scenario", metavar="[SCENARIO]", required=False)
@click.option(
    "--times",
    type=IntRange(1, MOST_SCORINGS),
    default=5,
    show_default=True,
    help="How often it is scored again.",
)
@output_option
def rescore(given: str, scenario: str | None, times: int, output: str) -> None:
    """Score what a trial left several times again, and say how often the score changed.

    The work is the same each time, so every change is noise of the scorers. All scores are kept with the
    trial, and the last one counts, as after `benchyard job rescore`. JOB and SCENARIO can take the place of
    the trial's id where they mean a single trial.

    \b
      benchyard trial rescore trl_4kY... --times 10
      benchyard trial rescore my-job quickstart/fix-a-bug -o json
    """
    with connect() as client:
        id = given if given.startswith(_PREFIX) else _trial(client, given, scenario).id
        with spinner(f"scoring it {times} times"):
            noise = client.jobs.scorer_noise(id, times)
    if output != "text":
        show(noise, output, "")
        return
    for line in noise_lines(noise):
        echo_sentence(line)


def noise_lines(noise: ScorerNoiseView) -> list[str]:
    """Return how noisy scorers are, as sentences."""
    told = f"scored again: {noise.n_scorings}, another score than the first: {noise.n_changed}"
    if noise.share is not None:
        told += f" ({noise.share:.0%}, 95 %: {noise.low or 0:.0%} to {noise.high or 0:.0%})"
    lines = [told]
    if noise.scores:
        counts = Counter(noise.scores).most_common()
        lines.append("scores: " + ", ".join(f"{score_text(score)} x{count}" for score, count in counts))
    if noise.n_changed:
        lines.append(
            "! what is scored stays the same, so the scorers vary: look at time limits, order, ports, chance"
        )
    return lines


def _trial(client: Client, given: str, scenario: str | None) -> TrialView:
    """Return the one trial that counts of a job at a scenario; raises UsageError for several."""
    if scenario is None:
        raise UsageError("name a trial by its id, or a job and a scenario: `benchyard trial list JOB`")
    job = find_job(client, given)
    trials = [trial for trial in client.jobs.trials(job.id, limit=1000) if not trial.is_superseded]
    id = scenario_id_in(job, trials, scenario)
    found = [trial for trial in trials if trial.scenario_id == id and trial.score is not None]
    if not found:
        raise NotFound(f"no trial of {scenario!r} in job {job.id} was scored")
    if len(found) > 1:
        ids = ", ".join(each.id for each in found[:_SHOWN])
        raise UsageError(f"{scenario!r} has {len(found)} trials in job {job.id}; give the id of one: {ids}")
    return found[0]
