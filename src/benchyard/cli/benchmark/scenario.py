"""`benchyard scenario`: write, keep, check and delete scenarios."""

import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import click

from benchyard.benchmarks import builtin_benchmarks
from benchyard.benchmarks.files.scenario_file import NAME
from benchyard.benchmarks.files.writer import dump_yaml, slug
from benchyard.cli.benchmark import validation
from benchyard.cli.benchmark.progress import TERMINAL
from benchyard.cli.connection import connect
from benchyard.cli.options import IntRange, confirm, yes_option
from benchyard.cli.render import (
    age,
    echo_sentence,
    facts,
    output_option,
    pairs,
    show,
    show_many,
    when,
    wrap_details,
)
from benchyard.cli.table import Narrow
from benchyard.client.benchmark_files.environments import origin_of
from benchyard.client.benchmark_files.folders import check_folder_is_free, write_snapshot_scenario
from benchyard.client.client import Client
from benchyard.client.listings import PAGE_SIZE
from benchyard.client.lookup import find_scenario, find_snapshot_id
from benchyard.client.plain_text import clean
from benchyard.errors import NotFound
from benchyard.models.blueprints import BlueprintStatus
from benchyard.models.launch import LaunchParameters
from benchyard.models.scenarios import ScenarioEnvironment, ScenarioView

_STATES = {BlueprintStatus.BUILD_COMPLETE: "built", BlueprintStatus.FAILED: "could not be built"}


def environment_facts(client: Client, view: ScenarioView) -> dict[str, object]:
    """Return the facts of a scenario's environment by label; None for unset ones."""
    environment = view.environment or ScenarioEnvironment()
    launch = environment.launch_parameters or LaunchParameters()
    user = launch.user_parameters
    return {
        "environment": _image(client, view),
        "working directory": environment.working_directory,
        "user": user.username if user else None,
        "size": _size(launch),
        "network": _network(client, view, launch),
        "limits": _limits(view),
        "tries": view.tries if (view.tries or 1) > 1 else None,
        "steps": ", ".join(clean(each.name) for each in view.steps or []) or None,
    }


def _image(client: Client, view: ScenarioView) -> str:
    origin = origin_of(client, view.environment, None)
    if not origin.kind:
        return "default image"
    told = f"{origin.kind} {origin.name}"
    id = view.environment.blueprint_id if view.environment else None
    if id is None or origin.kind == "image":
        return told
    try:
        made = client.blueprints.get(id)
    except NotFound:
        return told
    below = made.parameters.base_reference
    parts = [
        f"image {made.parameters.prebuilt_image}" if made.parameters.prebuilt_image else "",
        f"from {below}" if below else "",
        _STATES.get(made.status, "built when it is needed") if made.parameters.on_demand else "",
    ]
    more = ", ".join(clean(part) for part in parts if part)
    return f"{told} ({more})" if more else told


def _size(launch: LaunchParameters) -> str | None:
    parts = [
        f"{launch.custom_cpu_cores:g} cpu" if launch.custom_cpu_cores else "",
        f"{launch.custom_gb_memory} GB of memory" if launch.custom_gb_memory else "",
        f"{launch.custom_disk_size} GB of disk" if launch.custom_disk_size else "",
    ]
    usual = launch.resource_size_request
    return ", ".join(part for part in parts if part) or (usual.lower() if usual else None)


def _network(client: Client, view: ScenarioView, launch: LaunchParameters) -> str | None:
    """Return the policy of each phase that names one."""
    phases = {
        "setup": launch.network_policy_id,
        "agent": view.agent_network_policy or launch.network_policy_id,
        "scoring": view.scoring_network,
    }
    found = {phase: _policy_name(client, name) for phase, name in phases.items() if name}
    return ", ".join(f"{phase} {clean(name)}" for phase, name in found.items()) or None


def _policy_name(client: Client, given: str) -> str:
    named = client.network_policies.list(search=given, limit=100)
    return next((each.name for each in named if given in (each.id, each.name)), given)


def _limits(view: ScenarioView) -> str | None:
    parts = [
        f"agent {view.agent_timeout_sec:g} s" if view.agent_timeout_sec else "",
        f"scoring {view.scorer_timeout_sec:g} s" if view.scorer_timeout_sec else "",
    ]
    return ", ".join(part for part in parts if part) or None


