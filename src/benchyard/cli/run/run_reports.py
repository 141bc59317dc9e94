"""`benchyard run report`, `problems` and `table`: benchmark runs of the SDK, as jobs with one agent."""

from pathlib import Path

import click

from benchyard.cli.connection import connect
from benchyard.cli.job.problems import print_problems, signal_option
from benchyard.cli.job.report import cluster_option, md_option, show_report
from benchyard.cli.job.table import columns_option, rows_option, show_trial_table
from benchyard.cli.progress import spinner
from benchyard.cli.render import output_option, show
from benchyard.cli.run.commands import find_benchmark_run
from benchyard.reports.problems.selection import selected_problems


@click.command()
@click.argument("given", metavar="ID|NAME")
@md_option
@cluster_option
@output_option
def report(given: str, md: Path | None, cluster: str | None, output: str) -> None:
    """Report on a benchmark run as on a job with one agent: its mean with the 95 % interval, costs, noise.

    A scenario run that timed out counts 0; one that was cancelled or failed is unscored.

    \b
      benchyard run report my-benchmark-run
      benchyard run report bmr_4kY... --cluster repo --md report.md
      benchyard run report bmr_4kY... -o json
    """
    with connect() as client:
        view = client.benchmark_runs.report(find_benchmark_run(client, given).id, cluster=cluster)
    show_report(view, md, output)


@click.command()
@click.argument("given", metavar="ID|NAME")
@signal_option
@output_option
def problems(given: str, signal: str | None, output: str) -> None:
    """Show what went wrong in the scenario runs of a benchmark run, as `job problems` does of trials.

    New are problems that the benchmark run before it did not have. Signals that rest on steps need a
    trajectory: one that your code uploads, or that the gateway records.

    \b
      benchyard run problems my-benchmark-run
      benchyard run problems bmr_4kY... --signal repeated-call
      benchyard run problems bmr_4kY... -o json
    """
    with connect() as client:
        found = find_benchmark_run(client, given)
        with spinner("reading trajectories"):
            view = client.benchmark_runs.problems(found.id)
    view = selected_problems(view, None, signal)
    if output != "text":
        show(view, output, "")
    else:
        print_problems(view, is_alone=signal is not None)


@click.command()
@click.argument("given", metavar="ID|NAME")
@columns_option
@rows_option
@output_option
def table(given: str, columns: str | None, limit: int, output: str) -> None:
    """Show the scenario runs of a benchmark run as a table; the columns are those of `job table`.

    \b
      benchyard run table my-benchmark-run
      benchyard run table bmr_4kY... --columns scenario_name,score,cost_usd
      benchyard run table bmr_4kY... -o json
    """
    with connect() as client:
        id = find_benchmark_run(client, given).id
        show_trial_table(lambda names: client.benchmark_runs.table(id, names), columns, limit, output)
