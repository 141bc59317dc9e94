"""`benchyard benchmark show` and `benchyard scenario show`."""

from collections import Counter
from collections.abc import Iterator, Sequence

import click

from benchyard.cli.benchmark.scenario import scorer_types
from benchyard.cli.connection import connect
from benchyard.cli.render import echo_sentence, facts, output_option, pairs, print_table, show, when
from benchyard.cli.table import Narrow
from benchyard.client.benchmark_files.environments import origin_of
from benchyard.client.client import Client
from benchyard.client.lookup import find_benchmark, find_scenario
from benchyard.client.plain_text import clean
from benchyard.errors import NotFound
from benchyard.models.benchmarks import BenchmarkView
from benchyard.models.blueprints import BlueprintStatus
from benchyard.models.launch import LaunchParameters
from benchyard.models.scenarios import ScenarioEnvironment, ScenarioView

_STATES = {BlueprintStatus.BUILD_COMPLETE: "built", BlueprintStatus.FAILED: "could not be built"}
_CATEGORY_KEYS = ("category", "categories", "difficulty", "domain", "language", "year", "repo")


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


@click.command("show")
@click.argument("given", metavar="ID|NAME")
@output_option
def show_scenario_command(given: str, output: str) -> None:
    """Show one scenario, by id or name.

    \b
      benchyard scenario show quickstart/fix-a-bug
    """
    with connect() as client:
        show_scenario(client, find_scenario(client, given), output)


def show_scenario(client: Client, view: ScenarioView, output: str) -> None:
    """Show a scenario: its task, its environment, and its grading."""
    show(view, output, _description(client, view) if output == "text" else "")


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
                for each, type in zip(functions, scorer_types(view), strict=True)
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


@click.command("show")
@click.argument("given", metavar="ID|NAME")
@click.option("--scenario", "item", metavar="ID|NAME", help="Show one scenario: its prompt and environment.")
@output_option
def show_benchmark(given: str, item: str | None, output: str) -> None:
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
            click.echo(_benchmark_facts(view))
            if (command := view.metadata.get("benchyard.import")) and not view.scenario_ids:
                click.echo()
                echo_sentence(f"it is not imported yet; type `{clean(command)}`")
                return
            definitions = list(client.benchmarks.definitions(view.id, limit=1000))
            for line in _categories(definitions):
                click.echo(line)
            rows = [
                [
                    definition.id,
                    clean(definition.name),
                    definition.isolation,
                    clean(definition.isolation_reason),
                ]
                for definition in definitions
            ]
            print_table(["SCENARIO", "NAME", "ISOLATION", "WHY"], rows, Narrow(["NAME"], ["SCENARIO", "WHY"]))
            return
    show(view, output, "")


def _find_item(client: Client, view: BenchmarkView, given: str) -> ScenarioView:
    """Return the scenario of a benchmark with that name, with or without the benchmark's name before it."""
    for definition in client.benchmarks.definitions(view.id, limit=1000):
        if given in (
            definition.id,
            definition.name,
            definition.name.rpartition("/")[2],
            definition.name.partition("/")[2],
        ):
            return definition
    raise NotFound(f"{view.name} has no scenario {given!r}; see `benchyard benchmark show {view.name}`")


def _categories(scenarios: Sequence[ScenarioView]) -> Iterator[str]:
    """Yield the number of scenarios in each category of their metadata."""
    for key in _CATEGORY_KEYS:
        counts = Counter(scenario.metadata[key] for scenario in scenarios if scenario.metadata.get(key))
        if len(counts) > 1:
            told = ", ".join(f"{clean(name)} ({count})" for name, count in counts.most_common(20))
            yield f"{key + ':':<19}{told}"


def _benchmark_facts(view: BenchmarkView) -> str:
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
