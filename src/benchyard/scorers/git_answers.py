"""Answers that are changes of a git repository: drawn as a diff and applied, by the server or by a script."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchyard.errors import ScorerFailed
from benchyard.scorers import score
from benchyard.scorers.base import MOST_OUTPUT_BYTES, ProgramOptions, Room, RoomResult
from benchyard.workers.workers import WorkerCall

MOST_PATCH_BYTES = 32 * 1024**2
MOST_PATHS_BYTES = 4 * 1024**2
ROOT = "root"

ALONE = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "4",
    "GIT_CONFIG_KEY_0": "safe.directory",
    "GIT_CONFIG_VALUE_0": "*",
    "GIT_CONFIG_KEY_1": "core.hooksPath",
    "GIT_CONFIG_VALUE_1": "/dev/null",
    "GIT_CONFIG_KEY_2": "core.fsmonitor",
    "GIT_CONFIG_VALUE_2": "false",
    "GIT_CONFIG_KEY_3": "core.quotePath",
    "GIT_CONFIG_VALUE_3": "false",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "LC_ALL": "C",
}
"""Variables that make git ignore the configuration of the image and of any home."""
DIFF = ("diff", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
_CHANGED_PATHS = "benchyard.scorers.standalone.parsers:changed_paths"
_WORK = "/run/benchyard-git"
_SETUP_NAMES = frozenset(
    (
        *("conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "noxfile.py"),
        *("sitecustomize.py", "usercustomize.py", ".coveragerc"),
        *("jest.config.js", "jest.config.ts", ".mocharc.yml", ".mocharc.js"),
    )
)
"""Names of files that configure tests: changing them may change which tests pass."""


@dataclass(frozen=True)
class DrawnDiff:
    """Difference between the working directory of an answer and the commit it began with."""

    diff: bytes | None
    """The diff; None if it is too large."""
    trouble: str = ""
    """Reason why the diff is missing or incomplete; empty if all is well."""


async def draw(room: Room) -> DrawnDiff:
    """Return the changes in the working directory's repository, with new files and without ignored ones."""
    added = await run(room, ("git", "add", "--all", "--ignore-errors", "--", "."))
    trouble = "" if added.exit_status == 0 else f"git add: {_last_line(added)}"
    ran = await run(room, ("git", *DIFF, "--cached", "HEAD"), most=MOST_PATCH_BYTES + 1)
    if added.timed_out or ran.timed_out:
        return DrawnDiff(None, "git took longer than the scorer has")
    if ran.exit_status != 0:
        raise score.failure("the repository of the image cannot be read; is it the scenario's image?", ran)
    if ran.truncated or len(ran.stdout) > MOST_PATCH_BYTES:
        return DrawnDiff(None, f"the diff is larger than {MOST_PATCH_BYTES} bytes")
    return DrawnDiff(ran.stdout, trouble)


async def check(room: Room, commit: str) -> None:
    """Raise ScorerFailed, with the remedy, unless the pristine repository has the commit."""
    ran = await run(room, ("git", "rev-parse", "--quiet", "--verify", f"{commit}^{{commit}}"))
    if ran.exit_status in (126, 127):
        raise score.failure("the image has no git, which the answer is drawn with", ran)
    if ran.exit_status != 0:
        raise score.failure(
            f"{room.working_directory} has no repository with the base commit {commit}; "
            "start the scenario from its own image",
            ran,
        )


async def patch_of(room: Room, drawn: bytes) -> bytes:
    """Reduce a drawn diff to the answer's own changes, in a pristine room.

    Differences that the image already had from its commit are left out.
    """
    await room.clear(_WORK)
    diff = await room.keep("drawn.diff", drawn)
    began, left = {"GIT_INDEX_FILE": f"{_WORK}/began"}, {"GIT_INDEX_FILE": f"{_WORK}/left"}
    await _sure(room, "read-tree", "HEAD", env=began)
    await run(room, ("git", "add", "--all", "--ignore-errors", "--", "."), began)
    await _sure(room, "read-tree", "HEAD", env=left)
    if drawn:
        applied = await run(room, ("git", "apply", "--cached", "--whitespace=nowarn", diff), left)
        if applied.exit_status != 0:
            # The ways to apply a patch, tried later, decide whether it applies at all.
            return drawn
    trees = [(await _sure(room, "write-tree", env=index)).stdout.decode().strip() for index in (began, left)]
    return (await _sure(room, *DIFF, *trees, most=MOST_PATCH_BYTES)).stdout


