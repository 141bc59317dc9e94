"""A patch on a pristine checkout, by the four ways that SWE-bench tries one after the other."""

from collections.abc import Sequence

from benchyard.scorers import git_answers
from benchyard.scorers.base import Ran, Room

WAYS: tuple[tuple[str, ...], ...] = (
    ("git", "apply", "--verbose"),
    ("git", "apply", "--verbose", "--3way"),
    ("git", "apply", "--verbose", "--reject"),
    ("patch", "--batch", "--forward", "--fuzz=5", "-p1", "-i"),
)
_ANEW: tuple[tuple[str, ...], ...] = (("git", "checkout", "--", "."), ("git", "clean", "-fd"))
"""What a way that failed has left is taken away before the next."""
_IS_APPLIED = ("git", "apply", "--check", "--reverse")


async def apply(room: Room, patch_file: str) -> tuple[str, Ran]:
    """How the patch was applied, nothing where it could not be; and what the last try said."""
    for number, way in enumerate(WAYS):
        if number:
            await _each(room, _ANEW)
        tried = await git_answers.run(room, (*way, patch_file))
        if tried.exit_status == 0:
            return " ".join(way), tried
    checked = await git_answers.run(room, (*_IS_APPLIED, patch_file))
    return ("already applied" if checked.exit_status == 0 else ""), tried


async def _each(room: Room, commands: Sequence[Sequence[str]]) -> None:
    for command in commands:
        await git_answers.run(room, command)
