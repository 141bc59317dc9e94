"""What a system has otherwise than its start: every difference, nothing else, and nothing outside of it."""

import io
import json
import os
import socket
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings

from benchyard.devboxes.layers import work_changes
from benchyard.devboxes.layers.trees import OPAQUE, make_whiteout
from benchyard.devboxes.layers.work_changes import WorkScope, examine_work
from benchyard.workers.work_reports import list_files, make_diff
from tests.devboxes.layers.stacks import STACKS, Step, build, overlay

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount an overlay here")
# To shrink a failure would mount overlays for many minutes.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
WORK = "/home/user/work"


def examined(
    folder: Path, final: Sequence[Path], start: Sequence[Path], *beside: str, **wanted: Any
) -> io.BytesIO:
    """The report on two stacks, topmost layers first."""
    report = folder / f"report{len(list(folder.glob('report*')))}"
    asked = {"folders": ["/"], "home": None, "paths": [], "all": False, "contents": False, **wanted}
    stacks = [([str(layer) for layer in stack], beside) for stack in (final, start)]
    examine_work(stacks[0], stacks[1], asked, str(report))
    return io.BytesIO(report.read_bytes())


def listed(report: io.BytesIO, limit: int = 1000, after: str | None = None) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(list_files(report, limit, after))
    return told


def told(report: io.BytesIO) -> dict[str, str]:
    """The change of each path; a path that became something else was deleted and added."""
    made: dict[str, str] = {}
    for each in listed(report)["files"]:
        made[each["path"]] = "replaced" if each["path"] in made else each["change"]
    return made


def seen(root: Path) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    for path in root.rglob("*"):
        status = path.lstat()
        kind = stat.S_IFMT(status.st_mode)
        content: object = None
        if kind == stat.S_IFREG:
            content = path.read_bytes()
        elif kind == stat.S_IFLNK:
            content = os.readlink(path)  # noqa: PTH115  (the text as it is)
        found[f"/{path.relative_to(root)}"] = (kind, status.st_mode, content)
    return found


def shown(folder: Path, layers: Sequence[Path]) -> dict[str, tuple[object, ...]]:
    if len(layers) == 1:
        return seen(layers[0])
    with overlay(folder / "shown", layers) as root:
        return seen(root)


def compared(before: dict[str, tuple[object, ...]], now: dict[str, tuple[object, ...]]) -> dict[str, str]:
    changes = {}
    for path in before.keys() | now.keys():
        old, new = before.get(path), now.get(path)
        if old is None or new is None:
            changes[path] = "added" if new else "deleted"
        elif old != new:
            changes[path] = "modified" if old[0] == new[0] else "replaced"
    return changes


@as_root
@settings(max_examples=60, deadline=None, phases=PHASES)
@given(STACKS)
@example(
    [[("write", "a/new/b", "")], [("remove", "a", ""), ("make", "a/new/new", "")], [("write", "new", "")]]
)
@example([[], [("remove", "a", "")], [("make", "a", "")]])
def test_every_difference_of_two_disks_is_found_and_nothing_else(stack: list[list[Step]]) -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        layers = build(folder, stack)
        # The start may have a layer of its own above what both have.
        below = layers[2:] or layers[1:]
        now = shown(folder, layers)
        for start in (layers[1:], below):
            before = shown(folder, start)
            assert told(examined(folder, layers, start)) == compared(before, now)
            assert told(examined(folder, start, layers)) == compared(now, before)


@pytest.fixture
def disks(tmp_path: Path) -> tuple[Path, Path]:
    """A layer with work, and the base that it was done on."""
    work, base = tmp_path / "work", tmp_path / "base"
    for layer in (work, base):
        (layer / WORK[1:]).mkdir(parents=True)
    return work, base