async def changed_paths(
    room: Room, patch_file: str, tests: Iterable[str], call: WorkerCall
) -> tuple[int, list[str]]:
    """Return how many paths a patch changes, and those of them that configure tests or are graded tests."""
    listed = await run(room, ("git", "apply", "--numstat", "-z", patch_file), most=MOST_PATHS_BYTES)
    parameters = {"flagged": list(tests), "flagged_names": list(_SETUP_NAMES)}
    paths = await call(_CHANGED_PATHS, listed.stdout, parameters)
    return paths["total"], paths["flagged"]


async def run(
    room: Room,
    argv: Sequence[str],
    env: dict[str, str] | None = None,
    most: int = MOST_OUTPUT_BYTES,
) -> RoomResult:
    """Run a command on the repository as root, with no git configuration but `ALONE`."""
    return await room.run(argv, ProgramOptions(env={**ALONE, **(env or {})}, user=ROOT, most_output=most))


async def _sure(
    room: Room, *arguments: str, env: dict[str, str] | None = None, most: int = MOST_OUTPUT_BYTES
) -> RoomResult:
    ran = await run(room, ("git", *arguments), env, most)
    if ran.exit_status != 0:
        raise ScorerFailed(f"git {arguments[0]}: {_last_line(ran)}", output=score.output(ran))
    return ran


def _last_line(ran: RoomResult) -> str:
    lines = [line for line in ran.stderr.splitlines() if line.strip()]
    return score.quote(lines[-1]) if lines else f"exit status {ran.exit_status}"


WAYS: tuple[tuple[str, ...], ...] = (
    ("git", "apply", "--verbose"),
    ("git", "apply", "--verbose", "--3way"),
    ("git", "apply", "--verbose", "--reject"),
    ("patch", "--batch", "--forward", "--fuzz=5", "-p1", "-i"),
)
_ANEW: tuple[tuple[str, ...], ...] = (("git", "checkout", "--", "."), ("git", "clean", "-fd"))
"""Commands that remove the files left by a failed way of applying, before the next is tried."""
_IS_APPLIED = ("git", "apply", "--check", "--reverse")


async def apply_patch(room: Room, patch_file: str) -> tuple[str, RoomResult]:
    """Apply a patch; return the way that worked, empty if none did, and the result of the last try."""
    for number, way in enumerate(WAYS):
        if number:
            await _each(room, _ANEW)
        tried = await run(room, (*way, patch_file))
        if tried.exit_status == 0:
            return " ".join(way), tried
    checked = await run(room, (*_IS_APPLIED, patch_file))
    return ("already applied" if checked.exit_status == 0 else ""), tried


async def _each(room: Room, commands: Sequence[Sequence[str]]) -> None:
    for command in commands:
        await run(room, command)


_NOTHING = '{"resolved": 0, "fail_to_pass": 0, "pass_to_pass": 0}'
"""Rewards of an answer that changes nothing."""
_AROUND_SECONDS = 120
"""Seconds reserved for work other than the tests."""
_SCRIPT = """\
alone() {{ env {values} "$@"; }}
nothing() {{ echo "$1"; echo '{nothing}' > "$logs/$name.out"; }}
alone git rev-parse --quiet --verify '{commit}^{{commit}}' > /dev/null || fail "$name: {commit} is not here"
alone git add --all --ignore-errors -- . 2>> "$logs/$name.err"
alone {diff} > "$work/drawn.diff" || fail "$name: the repository cannot be read"
alone git reset --quiet --hard HEAD && alone git clean -fdq || fail "$name: the repository cannot be reset"
if [ -s "$work/drawn.diff" ]; then
{graded}
else
    nothing "the answer changes nothing"
fi
cat "$logs/$name.out"
rewarded "$name" "$weight" resolved
"""


def export_lines(commit: str, graded: str) -> str:
    """Return script lines that draw an answer into `$work/drawn.diff`, reset the repository, and grade it.

    `graded` are the lines that grade: they print rewards to `$logs/$name.out`, or call `nothing` with a
    reason.
    """
    return _SCRIPT.format(
        values=" ".join(f"{name}={shlex.quote(value)}" for name, value in ALONE.items()),
        nothing=_NOTHING,
        commit=commit,
        diff=shlex.join(("git", *DIFF, "--cached", "HEAD")),
        graded=graded.rstrip("\n"),
    )


def seconds_for_tests(seconds: float) -> int:
    """Return the seconds of a scorer's time that its tests may take."""
    return max(round(seconds) - _AROUND_SECONDS, _AROUND_SECONDS)


def apply_lines() -> str:
    """Return script lines that try the official ways to apply `$work/drawn.diff`, and set `$applied`."""
    ways = " ".join(shlex.quote(shlex.join(way)) for way in WAYS)
    return f"""\
applied=
for way in {ways}; do
    if alone $way "$work/drawn.diff" >> "$logs/$name.err" 2>&1; then applied=$way; break; fi
    alone git checkout --quiet -- . ; alone git clean -fdq
done
"""
