"""`benchyard benchmark` and `benchyard scenario`: other names, and the end of what is not needed any more."""

from collections.abc import Sequence

import click

from benchyard.cli.confirmation import confirm, yes_option
from benchyard.cli.connect import connect
from benchyard.cli.names import benchmark_named, scenario_named
from benchyard.cli.options import checked_input
from benchyard.cli.progress import spinner
from benchyard.cli.render import clean, output_option, show
from benchyard.models.benchmarks import BenchmarkChange
from benchyard.models.job_plans import counted


@click.command()
@click.argument("given", metavar="ID|NAME")
@click.argument("name", metavar="NEW-NAME")
@output_option
def rename(given: str, name: str, output: str) -> None:
    """Give a benchmark another name; jobs that were run show the name they were asked for with.

    \b
      benchyard benchmark rename my-benchmark my-benchmark-v1
    """
    with checked_input():
        BenchmarkChange(name=name)
    with connect() as client:
        view = client.benchmarks.update(benchmark_named(client, given).id, name=name)
    show(view, output, f"{view.id}  {clean(view.name)}")


@click.command("delete")
@click.argument("given", metavar="ID|NAME")
@click.option(
    "--with-scenarios", is_flag=True, help="Also delete its scenarios, unless another benchmark has them."
)
@yes_option
@output_option
def delete_benchmark(given: str, with_scenarios: bool, yes: bool, output: str) -> None:
    """Delete a benchmark; results of jobs that were run on it stay readable.

    A benchmark that is being run cannot be deleted.

    \b
      benchyard benchmark delete my-benchmark
      benchyard benchmark delete my-benchmark --with-scenarios --yes
    """
    with connect() as client:
        view = benchmark_named(client, given)
        count = len(view.scenario_ids or [])
        what = f" and its {counted(count, 'scenario')}" if with_scenarios else ""
        confirm(f"Delete benchmark {clean(view.name)!r}{what}?", yes=yes)
        with spinner(f"deleting {clean(view.name)}"):
            done = client.benchmarks.delete(view.id, with_scenarios=with_scenarios)
    gone = f", and {counted(len(done.scenario_ids), 'scenario')}" if with_scenarios else ""
    show(done, output, f"{clean(done.name)}  deleted{gone}")


@click.command("delete")
@click.argument("given", nargs=-1, required=True, metavar="ID|NAME...")
@yes_option
@output_option
def delete_scenario(given: Sequence[str], yes: bool, output: str) -> None:
    """Delete scenarios that no benchmark has; runs keep the revision they began with.

    `benchyard scenario archive` only hides them.

    \b
      benchyard scenario delete my-task
    """
    with connect() as client:
        views = [scenario_named(client, each) for each in given]
        named = ", ".join(f"{clean(view.name)!r}" for view in views)
        confirm(f"Delete {'scenario' if len(views) == 1 else 'scenarios'} {named}?", yes=yes)
        for view in views:
            show(client.scenarios.delete(view.id), output, f"{clean(view.name)}  deleted")