def test_hostile_names_and_contents_become_a_patch_that_git_applies(
    disks: tuple[Path, Path], tmp_path: Path
) -> None:
    work, base = (disk / WORK[1:] for disk in disks)
    names = [b"plain", b"two words", b'"quoted"', b"new\nline", b"\xff\x1b[31m", b"-rf", b"a\tb", b"a/b/../c"]
    for at, name in enumerate(names[:-1]):
        (work / os.fsdecode(name)).write_bytes(b"after\r\nno end %d" % at)
        if at % 2:
            (base / os.fsdecode(name)).write_bytes(b"before\n%d\n" % at)
    (base / "gone").write_text("x\n")
    make_whiteout("gone", os.open(work, os.O_RDONLY))
    (work / "run").write_text("#!/bin/sh\n")
    (work / "run").chmod(0o755)
    (work / "way out").symlink_to("/etc/passwd")
    (base / "file").write_text("a file\n")
    (work / "file").symlink_to("../../..")
    (base / "empty").write_text("")
    (work / "empty").write_text("now\n")
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", str(disks[1]), str(copy)], check=True)
    diff = make_diff(examined(tmp_path, disks, disks[1:], contents=True), 1024**2)
    subprocess.run(["git", "apply", "--whitespace=nowarn", "-"], input=diff, cwd=copy, check=True)
    (disks[0] / WORK[1:] / "gone").unlink()
    (tmp_path / "same").mkdir()
    subprocess.run(["diff", "-r", "--no-dereference", str(copy), str(disks[0])], check=True)
    assert b"root:" not in diff


def test_other_things_than_files_are_named_and_never_opened(disks: tuple[Path, Path], tmp_path: Path) -> None:
    work = disks[0] / WORK[1:]
    os.mkfifo(work / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(work / "socket"))
    (work / "binary").write_bytes(b"a\0b")
    with (work / "huge").open("wb") as file:
        file.truncate(1024**4)
    report = examined(tmp_path, disks, disks[1:], contents=True)
    files = {each["path"].rpartition("/")[2]: each["type"] for each in listed(report)["files"]}
    assert files == {"pipe": "other", "socket": "other", "binary": "file", "huge": "file"}
    report.seek(0)
    assert make_diff(report, 1024**2).decode().splitlines() == [
        f"# left out: {WORK}/huge: too large to be compared, 1099511627776 bytes",
        f"# left out: {WORK}/pipe: a pipe or a socket",
        f"# left out: {WORK}/socket: a pipe or a socket",
        f"diff --git a{WORK}/binary b{WORK}/binary",
        "new file mode 100644",
        f"Binary files /dev/null and b{WORK}/binary differ",
    ]


def test_a_folder_that_hides_those_below_it_deletes_what_they_had(
    disks: tuple[Path, Path], tmp_path: Path
) -> None:
    work, base = (disk / WORK[1:] for disk in disks)
    for layer, name in ((base, "old"), (base, "kept"), (work, "kept"), (work, "new")):
        (layer / "folder").mkdir(exist_ok=True)
        (layer / "folder" / name).write_text("same")
    os.setxattr(work / "folder", OPAQUE, b"y")
    assert told(examined(tmp_path, disks, disks[1:])) == {
        f"{WORK}/folder/old": "deleted",
        f"{WORK}/folder/new": "added",
    }


def test_links_and_machines_files_are_not_read(disks: tuple[Path, Path], tmp_path: Path) -> None:
    (disks[0] / WORK[1:] / "out").symlink_to("/etc")
    (disks[0] / "etc").mkdir()
    (disks[0] / "etc/passwd").write_text("mine\n")
    (disks[0] / "etc/link").symlink_to("/etc/shadow")

    def read(path: str, side: str = "after") -> tuple[dict[str, Any], bytes]:
        wanted = {"read": path, "side": side, "offset": 1, "limit": 3}
        facts, _, content = examined(tmp_path, disks, disks[1:], "etc", **wanted).read().partition(b"\n")
        return json.loads(facts), content

    assert read("/etc/passwd") == ({"type": "file", "size": 5, "is_machines": False}, b"ine")
    facts, content = read("/etc/passwd", "before")
    assert (facts["is_machines"], content) == (True, b"")
    assert read("/etc/link")[1] == b"etc"
    for path in (f"{WORK}/out/passwd", "/../etc/passwd", "/no", "/", "/etc/" + "x" * 5000, "/etc/\udc80"):
        assert read(path)[0]["type"] is None
    diff = make_diff(examined(tmp_path, disks, disks[1:], "etc", contents=True, all=True), 1024**2)
    assert b"Binary files a/etc/passwd and b/etc/passwd differ" in diff


