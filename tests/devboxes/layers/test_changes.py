"""Marks of disks that hold more than can be marked."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchyard.devboxes.layers import changes


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
