"""A patch is applied by the first of four ways that takes it, over a tree that is clean each time."""

import asyncio
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchyard.scorers import git_answers
from benchyard.scorers.base import AS_USUAL, ProgramOptions, Room, RoomResult
from benchyard.scorers.standalone import swe_pro_results

LINES = "".join(f"line {number}\n" for number in range(1, 21))


class Here(Room):
    """A folder of this machine as a room, for git alone."""

    def __init__(self, folder: Path) -> None:
        self.working_directory = str(folder)

    async def put(self, path: str, content: bytes, *, mode: int = 0o644) -> str:
        raise NotImplementedError

    async def keep(self, name: str, content: bytes) -> str:
        path = Path(self.working_directory).parent / name
        path.write_bytes(content)
        return str(path)

    async def clear(self, folder: str, user: str | None = None) -> None:
        raise NotImplementedError

    async def fetch(self, path: str, limit: int) -> bytes | None:
        raise NotImplementedError

    async def run(self, argv: Sequence[str], how: ProgramOptions = AS_USUAL) -> RoomResult:
        ended = subprocess.run(  # noqa: ASYNC221  nobody else waits here
            list(argv),
            cwd=self.working_directory,
            env={"PATH": "/usr/bin:/bin", **how.env},
            capture_output=True,
            check=False,
        )
        return RoomResult(ended.returncode, ended.stdout, ended.stderr)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "a.txt").write_text(LINES)
    commit(folder)
    return folder


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.com", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "x")


def applied(folder: Path, patch: str) -> str:
    async def apply() -> str:
        room = Here(folder)
        return (await git_answers.apply_patch(room, await room.keep("patch.diff", patch.encode())))[0]

    return asyncio.run(apply())


def patch_of(folder: Path, old: str, new: str) -> str:
    (folder / "a.txt").write_text((folder / "a.txt").read_text().replace(old, new))
    patch = git(folder, "diff")
    git(folder, "checkout", "-q", ".")
    return patch


def test_fitting_patch_applies(folder: Path) -> None:
    assert applied(folder, patch_of(folder, "line 10\n", "ten\n")) == "git apply --verbose"
    assert "ten\n" in (folder / "a.txt").read_text()


def test_patch_with_moved_context_merges(folder: Path) -> None:
    """Its blobs are known, so that three ways can be merged."""
    patch = patch_of(folder, "line 10\n", "ten\n")
    (folder / "a.txt").write_text(LINES.replace("line 8\n", "eight\n").replace("line 12\n", ""))
    commit(folder)
    assert applied(folder, patch) in ("git apply --verbose --3way", "patch --batch --forward --fuzz=5 -p1 -i")
    text = (folder / "a.txt").read_text()
    assert "ten\n" in text
    assert "eight\n" in text


def test_patch_that_needs_fuzz_applies(folder: Path) -> None:
    patch = patch_of(folder, "line 10\n", "ten\n").replace(" line 7\n", " line seven\n")
    patch = "".join(line for line in patch.splitlines(keepends=True) if not line.startswith("index "))
    assert applied(folder, patch) == "patch --batch --forward --fuzz=5 -p1 -i"
    assert "ten\n" in (folder / "a.txt").read_text()
    assert not list(folder.glob("*.rej"))


def test_patch_that_is_already_applied(folder: Path) -> None:
    patch = patch_of(folder, "line 10\n", "ten\n")
    patch = "".join(line for line in patch.splitlines(keepends=True) if not line.startswith("index "))
    (folder / "a.txt").write_text(LINES.replace("line 10\n", "ten\n"))
    commit(folder)
    assert applied(folder, patch) == "already applied"


def test_patch_that_fits_nowhere_does_not_apply(folder: Path) -> None:
    patch = "diff --git a/b.txt b/b.txt\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-x\n+y\n"
    assert applied(folder, patch) == ""


def test_binary_parts_are_left_out() -> None:
    text = b"diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n"
    binary = b"diff --git a/p b/p\nindex 0..1\nGIT binary patch\nliteral 1\nxx\n\n"
    assert swe_pro_results.without_binary(binary + text + binary) == text
    assert swe_pro_results.without_binary(b"") == b""