COLUMNS: Mapping[str, Callable[[ScenarioView], object]] = {
    "ID": lambda view: view.id,
    "NAME": lambda view: view.name,
    "REVISION": lambda view: view.revision,
    "ISOLATION": lambda view: view.isolation,
    "SCORERS": lambda view: ", ".join(_types(view)),
    "AGE": lambda view: age(view.create_time_ms),
}
NARROW = Narrow(shorten=["NAME"], drop=["AGE", "REVISION", "SCORERS", "ISOLATION"])

folder_argument = click.argument(
    "folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR"
)
new_folder_argument = click.argument("folder", type=click.Path(path_type=Path), metavar="DIR")


@click.group()
def scenario() -> None:
    """Write, keep and check scenarios: a problem, a devbox, and how the result is graded.

    \b
      benchyard scenario new my-task
      benchyard scenario validate my-task
      benchyard scenario push my-task
    """


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
        views = [find_scenario(client, each) for each in given]
        named = ", ".join(f"{clean(view.name)!r}" for view in views)
        confirm(f"Delete {'scenario' if len(views) == 1 else 'scenarios'} {named}?", yes=yes)
        for view in views:
            show(client.scenarios.delete(view.id), output, f"{clean(view.name)}  deleted")


scenario.add_command(delete_scenario)


@scenario.command()
@new_folder_argument
def new(folder: Path) -> None:
    """Make a folder with a scenario that works, to be changed into another.

    \b
      benchyard scenario new my-task
    """
    check_folder_is_free(folder, force=False)
    write_template(folder)
    echo_sentence(
        f"{folder / NAME}  made; try it with `benchyard scenario validate {shlex.quote(str(folder))}`"
    )


@scenario.command()
@folder_argument
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@output_option
def push(folder: Path, dry_run: bool, output: str) -> None:
    """Make the server hold the scenario of a folder.

    A scenario of the same name is changed: it keeps its id, and its revision counts up. Where nothing
    differs, nothing is done. A Dockerfile is built if it was not built before.

    \b
      benchyard scenario push my-task --dry-run
      benchyard scenario push my-task
    """
    with connect() as client:
        pushed = client.scenarios.push(folder, dry_run=dry_run, progress=TERMINAL)
    show(pushed.data(), output, "\n".join(wrap_details(pushed.lines())))


@scenario.command()
@click.argument("given", metavar="ID|NAME")
@new_folder_argument
@click.option("--force", is_flag=True, help="Overwrite what is in the folder.")
def pull(given: str, folder: Path, force: bool) -> None:
    """Write a scenario of the server as a folder; pushed again it changes nothing.

    \b
      benchyard scenario pull my-task copy-of-my-task
      benchyard scenario pull quickstart/fix-a-bug fix-a-bug
    """
    check_folder_is_free(folder, force=force)
    with connect() as client:
        view = client.scenarios.pull(given, folder, force=force)
    echo_sentence(f"{folder / NAME}  {view.id}, revision {view.revision}")


private_option = click.option(
    "--private",
    is_flag=True,
    help="Also write sets whose authors ask not to publish them in plain text; keep the folder to yourself.",
)


@scenario.command()
@click.argument("given", metavar="ID|NAME")
@new_folder_argument
@private_option
@click.option("--force", is_flag=True, help="Overwrite what is in the folder.")
@output_option
def export(given: str, folder: Path, private: bool, force: bool, output: str) -> None:
    """Write a scenario as a Harbor task folder.

    \b
      benchyard scenario export quickstart/fix-a-bug fix-a-bug
      benchyard benchmark import fix-a-bug
    """
    check_folder_is_free(folder, force=force)
    with connect() as client:
        done = client.scenarios.export(given, folder, private=private, force=force)
    show(done.data(), output, "\n".join(done.lines()))


@scenario.command("list")
@click.option("--public", is_flag=True, help="List those that come with the server.")
@click.option("--search", help="Only those with this in their name.")
@click.option("--limit", type=IntRange(min=1), default=100, show_default=True, help="List at most this many.")
@output_option
def list_(public: bool, search: str | None, limit: int, output: str) -> None:
    """List scenarios, newest first.

    \b
      benchyard scenario list
      benchyard scenario list --public --search bug -o json
    """
    with connect() as client:
        found = client.scenarios.list_public if public else client.scenarios.list
        size = min(limit, PAGE_SIZE)
        every = found(search=search, limit=size) if search else found(limit=size)
        show_many(
            islice(every, limit),
            output,
            COLUMNS,
            none="no scenarios; make one with `benchyard scenario new`",
            narrow=NARROW,
        )


