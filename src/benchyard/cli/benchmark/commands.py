"""`benchyard benchmark`: write, keep, check and delete sets of scenarios."""

from collections.abc import Callable, Mapping
from itertools import islice

import click

from benchyard.cli.connection import connect
from benchyard.cli.lazy_group import Noun
from benchyard.cli.options import IntRange, checked_input, confirm, yes_option
from benchyard.cli.progress import spinner
from benchyard.cli.render import age, output_option, show, show_many
from benchyard.cli.table import Narrow
from benchyard.client.listings import PAGE_SIZE
from benchyard.client.lookup import find_benchmark
from benchyard.client.plain_text import clean
from benchyard.models.benchmarks import BenchmarkChange, BenchmarkView
from benchyard.models.job_plans import count_text

COLUMNS: Mapping[str, Callable[[BenchmarkView], object]] = {
    "ID": lambda view: view.id,
    "NAME": lambda view: view.name,
    "REVISION": lambda view: view.revision,
    "SCENARIOS": lambda view: len(view.scenario_ids),
    "AGE": lambda view: age(view.create_time_ms),
}
PUBLIC_COLUMNS: Mapping[str, Callable[[BenchmarkView], object]] = {
    "NAME": lambda view: view.name,
    "IMPORTED": lambda view: len(view.scenario_ids) or "no",
    "SIZE": lambda view: view.metadata.get("size") or len(view.scenario_ids),
    "LICENCE": lambda view: view.metadata.get("licence", ""),
    "NEEDS": lambda view: view.metadata.get("needs", ""),
}
NARROW = Narrow(shorten=["NAME"], drop=["AGE", "REVISION", "LICENCE", "SIZE"])
_ELSEWHERE = {
    "export": "benchyard.cli.benchmark.benchmark_files:export",
    "import": "benchyard.cli.benchmark.benchmark_files:import_",
    "new": "benchyard.cli.benchmark.benchmark_files:new",
    "problems": "benchyard.cli.benchmark.problems:benchmark_problems",
    "pull": "benchyard.cli.benchmark.benchmark_files:pull",
    "push": "benchyard.cli.benchmark.benchmark_files:push",
    "insights": "benchyard.cli.benchmark.trends:benchmark_insights",
    "show": "benchyard.cli.benchmark.show:show_benchmark",
    "trends": "benchyard.cli.benchmark.trends:benchmark_trends",
    "validate": "benchyard.cli.benchmark.benchmark_files:validate",
}


@click.group(cls=Noun, places=_ELSEWHERE)
def benchmark() -> None:
    """Write, keep and check benchmarks: sets of scenarios, own ones and public ones.

    \b
      benchyard benchmark list --public
      benchyard benchmark validate quickstart
      benchyard benchmark push my-benchmark
    """


@benchmark.command("list")
@click.option("--public", is_flag=True, help="List those that come with the server, instead of your own.")
@click.option("--search", help="Only those with this in their name.")
@click.option("--limit", type=IntRange(min=1), default=100, show_default=True, help="List at most this many.")
@output_option
def list_(public: bool, search: str | None, limit: int, output: str) -> None:
    """List benchmarks, newest first; public ones with what they need, and how many scenarios are imported.

    \b
      benchyard benchmark list
      benchyard benchmark list --public -o json
    """
    with connect() as client:
        found = client.benchmarks.list_public if public else client.benchmarks.list
        size = min(limit, PAGE_SIZE)
        every = found(search=search, limit=size) if search else found(limit=size)
        none = "no benchmarks; make one with `benchyard benchmark new`, or see `list --public`"
        show_many(
            islice(every, limit), output, PUBLIC_COLUMNS if public else COLUMNS, none=none, narrow=NARROW
        )


@benchmark.command()
@click.argument("given", metavar="ID|NAME")
@click.argument("name", metavar="NEW-NAME")
@output_option
def rename(given: str, name: str, output: str) -> None:
    """Give a benchmark another name; earlier jobs show the name they were created with.

    \b
      benchyard benchmark rename my-benchmark my-benchmark-v1
    """
    with checked_input():
        BenchmarkChange(name=name)
    with connect() as client:
        view = client.benchmarks.update(find_benchmark(client, given).id, name=name)
    show(view, output, f"{view.id}  {clean(view.name)}")


@benchmark.command()
@click.argument("given", metavar="ID|NAME")
@click.option(
    "--with-scenarios", is_flag=True, help="Also delete its scenarios, unless another benchmark has them."
)
@yes_option
@output_option
def delete(given: str, with_scenarios: bool, yes: bool, output: str) -> None:
    """Delete a benchmark; results of jobs that were run on it stay readable.

    A benchmark that is being run cannot be deleted.

    \b
      benchyard benchmark delete my-benchmark
      benchyard benchmark delete my-benchmark --with-scenarios --yes
    """
    with connect() as client:
        view = find_benchmark(client, given)
        count = len(view.scenario_ids or [])
        what = f" and its {count_text(count, 'scenario')}" if with_scenarios else ""
        confirm(f"Delete benchmark {clean(view.name)!r}{what}?", yes=yes)
        with spinner(f"deleting {clean(view.name)}"):
            done = client.benchmarks.delete(view.id, with_scenarios=with_scenarios)
    gone = f", and {count_text(len(done.scenario_ids), 'scenario')}" if with_scenarios else ""
    show(done, output, f"{clean(done.name)}  deleted{gone}")
