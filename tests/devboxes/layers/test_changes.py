"""Marks of disks that hold more than can be marked."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchyard.devboxes.layers import changes, trees
from benchyard.devboxes.layers.path_weight import is_needed


def test_a_mark_that_is_not_whole_goes_by_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    for number in range(20):
        (tree / f"old-{number}").touch()
    monkeypatch.setattr(changes, "MOST_MARKED", 5)
    assert not changes.note_tree(str(tree), str(tmp_path / "mark"))
    (tree / "new").touch()
    (tree / "old-7").write_text("changed")
    changes.compare_tree(str(tree), str(tmp_path / "mark"), ([], []), str(tmp_path / "report"), [])
    found = json.loads((tmp_path / "report").read_text())
    assert {each[0] for each in found["changes"]} == {"/new", "/old-7"}
    assert not found["exact"]


def test_a_list_that_is_too_long_keeps_what_weighs_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    (tree / "aaa").mkdir(parents=True)
    changes.note_tree(str(tree), str(tmp_path / "mark"))
    for number in range(50):
        (tree / f"aaa/{number}").touch()
    for path in ("usr/local/bin/python3", "opt/tool", "zzz/x.pth"):
        (tree / path).parent.mkdir(parents=True)
        (tree / path).touch()
    (tree / "opt/tool").chmod(0o755)
    monkeypatch.setattr(changes, "MOST_LISTED", 5)
    changes.compare_tree(str(tree), str(tmp_path / "mark"), ([], []), str(tmp_path / "report"), [])
    found = json.loads((tmp_path / "report").read_text())
    listed = [each[0] for each in found["changes"]]
    assert listed == sorted(listed)
    assert {"/usr/local/bin/python3", "/opt/tool", "/zzz/x.pth"} <= set(listed)
    assert (len(listed), found["truncated"], found["total"]) == (5, True, 58)


def test_a_flood_in_new_folders_is_counted_where_that_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    (tree / "home/user").mkdir(parents=True)
    changes.note_tree(str(tree), str(tmp_path / "mark"))
    for number in range(50):
        (tree / f"home/user/many/{number % 5}/deeper").mkdir(parents=True, exist_ok=True)
        (tree / f"home/user/many/{number % 5}/deeper/{number}").touch()
    (tree / "usr/bin").mkdir(parents=True)
    (tree / "usr/bin/python3").touch()
    monkeypatch.setattr(changes, "MOST_LISTED", 5)

    def compared(*folders: str) -> dict[str, Any]:
        report = tmp_path / "report"
        report.unlink(missing_ok=True)
        changes.compare_tree(str(tree), str(tmp_path / "mark"), ([], []), str(report), [], folders)
        found: dict[str, Any] = json.loads(report.read_text())
        return found

    counted, whole = compared("/home/user"), compared()
    # The folder, five in it, five in those, fifty files; /usr, /usr/bin and a program.
    assert (counted["total"], counted["truncated"]) == (whole["total"], whole["truncated"]) == (64, True)
    assert "/usr/bin/python3" in [each[0] for each in counted["changes"]]


def test_a_flood_in_the_work_hides_neither_links_nor_programs_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    changes.note_tree(str(tree), str(tmp_path / "mark"))
    (tree / "home/user/many").mkdir(parents=True)
    for number in range(50):
        (tree / f"home/user/many/{number:02}").touch()
    (tree / "home/user/many/as-root").touch()
    (tree / "home/user/many/as-root").chmod(0o4755)
    (tree / "home/user/many/way-out").symlink_to("/etc")
    monkeypatch.setattr(changes, "MOST_OF_WORK", 5)

    def listed() -> tuple[list[str], int, bool]:
        report, outside = tmp_path / "report", tmp_path / "report.outside"
        report.unlink(missing_ok=True)
        outside.unlink(missing_ok=True)
        changes.compare_tree(str(tree), str(tmp_path / "mark"), ([], []), str(report), [], ["/home/user"])
        found = json.loads(report.read_text())
        told = json.loads(outside.read_text())
        assert ([each[0] for each in told["changes"]], told["total"]) == (["/home"], 1)
        return [each[0] for each in found["changes"]], found["total"], found["truncated"]

    inside = [f"/home/user/many/{name}" for name in ("00", "01", "02", "03", "as-root", "way-out")]
    assert listed() == (["/home", "/home/user", "/home/user/many", *inside], 55, True)
    # Where there is no time to look at each file, what is none is found all the same.
    monkeypatch.setattr(changes, "MOST_LISTED", 20)
    paths, total, is_cut = listed()
    assert (total, is_cut) == (55, True)
    assert "/home/user/many/way-out" in paths


def test_what_programs_cannot_use_any_more_is_lost(tmp_path: Path) -> None:
    """Each way to keep a program from its files: none of them leaves anything that could be opened."""
    base, tree = tmp_path / "base", tmp_path / "tree"
    for name in ("closed", "deleted", "kept", "linked", "replaced", "shut/file"):
        (base / "usr/lib" / name).parent.mkdir(parents=True, exist_ok=True)
        (base / "usr/lib" / name).touch(0o644)
    for name in ("alone", "ahead"):
        (base / "usr/lib" / name).symlink_to("kept")
    for name in ("usr/lib/anew", "usr/share/doc", "srv"):
        (base / name).mkdir(parents=True)
        (base / name / "inner").touch()
    (tree / "usr/lib").mkdir(parents=True)
    changes.note_tree(str(tree), str(tmp_path / "mark"))
    (tree / "usr/lib/closed").touch(0o600)
    (tree / "usr/lib/kept").touch(0o755)
    (tree / "usr/lib/shut").mkdir(0o700)
    (tree / "usr/lib/linked").symlink_to("/nowhere")
    (tree / "usr/lib/alone").symlink_to("alone")
    (tree / "usr/lib/ahead").symlink_to("../lib/closed")
    (tree / "usr/lib/replaced").mkdir()
    with trees.TreeCursor(str(tree / "usr/lib")) as place:
        trees.make_whiteout("deleted", place.fd)
    for name in ("usr/lib/anew", "usr/share/doc", "srv"):
        (tree / name).mkdir(parents=True)
        os.setxattr(tree / name, trees.OPAQUE, b"y")
    report = tmp_path / "report"
    changes.compare_tree(str(tree), str(tmp_path / "mark"), ([str(base)], []), str(report), [])
    found = {each[0]: (each[1], each[5]) for each in json.loads(report.read_text())["changes"]}
    lost = {path for path, (_, is_lost) in found.items() if is_lost}
    usr = {f"/usr/lib/{name}" for name in ("closed", "shut", "linked", "alone", "replaced", "deleted")}
    hidden = {"/usr/lib/anew/inner", "/usr/share/doc/inner", "/srv/inner"}
    assert lost == usr | hidden
    assert {found[path][0] for path in hidden} == {"deleted"}
    assert found["/usr/lib/kept"] == found["/usr/lib/ahead"] == ("modified", False)
    assert [path for path in sorted(hidden) if is_needed(path)] == ["/usr/lib/anew/inner"]


def test_what_honest_work_deletes_is_not_needed() -> None:
    for path in (
        *("/usr/lib/python3.11/EXTERNALLY-MANAGED", "/usr/lib/python3/dist-packages/__pycache__/six.pyc"),
        *("/usr/local/lib/python3.11/site-packages/six-1.0.dist-info", "/usr/share/nginx/html/index.html"),
        *("/etc/nginx/sites-enabled/default", "/etc/apt/sources.list", "/var/lib/apt/lists", "/tmp/x"),
    ):
        assert not is_needed(path), path
    for path in (
        *("/bin", "/usr/bin/awk", "/lib64/ld-linux-x86-64.so.2", "/usr/lib/python3.11/json", "/etc/hosts"),
        *("/etc/alternatives/awk", "/usr/share/perl/5.36/List/Util.pm", "/opt/conda/bin/python", "/etc/ssl"),
    ):
        assert is_needed(path), path


def test_what_was_there_for_a_while_leaves_its_folder_changed(tmp_path: Path) -> None:
    """A program that is put before the graders' own, and taken away when it was run."""
    base, tree = tmp_path / "base", tmp_path / "tree"
    for name in ("usr/bin", "usr/lib/deep", "usr/share/doc", "usr/sbin", "etc"):
        (base / name).mkdir(parents=True)
    for name in ("usr/bin", "usr/games"):
        (tree / name).mkdir(parents=True)
    changes.note_tree(str(tree), str(tmp_path / "mark"))
    # As the overlay does it: folders are copied up for what is made in them.
    for name in ("usr/bin", "usr/sbin", "usr/share/doc", "etc"):
        (tree / name).mkdir(parents=True, exist_ok=True)
        (tree / name / "tool").touch()
        (tree / name / "tool").unlink()
    (tree / "usr/lib/deep").mkdir(parents=True)
    (tree / "usr/lib/deep/new").touch()
    (tree / "etc/hosts").touch()
    report = tmp_path / "report"
    changes.compare_tree(str(tree), str(tmp_path / "mark"), ([str(base)], []), str(report), [])
    found = {each[0]: tuple(each[1:3]) for each in json.loads(report.read_text())["changes"]}
    assert found == {
        "/usr/bin": ("modified", "folder"),
        "/usr/sbin": ("modified", "folder"),
        "/usr/lib/deep/new": ("added", "file"),
        "/etc/hosts": ("added", "file"),
    }


