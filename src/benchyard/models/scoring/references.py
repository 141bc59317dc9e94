"""Reference outputs: solutions of scenarios, as a diff or as a script."""

import posixpath
import re
import shlex
from typing import Literal

from benchyard.models.scenarios import ScenarioRequest, ScenarioView

DIRECTION_KEY = "reference_patch_direction"
"""Metadata key by which scenarios of the original say that their diff must be reversed."""

Kind = Literal["diff", "script", "expected"]

_DIFF = re.compile(
    r"^(diff --git .+|--- \S.*\n\+\+\+ \S.*\n@@ -\d+(,\d+)? \+\d+(,\d+)? @@.*)$",
    re.MULTILINE,
)
_HEADS = re.compile(r"^(diff |Index: |--- |From [0-9a-f]{7,}|From: )")

_PATCH = """\
cd -- {directory} || exit 1
if command -v patch >/dev/null 2>&1; then
    patch -p1 --batch --forward{reverse} --no-backup-if-mismatch --input={file}
elif command -v git >/dev/null 2>&1; then
    git apply -p1{reverse} -- {file}
else
    echo "the image has neither patch nor git, one of which a diff needs" >&2
    exit 127
fi
"""
_ANSWER = """\
mkdir -p -- "$(dirname -- {path})" && cat -- {file} > {path}
"""
_PATCH_REVERSE = _PATCH.replace(" --forward", "")


def is_diff(text: str) -> bool:
    """Tell whether a text is a unified diff: it begins like a diff and contains a hunk."""
    return bool(_HEADS.match(text.lstrip())) and bool(_DIFF.search(text))


def kind(scenario: ScenarioRequest | ScenarioView) -> Kind:
    """Return the kind of a scenario's reference output: see docs/adr/0018."""
    if scenario.validation_type == "EVALUATION":
        return "expected"
    return "diff" if is_diff(scenario.reference_output or "") else "script"


def is_reversed(scenario: ScenarioRequest | ScenarioView) -> bool:
    """Tell whether the diff removes the solution instead of adding it."""
    return (
        scenario.validation_type == "REVERSE"
        or (scenario.metadata or {}).get(DIRECTION_KEY, "").lower() == "reverse"
    )


def file_name(scenario: ScenarioRequest | ScenarioView) -> str:
    """Return the file name of the reference output in a scenario's folder."""
    return {"diff": "reference.patch", "script": "reference.sh", "expected": "reference.txt"}[kind(scenario)]


FILE_NAMES = ("reference.patch", "reference.sh", "reference.txt")


def answer_path(scenario: ScenarioView) -> str | None:
    """Return the path for an expected answer: the answer path of a scenario that has exactly one."""
    paths = scenario.answer_paths or []
    if scenario.isolation != "answer" or len(paths) != 1:
        return None
    directory = scenario.environment.working_directory if scenario.environment else None
    return posixpath.join(directory or "", paths[0])


def application(scenario: ScenarioView, file: str) -> str | None:
    """Return the command that applies the reference output, which lies in this file of the devbox.

    Returns None if it is an expected answer and the scenario gives no path for it.
    """
    if kind(scenario) != "expected":
        return command(scenario, file)
    path = answer_path(scenario)
    return path and _ANSWER.format(path=shlex.quote(path), file=shlex.quote(file))


def command(scenario: ScenarioView, file: str) -> str:
    """Return the command that applies a diff or runs a script, which lies in this file of the devbox."""
    directory = scenario.environment.working_directory if scenario.environment else None
    where = shlex.quote(directory) if directory else '"$HOME"'
    if kind(scenario) == "script":
        return f"cd -- {where} && bash {shlex.quote(file)}"
    template = _PATCH_REVERSE if is_reversed(scenario) else _PATCH
    reverse = " -R" if is_reversed(scenario) else ""
    return template.format(directory=where, file=shlex.quote(file), reverse=reverse)