def test_a_hundred_thousand_files_are_listed_in_pages_and_more_are_counted(
    disks: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_changes, "MOST_LISTED", 2000)
    monkeypatch.setattr(work_changes, "MOST_DIFFED", 10)
    for disk, text in zip(disks, ("after\n", "before\n"), strict=True):
        (disk / WORK[1:] / "kept").write_text(text)
    many = disks[0] / WORK[1:] / "many"
    many.mkdir()
    for number in range(2500):
        (many / f"{number:05}").touch()
    report = examined(tmp_path, disks, disks[1:], contents=True)
    page = listed(report, 2)
    assert [each["path"] for each in page["files"]] == [f"{WORK}/kept", f"{WORK}/many"]
    assert (page["has_more"], page["total_count"], page["truncated"]) == (
        True,
        2502,
        "more than 2000 paths differ",
    )
    report.seek(0)
    last = listed(report, 5, f"{WORK}/many/01996")
    assert ([each["path"] for each in last["files"]], last["has_more"]) == ([f"{WORK}/many/01997"], False)
    report.seek(0)
    diff = make_diff(report, 10_000)
    assert diff.startswith(b"# not all differences are here: more than 2000 paths differ\n# left out: ")
    assert f"# left out: {WORK}/many/00009: more than 1000 files, or 16 MiB; name a path" in diff.decode()
    assert b"\n# left out: 1969 more\n" in diff
    # What was changed is read before what is new.
    assert b"\n-before\n+after\n" in diff
    monkeypatch.setattr(work_changes, "MOST_LOOKED", 100)
    assert listed(examined(tmp_path, disks, disks[1:]))["truncated"] == "more than 100 entries were changed"


def test_the_work_is_distinguished_from_files_beside_it(disks: tuple[Path, Path], tmp_path: Path) -> None:
    for path in (
        f"{WORK}/a",
        f"{WORK}/.env",
        f"{WORK}/.git/index",
        "/home/user/.cache/x",
        "/etc/x",
        "/srv/x",
    ):
        place = disks[0] / path[1:]
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x")

    def files(**wanted: Any) -> list[str]:
        page = listed(examined(tmp_path, disks, disks[1:], folders=[WORK], home="/home/user", **wanted))
        counts.append((page["total_count"], page["beside_count"]))
        return [each["path"] for each in page["files"] if each.get("type") == "file"]

    counts: list[tuple[int, int]] = []
    assert files() == [f"{WORK}/.env", f"{WORK}/a"]
    assert len(files(all=True)) == 6
    assert files(paths=["/etc"]) == ["/etc/x"]
    assert counts == [(2, 8), (10, 8), (2, 2)]


@pytest.mark.parametrize(
    ("folders", "path", "is_work"),
    [
        (["/"], "/srv/x", True),
        (["/"], "/etc/x", False),
        (["/home/user"], "/home/user/.bashrc", False),
        (["/home/user"], "/home/user/a/.b", True),
        (["/home/user/.task"], "/home/user/.task/x", True),
        (["/home/user/.task"], "/home/user/.other", False),
        (["/etc"], "/etc/x", True),
        (["/home/user/w"], "/home/user/work", False),
    ],
)
def test_the_scope_of_the_work(folders: list[str], path: str, *, is_work: bool) -> None:
    assert WorkScope(tuple(folders), "/home/user").has(path) is is_work
