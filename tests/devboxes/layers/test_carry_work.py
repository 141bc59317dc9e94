"""The work of a system on another one: what comes along, what stays as it was, where it is looked for."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchyard.devboxes.layers import carry

HOME = "/home/user"


@pytest.fixture
def systems(tmp_path: Path) -> Path:
    for name in ("source", "onto"):
        home = tmp_path / name / "home/user"
        home.mkdir(parents=True)
        (home / ".profile").write_text("start")
        (home / "given").write_text("start")
        (tmp_path / name / "etc").mkdir()
        (tmp_path / name / "etc/passwd").write_text("start")
    return tmp_path


def carried(folder: Path, *paths: str, home: str | None = HOME) -> dict[str, Any]:
    carry.carry_work(
        ([str(folder / "source")], []),
        ([str(folder / "onto")], []),
        paths,
        home,
        str(folder / "layer"),
        keep_owner=os.geteuid() == 0,
    )
    told: dict[str, Any] = json.loads((folder / f"layer{carry.REPORT}").read_text())
    return told


def below(folder: Path) -> set[str]:
    """What a layer has, but for the folders on the way."""
    layer = folder / "layer"
    return {
        str(each.relative_to(layer))
        for each in layer.rglob("*")
        if each.is_symlink() or not each.is_dir() or not any(each.iterdir())
    }


def write(folder: Path, *paths: str) -> None:
    for path in paths:
        place = folder / "source" / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("work")


def test_hidden_files_of_the_home_stay_unchanged(systems: Path) -> None:
    write(systems, f"{HOME}/.profile", f"{HOME}/.local/lib/x.py", f"{HOME}/made", "/etc/passwd")
    told = carried(systems, f"{HOME}/project")
    assert below(systems) == {"home/user/made", "home/user/given"}
    assert [line.partition(": ")[0] for line in told["refused"]] == [f"{HOME}/.local"]
    assert (told["paths"], told["home"], told["exceeded"]) == ([f"{HOME}/project"], HOME, None)


def test_hidden_files_of_the_working_directory_are_work(systems: Path) -> None:
    write(systems, f"{HOME}/project/.git/config", f"{HOME}/.config/app/settings", f"{HOME}/.config/other")
    carried(systems, f"{HOME}/project", f"{HOME}/.config/app")
    assert {"home/user/project/.git/config", "home/user/.config/app/settings"} <= below(systems)
    assert "home/user/.config/other" not in below(systems)


@pytest.mark.parametrize("directory", ["/home", "/home/user"])
def test_a_working_directory_that_has_the_home_in_it_brings_nothing_hidden_of_it(
    systems: Path, directory: str
) -> None:
    write(systems, f"{HOME}/.profile", f"{HOME}/made", "/home/.beside", "/home/other/.file")
    carried(systems, directory)
    beside = {"home/.beside", "home/other/.file"} if directory == "/home" else set()
    assert below(systems) == {"home/user/made", "home/user/given", *beside}


def test_links_of_the_start_are_followed_and_those_of_the_work_are_not(systems: Path) -> None:
    for name in ("source", "onto"):
        (systems / name / "srv/real/job").mkdir(parents=True)
        (systems / name / "srv/link").symlink_to("real")
        (systems / name / "srv/loop").symlink_to("loop")
    write(systems, "/srv/real/job/out", "/etc/passwd")
    told = carried(systems, "/srv/link/job", "/srv/loop/x", home=None)
    assert below(systems) == {"srv/real/job/out"}
    assert told["paths"] == ["/srv/loop/x", "/srv/real/job"]


def test_a_link_that_the_work_put_in_its_own_way_brings_nothing_over(systems: Path) -> None:
    write(systems, "/tmp/evil/user/given", "/tmp/evil/user/project/out")
    home = systems / "source/home"
    home.rename(systems / "source/home-was")
    home.symlink_to("tmp/evil")
    told = carried(systems, f"{HOME}/project")
    assert below(systems) == set()
    assert any("on the way to it is a link" in line for line in told["refused"])


def test_a_working_directory_that_leads_to_the_root_is_refused(systems: Path) -> None:
    for name in ("source", "onto"):
        (systems / name / "all").symlink_to("/")
    write(systems, "/etc/passwd")
    told = carried(systems, "/all")
    assert below(systems) == {"home/user/given"}
    assert told["refused"][0].startswith("/: ")


def test_rights_are_dropped_and_links_are_kept(systems: Path) -> None:
    write(systems, f"{HOME}/tool")
    (systems / "source/home/user/tool").chmod(0o4755)
    (systems / "source/home/user/out").symlink_to("/etc/passwd")
    told = carried(systems, f"{HOME}/project")
    layer = systems / "layer/home/user"
    assert layer.joinpath("tool").stat().st_mode & 0o7777 == 0o755
    assert layer.joinpath("out").readlink() == Path("/etc/passwd")
    assert [line.partition(": ")[0] for line in told["refused"]] == [f"{HOME}/tool"]


def test_more_files_than_the_limit_are_reported(systems: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carry, "MOST_WORK_ENTRIES", 10)
    write(systems, *(f"{HOME}/{number}" for number in range(12)))
    assert "more than 10 files" in carried(systems, f"{HOME}/project")["exceeded"]
