"""Verbs of `benchyard benchmark` that read or write files, or try scenarios."""

import shlex
from pathlib import Path
from typing import Any

import click

from benchyard.benchmarks.files.benchmark_file import NAME
from benchyard.cli.benchmark import validation
from benchyard.cli.benchmark.progress import TERMINAL
from benchyard.cli.benchmark.scenario_files import folder_argument, new_folder_argument, private_option
from benchyard.cli.connection import connect
from benchyard.cli.options import IntRange
from benchyard.cli.render import echo_sentence, output_option, show, wrap_details
from benchyard.client.benchmark_files.folders import check_folder_is_free
from benchyard.client.benchmark_files.templates import new_benchmark
from benchyard.models.job_plans import count_text


@click.command()
@new_folder_argument
def new(folder: Path) -> None:
    """Make a folder with a benchmark of one scenario that works.

    \b
      benchyard benchmark new my-benchmark
    """
    # No server is needed, or started.
    made = new_benchmark(folder)
    echo_sentence(f"{made}  made; try it with `benchyard benchmark validate {shlex.quote(str(folder))}`")


@click.command()
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
    data = {**last.data(), "scenarios": [scenario.data() for scenario in scenarios]}
    show(data, output, "\n".join(wrap_details(line for each in pushed for line in each.lines())))


@click.command()
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


@click.command()
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


@click.command("import")
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


@click.command()
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
