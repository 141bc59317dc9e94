"""Solutions: the folder `solution/` of a Harbor task as the one script that a scenario keeps, and back."""

import base64
import binascii
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchyard.errors import UsageError
from benchyard.models.scenarios import ScenarioView
from benchyard.models.scoring import references
from benchyard.models.scoring.attachments import PackedFile, pack_files, unpack_files

SOLVE_SCRIPT = "solve.sh"
MOST_REFERENCE_BYTES = 1024**2
"""Most bytes of a solution as a script that contains its files."""
_WIDTH = 76
_PROGRAM = 0o755
_SCRIPT = """\
# The files of the solution are in this script; how it ends is what its tests say.
here=/solution; {{ mkdir -p "$here" && [ -w "$here" ]; }} 2>/dev/null || here=$(mktemp -d) || exit 1
base64 -d <<'END' | tar -xzf - -C "$here" || exit 1
{archive}END
chmod +x "$here/solve.sh"
export DEBIAN_FRONTEND=noninteractive
{exports}"$here/solve.sh"
status=$?
[ "$status" -eq 0 ] || echo "the solution ended with $status" >&2
exit 0
"""
_PARTS = re.compile(
    r"base64 -d <<'END' .*\n(?P<archive>[A-Za-z0-9+/=\n]*)END\n.*\n"
    r"export DEBIAN_FRONTEND=noninteractive\n(?P<exports>[\s\S]*)\"\$here/solve\.sh\"\nstatus=",
)
_SOLVE = """\
#!/bin/bash
# {about}
here=$(cd -- "$(dirname -- "$0")" && pwd) || exit 1
{command}
"""
_ABOUT = {
    "diff": "Applies the reference solution, which is a diff.",
    "script": "Runs the reference solution.",
    "expected": "Writes the answer that is expected.",
}
_PLACE = "/solution/"


@dataclass(frozen=True)
class Solution:
    """The files of `solution/`, and the variables for its script."""

    files: Mapping[str, PackedFile]
    env: Mapping[str, str] = field(default_factory=dict)


def script(solution: Solution) -> str | None:
    """Return a solution as one script; None if that is too large."""
    exports = "".join(f"export {key}={shlex.quote(value)}\n" for key, value in solution.env.items())
    encoded = base64.b64encode(pack_files(solution.files)).decode()
    lines = "".join(f"{encoded[at : at + _WIDTH]}\n" for at in range(0, len(encoded), _WIDTH))
    made = _SCRIPT.format(archive=lines, exports=exports)
    return made if len(made) <= MOST_REFERENCE_BYTES else None


def read_back(text: str) -> Solution | None:
    """Return the solution that `script` turned into this text; None for any other script."""
    match = _PARTS.search(text)
    if match is None:
        return None
    try:
        archive = base64.b64decode(match["archive"].replace("\n", ""), validate=True)
        words = shlex.split(match["exports"])
        solution = Solution(
            dict(unpack_files(archive)),
            dict(word.split("=", 1) for word in words if word != "export"),
        )
    except (ValueError, binascii.Error, UsageError):
        return None
    # A script written by hand may only look like one of ours.
    return solution if script(solution) == text else None


def solution_of_reference(view: ScenarioView) -> Solution | None:
    """Return the reference output as a task's solution folder; None without one, or without its path."""
    text = view.reference_output
    if not text:
        return None
    known = read_back(text)
    if known is not None:
        return known
    kind = references.kind(view)
    name = references.file_name(view)
    if kind == "expected":
        path = references.answer_path(view)
        if path is None:
            return None
        place = shlex.quote(path)
        command = f'mkdir -p -- "$(dirname -- {place})" && cat -- {_PLACE}{name} > {place}'
    else:
        command = references.command(view, f"{_PLACE}{name}").rstrip()
    command = command.replace(f"{_PLACE}{name}", f'"$here/{name}"')
    solve = _SOLVE.format(about=_ABOUT[kind], command=command)
    return Solution(
        {SOLVE_SCRIPT: PackedFile(solve.encode(), _PROGRAM), name: PackedFile(text.encode())},
    )
