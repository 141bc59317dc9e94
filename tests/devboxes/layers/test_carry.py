"""Answers: which links stay among their paths, and how much there may be."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchyard.devboxes.layers import carry

_PATHS = ("/task/out", "/data")


@pytest.mark.parametrize(
    ("link", "leads_to"),
    [
        ("/task/out/l", "file"),
        ("/task/out/l", "./a/b"),
        ("/task/out/d/l", "../file"),
        ("/task/out/d/l", "../../out/x"),
        ("/task/out/l", "/data/x"),
        ("/task/out/l", "/data"),
        ("/task/out/l", "//data/./x"),
        ("/task/out/l", "."),
        ("/data", "/task/out"),
    ],
)
def test_links_that_stay(link: str, leads_to: str) -> None:
    assert carry.stays_inside(link, leads_to, _PATHS)


@pytest.mark.parametrize(
    ("link", "leads_to"),
    [
        ("/task/out/l", "/etc/passwd"),
        ("/task/out/l", "../secret"),
        ("/task/out/l", "/"),
        ("/task/out/l", "/database"),
        ("/task/out/l", "../../../../data2"),
        ("/task/out/l", "d/../../out/x"),
        ("/task/out/l", "/data/../etc"),
        ("/task/out/l", "/data/d/../x"),
        ("/data", ".."),
    ],
)
def test_links_that_do_not(link: str, leads_to: str) -> None:
    assert not carry.stays_inside(link, leads_to, _PATHS)


def _carry(folder: Path, *paths: str) -> dict[str, Any]:
    carry.carry_paths(
        ([str(folder / "source")], []),
        ([str(folder / "onto")], []),
        paths,
        str(folder / "layer"),
        keep_owner=os.geteuid() == 0,
    )
    told: dict[str, Any] = json.loads((folder / f"layer{carry.REPORT}").read_text())
    return told


@pytest.fixture
def systems(tmp_path: Path) -> Path:
    (tmp_path / "source" / "task").mkdir(parents=True)
    (tmp_path / "onto").mkdir()
    return tmp_path


def test_too_many_entries_are_refused(systems: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry, "MOST_ANSWER_ENTRIES", 10)
    for number in range(11):
        (systems / "source" / "task" / str(number)).touch()
    assert "more than 10 files" in _carry(systems, "/task")["exceeded"]


def test_refusals_are_bounded(systems: Path) -> None:
    for number in range(1500):
        (systems / "source" / "task" / str(number)).symlink_to("/etc")
    told = _carry(systems, "/task")
    assert len(told["refused"]) == 1001
    assert told["refused"][-1] == "and 500 more"
    assert list((systems / "layer" / "task").iterdir()) == []


def test_a_tree_of_any_depth_is_carried_as_far_as_it_can_be_named(systems: Path) -> None:
    here = os.open(systems / "source" / "task", os.O_RDONLY)
    for _ in range(600):
        os.mkdir("deeper-still", dir_fd=here)
        there = os.open("deeper-still", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = there
    os.close(here)
    told = _carry(systems, "/task")
    assert len(told["refused"]) == 1
    assert "too long" in told["refused"][0]
    assert told["entries"] > 300


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files capabilities")
def test_a_program_with_capabilities_is_left_out(systems: Path) -> None:
    program = systems / "source" / "task" / "program"
    program.touch()
    # Version 2, with cap_setuid permitted and effective.
    os.setxattr(program, "security.capability", bytes.fromhex("0100000280000000000000000000000000000000"))
    told = _carry(systems, "/task")
    assert told["refused"] == ["/task/program: it is a program with capabilities"]


def test_an_unknown_path_leaves_no_trace(systems: Path) -> None:
    told = _carry(systems, "/no/such/place")
    assert (told["entries"], told["refused"]) == (0, [])
    assert list((systems / "layer").iterdir()) == []