@scenario.command("show")
@click.argument("given", metavar="ID|NAME")
@output_option
def show_(given: str, output: str) -> None:
    """Show one scenario, by id or name.

    \b
      benchyard scenario show quickstart/fix-a-bug
    """
    with connect() as client:
        show_scenario(client, find_scenario(client, given), output)


def show_scenario(client: Client, view: ScenarioView, output: str) -> None:
    """Show a scenario: its task, its environment, and its grading."""
    show(view, output, _description(client, view) if output == "text" else "")


@scenario.command()
@click.argument("given", nargs=-1, required=True, metavar="ID|NAME...")
def archive(given: Sequence[str]) -> None:
    """Hide scenarios from lists; they cannot be run or changed any more.

    \b
      benchyard scenario archive my-task
    """
    with connect() as client:
        for view in [find_scenario(client, each) for each in given]:
            client.scenarios.archive(view.id)
            click.echo(f"{view.id}  archived")


@scenario.command()
@click.argument("given", nargs=-1, required=True, metavar="ID|NAME|PATH...")
@validation.validate_options
@output_option
def validate(given: Sequence[str], output: str, **options: Any) -> None:
    """Show that scenarios can be solved, and not by doing nothing.

    The reference output must score 1.0, doing nothing `nop_score` (0 by default), each twice with the
    same result. The strictest isolation in which this holds is found (answer, system, clean, live), and is
    stored with a scenario of the server. Exits with 1 if a scenario is not valid. A folder is tried as a
    scenario with a name of its own, which is archived afterwards.

    \b
      benchyard scenario validate my-task/
      benchyard scenario validate quickstart/fix-a-bug -o json
    """
    wanted = validation.validation_options(**options)
    with connect() as client:
        results = client.scenarios.validate(*given, **wanted)
    validation.show_validation(results, output)


@scenario.command("from-snapshot")
@click.argument("snapshot")
@new_folder_argument
@click.option("--working-directory", help="Where work is done; the user's home if not given.")
def from_snapshot(snapshot: str, folder: Path, working_directory: str | None) -> None:
    """Make a folder with a scenario that begins with a snapshot of a devbox prepared by hand.

    \b
      benchyard snapshot create box --name prepared
      benchyard scenario from-snapshot prepared my-task \\
          --working-directory /home/user/project
    """
    check_folder_is_free(folder, force=False)
    with connect() as client:
        found = find_snapshot_id(client, snapshot)
    write_snapshot_scenario(folder, found, working_directory)
    echo_sentence(f"{folder / NAME}  made; write problem.md, the scorers and reference.sh")


def write_template(folder: Path) -> None:
    """Copy the template, and set its name."""
    for source in builtin_benchmarks.files(builtin_benchmarks.TEMPLATE):
        target = folder / source.relative_to(builtin_benchmarks.TEMPLATE)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    file = folder / NAME
    name = dump_yaml(slug(folder.resolve().name)).removesuffix("...\n").strip()
    file.write_text(file.read_text().replace("name: NAME", f"name: {name}", 1))


def _types(view: ScenarioView) -> list[str]:
    functions = view.scoring_contract.scoring_function_parameters
    return [str(each.scorer.get("type", "")).removesuffix("_scorer") for each in functions]


def _description(client: Client, view: ScenarioView) -> str:
    functions = view.scoring_contract.scoring_function_parameters
    head = facts(
        {
            "id": view.id,
            "name": view.name,
            "status": view.status,
            "revision": view.revision,
            "public": "yes" if view.is_public else None,
            **environment_facts(client, view),
            "scorers": ", ".join(
                f"{each.name} ({type}, {each.weight:g})"
                for each, type in zip(functions, _types(view), strict=True)
            ),
            "isolation": f"{view.isolation} ({view.isolation_reason})",
            "answer": ", ".join(view.answer_paths or []),
            "nothing scores": view.nop_score,
            "reference": "yes" if view.reference_output else "no",
            "validation": view.validation_type,
            "needs variables": ", ".join(view.required_environment_variables or []),
            "needs secrets": ", ".join(view.required_secret_names or []),
            "created": when(view.create_time_ms),
            "metadata": pairs(view.metadata),
        }
    )
    statement = "\n".join(clean(line) for line in view.input_context.problem_statement.splitlines())
    return f"{head}\n\n{statement}"
