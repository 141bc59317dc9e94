"""Folders of tasks: what is hostile or odd about one of them is told, and the rest goes on."""

from pathlib import Path

import pytest

from benchyard.benchmarks.base import BrokenItem
from benchyard.benchmarks.files.scenario_draft import ScenarioDraft
from benchyard.benchmarks.harbor import task_folders
from tests.benchmarks.tasks import Task, TaskWriter


def read(folder: Path, work: Path) -> list[ScenarioDraft | BrokenItem]:
    return list(task_folders.scenarios_of_set("set", folder, work))


@pytest.mark.parametrize(
    ("toml", "dockerfile", "told"),
    [
        ('[agent]\nuser = "1abc"\n', "", "username"),
        ("[agent]\nuser = 70000\n", "", "uid"),
        ("", "USER Foo\n", "username"),
        ('[[verifier.collect]]\ncommand = "x"\ntimeout_sec = 1e300\n', "", "timeout_sec"),
        (f'[metadata]\nlong = "{"v" * 70_000}"\n', "", "metadata.long"),
        ('[environment]\nworkdir = "/a\\nRUN x"\n', "", "environment.workdir"),
        ('[environment]\ndocker_image = "a\\nRUN x"\n', "", "environment.docker_image"),
        ('[environment]\ndocker_image = "--platform=x a"\n', "", "environment.docker_image"),
    ],
)
def test_a_task_that_does_not_fit_is_reported_and_the_rest_goes_on(
    tmp_path: Path, toml: str, dockerfile: str, told: str
) -> None:
    writer = TaskWriter(tmp_path / "tasks", "base")
    writer.write("a-bad", Task(toml=toml, dockerfile=dockerfile))
    writer.write("b-good")
    bad, good = read(writer.folder, tmp_path / "work")
    assert isinstance(bad, BrokenItem)
    assert told in bad.reason
    assert isinstance(good, ScenarioDraft)


def test_tasks_of_the_same_name_are_distinguished(tmp_path: Path) -> None:
    writer = TaskWriter(tmp_path / "tasks", "base")
    for name in ("go/same", "go/other", "rust/same", "deep/rust/same"):
        path = writer.write(name, Task(toml='[environment]\ndocker_image = "base"\n'))
        (path / "environment/Dockerfile").unlink()
        (path / "environment" / name.replace("/", "-")).write_text("x")
    found = read(writer.folder, tmp_path / "work")
    drafts = {each.request.name: each for each in found if isinstance(each, ScenarioDraft)}
    assert list(drafts) == ["set/rust/same", "set/other", "set/go/same"]
    assert [each.name for each in found if isinstance(each, BrokenItem)] == ["rust/same"]
    # Nothing of the one gets into the image of the other.
    files = [path.name for path in (drafts["set/go/same"].folder.path / "files").iterdir()]
    assert files == ["go-same"]
