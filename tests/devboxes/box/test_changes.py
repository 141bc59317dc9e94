"""Marks of disks that hold more than can be marked."""

import json
from pathlib import Path

import pytest

from benchyard.devboxes.box import changes


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
