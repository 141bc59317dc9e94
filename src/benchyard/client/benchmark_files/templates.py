"""Folders of new scenarios and benchmarks, to be changed into others."""

import shutil
from pathlib import Path

from benchyard.benchmarks import builtin_benchmarks
from benchyard.benchmarks.files import benchmark_file, scenario_file
from benchyard.benchmarks.files.writer import FolderContents, dump_yaml, slug
from benchyard.client.benchmark_files.folders import check_folder_is_free

FIRST = "first-task"
"""Folder of a new benchmark's scenario."""


def new_scenario(folder: Path) -> Path:
    """Make a folder with a scenario that works; returns the path of its file."""
    check_folder_is_free(folder, force=False)
    for source in builtin_benchmarks.files(builtin_benchmarks.TEMPLATE):
        target = folder / source.relative_to(builtin_benchmarks.TEMPLATE)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    file = folder / scenario_file.NAME
    name = dump_yaml(slug(folder.resolve().name)).removesuffix("...\n").strip()
    file.write_text(file.read_text().replace("name: NAME", f"name: {name}", 1))
    return file


def new_benchmark(folder: Path) -> Path:
    """Make a folder with a benchmark of one scenario that works; returns the path of its file."""
    check_folder_is_free(folder, force=False)
    new_scenario(folder / FIRST)
    name = slug(folder.resolve().name)
    contents = FolderContents({"name": name, "description": "What it measures.", "scenarios": [FIRST]})
    contents.write(folder, benchmark_file.NAME)
    return folder / benchmark_file.NAME


def new_snapshot_scenario(folder: Path, snapshot_id: str, working_directory: str | None) -> Path:
    """Make the folder of a scenario that starts from a snapshot of a devbox; returns the path of its file."""
    check_folder_is_free(folder, force=False)
    environment = {"snapshot": snapshot_id}
    if working_directory:
        environment["working_directory"] = working_directory
    scorer = {"name": "check", "type": "command_scorer", "weight": 1.0, "command": "test -e done.txt"}
    contents = FolderContents(
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
    return folder / scenario_file.NAME