def test_what_a_disk_takes_is_told_as_far_as_it_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tmp_path / "tree"
    (tree / "home/user").mkdir(parents=True)
    (tree / "home/user/before").write_bytes(b"x" * 9000)
    changes.note_tree(str(tree), str(tmp_path / "mark"))
    (tree / "home/user/many/deep").mkdir(parents=True)
    for number in range(20):
        (tree / f"home/user/many/{number}").write_bytes(b"x" * number * 1000)
    os.link(tree / "home/user/many/19", tree / "home/user/many/deep/again")
    (tree / "home/user/many/link").symlink_to("1")

    def used(*folders: str, aside: tuple[str, ...] = ()) -> list[int] | None:
        report = tmp_path / "report"
        for each in (report, tmp_path / "report.outside"):
            each.unlink(missing_ok=True)
        mark = str(tmp_path / "mark")
        changes.compare_tree(str(tree), mark, ([], []), str(report), aside, folders)
        found: list[int] | None = json.loads(report.read_text()).get("used")
        return found

    size, entries = trees.tree_usage(str(tree))
    assert used() == used("/home/user") == [size, entries, entries]
    assert used(aside=("/home/user",)) is None
    monkeypatch.setattr(changes, "MOST_LISTED", 10)
    found = used("/home/user")
    assert found is not None
    assert found[0] < size
    assert found[1] == entries
    assert 10 <= found[2] < entries
