"""`benchyard benchmark`: write, keep, check and delete sets of scenarios."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from benchyard.benchmarks.files.benchmark_file import NAME
from benchyard.benchmarks.files.writer import FolderContents, slug
from benchyard.cli.benchmark import validation
from benchyard.cli.benchmark.progress import TERMINAL
from benchyard.cli.benchmark.scenario import (
    folder_argument,
    new_folder_argument,
    private_option,
    show_scenario,
    write_template,
)
from benchyard.cli.connection import connect
from benchyard.cli.options import IntRange, checked_input, confirm, yes_option
from benchyard.cli.progress import spinner
from benchyard.cli.render import (
    age,
    echo_sentence,
    facts,
    output_option,
    pairs,
    print_table,
    show,
    show_many,
    when,
    wrap_details,
)
from benchyard.cli.table import Narrow
from benchyard.client.benchmark_files.folders import check_folder_is_free
from benchyard.client.client import Client
from benchyard.client.listings import PAGE_SIZE
from benchyard.client.lookup import find_benchmark
from benchyard.client.plain_text import clean
from benchyard.errors import NotFound
from benchyard.models.benchmarks import BenchmarkChange, BenchmarkView
from benchyard.models.job_plans import count_text
from benchyard.models.scenarios import ScenarioView


@click.command()
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
        view = find_benchmark(client, given)
        count = len(view.scenario_ids or [])
        what = f" and its {count_text(count, 'scenario')}" if with_scenarios else ""
        confirm(f"Delete benchmark {clean(view.name)!r}{what}?", yes=yes)
        with spinner(f"deleting {clean(view.name)}"):
            done = client.benchmarks.delete(view.id, with_scenarios=with_scenarios)
    gone = f", and {count_text(len(done.scenario_ids), 'scenario')}" if with_scenarios else ""
    show(done, output, f"{clean(done.name)}  deleted{gone}")


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
_FIRST = "first-task"
_CATEGORY_KEYS = ("category", "categories", "difficulty", "domain", "language", "year", "repo")


@click.group()
def benchmark() -> None:
    """Write, keep and check benchmarks: sets of scenarios, own ones and public ones.

    \b
      benchyard benchmark list --public
      benchyard benchmark validate quickstart
      benchyard benchmark push my-benchmark
    """


benchmark.add_command(rename)
benchmark.add_command(delete_benchmark)


@benchmark.command()
@new_folder_argument
def new(folder: Path) -> None:
    """Make a folder with a benchmark of one scenario that works.

    \b
      benchyard benchmark new my-benchmark
    """
    check_folder_is_free(folder, force=False)
    write_template(folder / _FIRST)
    name = slug(folder.resolve().name)
    FolderContents({"name": name, "description": "What it measures.", "scenarios": [_FIRST]}).write(
        folder, NAME
    )
    echo_sentence(
        f"{folder / NAME}  made; try it with `benchyard benchmark validate {shlex.quote(str(folder))}`"
    )


@benchmark.command()
@folder_argument
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@output_option
def push(folder: Path, dry_run: bool, output: str) -> None:
    """Make the server hold the benchmark of a folder, and the scenarios whose folders it names.

    \b
      benchyard benchmark push my-benchmark --dry-run
      benchyard benchmark push my-benchmark
    """
    with connect() as client:
        pushed = client.benchmarks.push(folder, dry_run=dry_run, progress=TERMINAL)
    *scenarios, last = pushed
    data = {**last.data(), "scenarios": [each.data() for each in scenarios]}
    show(data, output, "\n".join(wrap_details(line for each in pushed for line in each.lines())))


@benchmark.command()
@click.argument("given", metavar="ID|NAME")
@new_folder_argument
@click.option("--force", is_flag=True, help="Overwrite what is in the folder.")
def pull(given: str, folder: Path, force: bool) -> None:
    """Write a benchmark as a folder, with a folder for each scenario that is not public.

    \b
      benchyard benchmark pull my-benchmark copy
    """
    check_folder_is_free(folder, force=force)
    with connect() as client:
        pulled = client.benchmarks.pull(given, folder, force=force)
    view = pulled.benchmark
    folders = count_text(pulled.folders, "folder")
    echo_sentence(f"{folder / NAME}  {view.id}, revision {view.revision}, with {folders} of scenarios")


@benchmark.command()
@click.argument("given", metavar="ID|NAME")
@new_folder_argument
@private_option
@click.option("--force", is_flag=True, help="Overwrite what is in the folder.")
@output_option
def export(given: str, folder: Path, private: bool, force: bool, output: str) -> None:
    """Write a benchmark as Harbor task folders, one for each scenario, and a dataset.toml.

    Scenarios that cannot be run elsewhere are named, and the others are written.

    \b
      benchyard benchmark export quickstart tasks
      benchyard benchmark import tasks --name again
    """
    check_folder_is_free(folder, force=force)
    with connect() as client:
        done = client.benchmarks.export(given, folder, private=private, force=force)
    show(done.data(), output, "\n".join(done.lines()))


@benchmark.command("import")
@click.argument("given", metavar="NAME|PATH|GIT-URL[@REF]")
@click.option("--name", help="What the benchmark is called here.")
@click.option(
    "--from",
    "local",
    type=click.Path(exists=True, path_type=Path),
    help="A copy of a public benchmark's data: a file, a folder, or a tar of it.",
)
@click.option("--variant", help="Variant of a public benchmark that has several, such as `instruct`.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed for sets whose items are shuffled."
)
@click.option(
    "--limit",
    type=IntRange(min=1),
    help="Import only the first N; scenarios that the benchmark already has stay in it.",
)
@click.option(
    "--network",
    type=click.Choice(["task", "gateway"]),
    default="task",
    show_default=True,
    help="What devboxes may reach: what each task says, or the gateway only.",
)
@click.option(
    "--token",
    envvar="HF_TOKEN",
    help="Token of the Hugging Face hub, for data whose terms you accepted there.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@output_option
def import_(output: str, **options: Any) -> None:
    """Import a public benchmark by name, or the task folders of a folder or a git repository.

    Files are read here and sent to the server. Images are built, or taken from their registry, when a
    scenario is first run. Broken items are named and left out, the rest is imported. To import the same
    again changes nothing, and two imports at the same time give the same result.

    \b
      benchyard benchmark import terminal-bench-2
      benchyard benchmark import aime --from aime2024.jsonl
      benchyard benchmark import bigcodebench --variant instruct --limit 20
      benchyard benchmark import my-tasks/ --network gateway
      benchyard benchmark import https://example.com/team/tasks.git@v2
    """
    with connect() as client:
        done = client.benchmarks.import_(**options, progress=TERMINAL)
    show(done.data(), output, "\n".join(done.lines()))


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


@benchmark.command("show")
@click.argument("given", metavar="ID|NAME")
@click.option("--scenario", "item", metavar="ID|NAME", help="Show one scenario: its prompt and environment.")
@output_option
def show_(given: str, item: str | None, output: str) -> None:
    """Show one benchmark, its categories and its scenarios, by id or name; or one scenario of it.

    \b
      benchyard benchmark show quickstart
      benchyard benchmark show terminal-bench-2 --scenario pypi-server
    """
    with connect() as client:
        view = find_benchmark(client, given)
        if item is not None:
            show_scenario(client, _find_item(client, view, item), output)
            return
        if output == "text":
            click.echo(_description(view))
            if (command := view.metadata.get("benchyard.import")) and not view.scenario_ids:
                click.echo()
                echo_sentence(f"it is not imported yet; type `{clean(command)}`")
                return
            definitions = list(client.benchmarks.definitions(view.id, limit=1000))
            for line in _categories(definitions):
                click.echo(line)
            rows = [
                [each.id, clean(each.name), each.isolation, clean(each.isolation_reason)]
                for each in definitions
            ]
            print_table(["SCENARIO", "NAME", "ISOLATION", "WHY"], rows, Narrow(["NAME"], ["SCENARIO", "WHY"]))
            return
    show(view, output, "")


def _find_item(client: Client, view: BenchmarkView, given: str) -> ScenarioView:
    """Return the scenario of a benchmark with that name, with or without the benchmark's name before it."""
    for each in client.benchmarks.definitions(view.id, limit=1000):
        if given in (each.id, each.name, each.name.rpartition("/")[2], each.name.partition("/")[2]):
            return each
    raise NotFound(f"{view.name} has no scenario {given!r}; see `benchyard benchmark show {view.name}`")


