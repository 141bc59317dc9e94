"""Answers that are changes of a git repository: drawn as a diff, told apart from what was there, applied.

The `.git` that commands work with is the image's own (`answer_excludes` sees to that), so nothing that was
done to hooks, configuration or history of the devbox counts or runs. Configuration comes from `ALONE` only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchyard.errors import ScorerFailed
from benchyard.scorers import score
from benchyard.scorers.base import MOST_OUTPUT_BYTES, How, Ran, Room
from benchyard.workers.workers import Call

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
"""Git as it comes, whatever an image or a home says."""
DIFF = ("diff", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
_CHANGED_PATHS = "benchyard.scorers.parsers:changed_paths"
_WORK = "/run/benchyard-git"
_SETUP_NAMES = frozenset(
    (
        *("conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "noxfile.py"),
        *("sitecustomize.py", "usercustomize.py", ".coveragerc"),
        *("jest.config.js", "jest.config.ts", ".mocharc.yml", ".mocharc.js"),
    )
)
"""Files by which tests are set up: who changes them may change what passes."""


@dataclass(frozen=True)
class Drawn:
    """What the working directory of an answer differs in from the commit it began with."""

    diff: bytes | None
    """None where there is too much of it."""
    trouble: str = ""
    """Why there is none, or not all of it; nothing where all is well."""


async def draw(room: Room) -> Drawn:
    """The difference of the repository in the working directory; new files are in it, ignored ones not."""
    added = await run(room, ("git", "add", "--all", "--ignore-errors", "--", "."))
    trouble = "" if added.exit_status == 0 else f"git add: {_last_line(added)}"
    found = await run(room, ("git", *DIFF, "--cached", "HEAD"), most=MOST_PATCH_BYTES + 1)
    if added.timed_out or found.timed_out:
        return Drawn(None, "git took longer than the scorer has")
    if found.exit_status != 0:
        raise score.failed("the repository of the image cannot be read; is it the scenario's image?", found)
    if found.truncated or len(found.stdout) > MOST_PATCH_BYTES:
        return Drawn(None, f"the diff is larger than {MOST_PATCH_BYTES} bytes")
    return Drawn(found.stdout, trouble)


async def check(room: Room, commit: str) -> None:
    """See to it that the pristine repository has a commit; raises ScorerFailed with what to do."""
    found = await run(room, ("git", "rev-parse", "--quiet", "--verify", f"{commit}^{{commit}}"))
    if found.exit_status in (126, 127):
        raise score.failed("the image has no git, which the answer is drawn with", found)
    if found.exit_status != 0:
        raise score.failed(
            f"{room.working_directory} has no repository with the base commit {commit}; "
            "start the scenario from its own image",
            found,
        )


async def patch_of(room: Room, drawn: bytes) -> bytes:
    """The changes of a drawn diff alone, in a pristine room: without what the image had beside its commit."""
    await room.clear(_WORK)
    diff = await room.keep("drawn.diff", drawn)
    began, left = {"GIT_INDEX_FILE": f"{_WORK}/began"}, {"GIT_INDEX_FILE": f"{_WORK}/left"}
    await _sure(room, "read-tree", "HEAD", env=began)
    await run(room, ("git", "add", "--all", "--ignore-errors", "--", "."), began)
    await _sure(room, "read-tree", "HEAD", env=left)
    if drawn:
        applied = await run(room, ("git", "apply", "--cached", "--whitespace=nowarn", diff), left)
        if applied.exit_status != 0:
            # Whether it applies at all is told by the chain.
            return drawn
    trees = [(await _sure(room, "write-tree", env=index)).stdout.decode().strip() for index in (began, left)]
    return (await _sure(room, *DIFF, *trees, most=MOST_PATCH_BYTES)).stdout


async def changed_paths(
    room: Room, patch_file: str, tests: Iterable[str], call: Call
) -> tuple[int, list[str]]:
    """How many paths a patch changes; those by which tests are set up, and the tests that are graded."""
    listed = await run(room, ("git", "apply", "--numstat", "-z", patch_file), most=MOST_PATHS_BYTES)
    wanted = {"flagged": list(tests), "flagged_names": list(_SETUP_NAMES)}
    found = await call(_CHANGED_PATHS, listed.stdout, wanted)
    return found["total"], found["flagged"]


async def run(
    room: Room,
    argv: Sequence[str],
    env: dict[str, str] | None = None,
    most: int = MOST_OUTPUT_BYTES,
) -> Ran:
    """A command over the repository, as root, with nothing but our own configuration of git."""
    return await room.run(argv, How(env={**ALONE, **(env or {})}, user=ROOT, most_output=most))


async def _sure(
    room: Room, *arguments: str, env: dict[str, str] | None = None, most: int = MOST_OUTPUT_BYTES
) -> Ran:
    ran = await run(room, ("git", *arguments), env, most)
    if ran.exit_status != 0:
        raise ScorerFailed(f"git {arguments[0]}: {_last_line(ran)}", output=score.output(ran))
    return ran


def _last_line(ran: Ran) -> str:
    lines = [line for line in ran.stderr.splitlines() if line.strip()]
    return score.quoted(lines[-1]) if lines else f"exit status {ran.exit_status}"
