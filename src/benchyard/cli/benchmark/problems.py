"""`benchyard benchmark problems`: the prevalence of problems over the last jobs of a benchmark."""

import click

from benchyard.cli.connection import connect
from benchyard.cli.options import IntRange
from benchyard.cli.progress import spinner
from benchyard.cli.render import echo_sentence, output_option, print_table, show, when
from benchyard.cli.table import Narrow
from benchyard.client.plain_text import clean
from benchyard.models.reports.problems import BenchmarkProblemsView, ProblemTrend

MOST_JOBS = 20


@click.command("problems")
@click.argument("given", metavar="ID|NAME")
@click.option(
    "--jobs",
    "limit",
    type=IntRange(min=1, max=MOST_JOBS),
    default=10,
    show_default=True,
    help="Look at this many of the last jobs.",
)
@output_option
def benchmark_problems(given: str, limit: int, output: str) -> None:
    """Show how often each problem was found in the last jobs of a benchmark, the newest first.

    Benchmark runs of the SDK count as jobs. `benchyard job problems` shows those of one job with their steps.

    \b
      benchyard benchmark problems quickstart
      benchyard benchmark problems quickstart --jobs 5
      benchyard benchmark problems quickstart -o json
    """
    with connect() as client, spinner("reading trajectories"):
        view = client.jobs.problems_of(given, limit)
    if output != "text":
        show(view, output, "")
    else:
        _print(view)


def _print(view: BenchmarkProblemsView) -> None:
    if not view.jobs:
        click.echo("no job or run on it; `benchyard job run --benchmark ...` makes one")
        return
    print_table(
        ["", "JOB", "ID", "CREATED", "TRIALS READ"],
        [
            [
                str(place),
                clean(job.job_name),
                job.job_id,
                when(job.create_time_ms)[:16],
                f"{job.n_read} of {job.n_trials}",
            ]
            for place, job in enumerate(view.jobs, 1)
        ],
        Narrow(["JOB"], ["CREATED", "TRIALS READ"]),
    )
    click.echo()
    if not view.problems:
        click.echo("no problem was found")
        return
    places = range(1, len(view.jobs) + 1)
    print_table(
        ["PROBLEM", *map(str, places)],
        [[clean(each.signal), *_shares(each, view)] for each in view.problems],
        Narrow(["PROBLEM"], [str(place) for place in reversed(places)]),
    )
    if not all(job.is_complete for job in view.jobs):
        echo_sentence("! not everything was read in time; the same command goes on with the rest")


def _shares(problem: ProblemTrend, view: BenchmarkProblemsView) -> list[str]:
    """Return for each job the number of trials with the problem and of those of which it is known."""
    known = {point.job_id: f"{point.n_found}/{point.n_known}" for point in problem.jobs}
    return [known.get(job.job_id, "-") for job in view.jobs]
