"""Shell scripts where the image has no bash, or no shell at all."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

import pytest

from benchyard.errors import ScorerFailed
from benchyard.scorers import script
from benchyard.scorers.base import AS_USUAL, ProgramOptions, Room, RoomResult, ScoringContext, Verdict


class Image(Room):
    """A room with these shells only; each answers as it is told."""

    def __init__(self, shells: Mapping[str, Callable[[Sequence[str]], RoomResult]]) -> None:
        self.working_directory = "/"
        self.shells = shells
        self.ran: list[Sequence[str]] = []

    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> str:
        raise NotImplementedError

    async def keep(self, name: str, content: bytes) -> str:
        return f"/kept/{name}"

    async def clear(self, folder: str, user: str | None = None) -> None:
        raise NotImplementedError

    async def fetch(self, path: str, limit: int) -> bytes | None:
        raise NotImplementedError

    async def run(self, argv: Sequence[str], how: ProgramOptions = AS_USUAL) -> RoomResult:
        self.ran.append(argv)
        missing = RoomResult(127, b"", f"cannot start: {argv[0]}\n".encode())
        return self.shells[argv[0]](argv) if argv[0] in self.shells else missing


def good(argv: Sequence[str]) -> RoomResult:
    return RoomResult(0, b"0.5\n", b"")


def not_found(argv: Sequence[str]) -> RoomResult:
    """A script that ends with a command that is not there."""
    return RoomResult(0 if "-c" in argv else 127, b"", b"")


def graded(room: Room) -> Verdict:
    return asyncio.run(script.printed_verdict(room, "echo 0.5", ScoringContext()))


def test_bash_reads_nothing_but_the_script() -> None:
    room = Image({"/bin/bash": good, "/bin/sh": good})
    assert graded(room).score == 0.5
    assert room.ran == [("/bin/bash", "--noprofile", "--norc", "/kept/scorer.sh")]


def test_without_bash_the_shell_is_taken_and_that_is_recorded() -> None:
    room = Image({"/bin/sh": good})
    assert graded(room).facts == {"shell": "/bin/sh"}
    assert room.ran[-1] == ("/bin/sh", "/kept/scorer.sh")


def test_a_script_that_ends_like_a_missing_shell_is_not_run_again() -> None:
    room = Image({"/bin/bash": not_found, "/bin/sh": good})
    assert asyncio.run(script.status_verdict(room, "no-such-program", ScoringContext())).score == 0
    assert [argv[0] for argv in room.ran if "-c" not in argv] == ["/bin/bash"]


def test_without_any_shell_the_error_names_the_remedy() -> None:
    with pytest.raises(ScorerFailed, match=r"neither /bin/bash nor /bin/sh.*python_script_scorer"):
        graded(Image({}))
