"""Pulling: writes what the server holds as folders that, pushed again, change nothing."""

from pathlib import Path
from typing import Any

from benchyard.benchmarks import benchmark_folder, scenario_file
from benchyard.benchmarks.writing import Contents, scenario_contents, slug, write_scenario
from benchyard.cli.environments import origin_of
from benchyard.cli.pushing import custom_scorer
from benchyard.client.client import Client
from benchyard.errors import UsageError
from benchyard.models.benchmarks import BenchmarkView
from benchyard.models.scenarios import ScenarioView, functions_of

_OPTIONAL = (
    "description",
    "attribution",
    "required_environment_variables",
    "required_secret_names",
    "metadata",
)


def check_free(folder: Path, *, force: bool) -> None:
    """Refuse a folder that has something in it already, unless that may be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    if not force and folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; choose another folder, or overwrite with --force")


def pull_scenario(client: Client, view: ScenarioView, folder: Path) -> None:
    """Write a scenario's folder."""
    scripts = {}
    for function in functions_of(view):
        type = function.scorer.get("custom_scorer_type")
        if function.scorer.get("type") == "custom_scorer" and isinstance(type, str):
            found = custom_scorer(client, type)
            if found is not None:
                scripts[type] = found.bash_script
    image = Contents({})
    origin = origin_of(client, view.environment, image)
    contents = scenario_contents(view, origin, scripts)
    contents.files.update(image.files)
    write_scenario(folder, contents)


def pull_benchmark(client: Client, view: BenchmarkView, folder: Path) -> int:
    """Write a benchmark's folder with those of its own scenarios; returns how many these are."""
    data: dict[str, Any] = {"name": view.name}
    data |= {name: value for name in _OPTIONAL if (value := getattr(view, name))}
    entries: list[Any] = []
    taken: set[str] = set()
    for scenario in client.benchmarks.definitions(view.id, limit=100):
        if scenario.is_public or scenario.status == "archived":
            entries.append({"id": scenario.id})
            continue
        name = _free(slug(scenario.name), taken)
        pull_scenario(client, scenario, folder / name)
        entries.append(name)
    Contents({**data, "scenarios": entries}).write(folder, benchmark_folder.NAME)
    return len(taken)


def new_from_snapshot(folder: Path, snapshot: str, working_directory: str | None) -> None:
    """Write the folder of a scenario that begins with what a devbox had on its disk."""
    environment = {"snapshot": snapshot}
    if working_directory:
        environment["working_directory"] = working_directory
    scorer = {"name": "check", "type": "command_scorer", "weight": 1.0, "command": "test -e done.txt"}
    contents = Contents(
        {
            "name": slug(folder.resolve().name),
            "environment": environment,
            "scorers": [scorer],
            "isolation": "auto",
        }
    )
    contents.add("problem.md", "Create a file `done.txt` in the working directory.\n")
    contents.add("reference.sh", "touch done.txt\n")
    contents.write(folder, scenario_file.NAME)


def _free(name: str, taken: set[str]) -> str:
    found, count = name, 1
    while found in taken:
        count += 1
        found = f"{name}-{count}"
    taken.add(found)
    return found
