"""What the scenarios of the SWE-bench family have in common."""

import re
from typing import Any

from benchyard.benchmarks import swe_rows
from benchyard.benchmarks.swe_rows import Row
from benchyard.errors import DatasetError
from benchyard.models.launch import LaunchParameters, Size, UserParameters
from benchyard.models.scenarios import ScenarioEnvironment, ScoringContract, ScoringFunction

_ITEM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def checked_item(row: Row) -> str:
    """The name of a row, which becomes one of a folder."""
    item = swe_rows.text(row, "instance_id")
    if not _ITEM.fullmatch(item):
        raise DatasetError(f"instance_id {item[:100]!r} is not a name")
    return item


def checked_commit(row: Row) -> str:
    """The commit that the work begins at."""
    commit = swe_rows.text(row, "base_commit")
    if not _COMMIT.fullmatch(commit):
        raise DatasetError(f"base_commit {commit[:100]!r} is not a commit")
    return commit


def contract(type: str, **fields: str) -> ScoringContract:
    """A contract of one scorer."""
    function = ScoringFunction(name="resolved", weight=1.0, scorer={"type": type, **fields})
    return ScoringContract(scoring_function_parameters=[function])


def environment(directory: str) -> ScenarioEnvironment:
    """The devbox: as root, as the official images have it."""
    root = UserParameters(username="root", uid=0)
    launch = LaunchParameters(user_parameters=root, resource_size_request=Size.MEDIUM)
    return ScenarioEnvironment(working_directory=directory, launch_parameters=launch)


def answer_rules(directory: str) -> dict[str, Any]:
    """What is taken for the answer: the files of the repository, and nothing of its history."""
    return {
        "scoring_isolation": "answer",
        "answer_paths": [directory],
        "answer_excludes": [f"{directory}/.git"],
    }