def _categories(scenarios: Sequence[ScenarioView]) -> Iterator[str]:
    """Yield the number of scenarios in each category of their metadata."""
    for key in _CATEGORY_KEYS:
        counts = Counter(each.metadata[key] for each in scenarios if each.metadata.get(key))
        if len(counts) > 1:
            told = ", ".join(f"{clean(name)} ({count})" for name, count in counts.most_common(20))
            yield f"{key + ':':<19}{told}"


@benchmark.command()
@click.argument("given", metavar="ID|NAME|PATH")
@validation.validate_options
@click.option(
    "--sample",
    type=IntRange(min=1),
    help="Validate this many scenarios only, chosen at random by --seed.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Seed of the random choice that --sample makes."
)
@output_option
def validate(given: str, sample: int | None, seed: int, output: str, **options: Any) -> None:
    """Validate the scenarios of a benchmark: the reference scores 1, doing nothing 0, and twice the same.

    Environments that cannot be built here are named with the reason. The strictest isolation that works is
    found and stored. If `clean` was chosen, but the reference gets its score only while its processes run,
    `--record` has the scenario graded `live`. See `benchyard scenario validate`.

    \b
      benchyard benchmark validate quickstart
      benchyard benchmark validate terminal-bench-2 --sample 5 --record
      benchyard benchmark validate my-benchmark/ --concurrency 8
    """
    wanted = validation.validation_options(**options)
    with connect() as client:
        results = client.benchmarks.validate(given, sample=sample, seed=seed, **wanted)
    validation.show_validation(results, output)


def _description(view: BenchmarkView) -> str:
    return facts(
        {
            "id": view.id,
            "name": view.name,
            "status": view.status,
            "revision": view.revision,
            "public": "yes" if view.is_public else None,
            "description": view.description,
            "attribution": view.attribution,
            "needs variables": ", ".join(view.required_environment_variables or []),
            "needs secrets": ", ".join(view.required_secret_names or []),
            "needs": view.metadata.get("needs"),
            "created": when(view.create_time_ms) if view.create_time_ms else None,
            "metadata": pairs({key: value for key, value in view.metadata.items() if key != "needs"}),
        }
    )
