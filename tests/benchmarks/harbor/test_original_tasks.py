"""Task folders that were imported are given back as they were, with what has changed since."""

import tarfile
import tomllib
from pathlib import Path

import pytest

from benchyard.benchmarks.harbor import export
from benchyard.benchmarks.harbor.task_folders import task_folders_in
from benchyard.benchmarks.harbor.unmapped_parts import BenchyardTable
from tests.benchmarks.exports import contents, parts_of, read, view_of, written
from tests.benchmarks.samples.finding import sample
from tests.benchmarks.tasks import TEST, Task, TaskWriter

STEPS = """\
schema_version = "1.4"
multi_step_reward_strategy = "final"
[[steps]]
name = "first"
min_reward = 1.0
[[steps]]
name = "second"
[steps.healthcheck]
command = "true"
"""
SEPARATE = """\
version = "1.0"
artifacts = ["/app/answer.txt"] # what is graded
[verifier]
environment_mode = "separate"
[solution.env]
NAME = "it's a\\nvalue"
"""
IMAGE = """\
[environment]
docker_image = "example.test/base:1"
memory = "2G"
[metadata]
tags = ["a", "b"]
made = 2026-01-02
"""


def folders(tmp_path: Path) -> dict[str, Path]:
    """Tasks of all kinds."""
    writer = TaskWriter(tmp_path / "tasks", "example.test/base:1")
    steps: dict[str, str | None] = {"solution/solve.sh": None, "tests/shared.txt": "all", "NOTES.txt": "n"}
    for name in ("first", "second"):
        steps[f"steps/{name}/instruction.md"] = f"<!-- canary -->\nDo {name}.\n"
        steps[f"steps/{name}/tests/test.sh"] = f"#!/bin/bash\n# {name}\n{TEST}"
        steps[f"steps/{name}/solution/solve.sh"] = f"#!/bin/sh\necho {name}\n"
    steps["steps/second/workdir/setup.sh"] = "true\n"
    found = {
        "plain": writer.write("plain", Task(files={"README.md": "# r\n", "solution/more/x.txt": "x"})),
        "steps": writer.write("steps", Task(toml=STEPS, test=None, files=steps)),
        "separate": writer.write(
            "separate", Task(toml=SEPARATE, files={"tests/Dockerfile": "FROM x\nCOPY . /tests\n"})
        ),
        "image": writer.write("image", Task(toml=IMAGE, files={"environment/loose.txt": "l"})),
    }
    (found["image"] / "environment/Dockerfile").unlink()
    for name in ("solution/solve.sh", "instruction.md"):
        (found["steps"] / name).unlink(missing_ok=True)
    return found


@pytest.mark.parametrize("name", ["plain", "steps", "separate", "image"])
def test_every_file_comes_back(tmp_path: Path, name: str) -> None:
    path = folders(tmp_path)[name]
    draft = read(path, tmp_path / "work")
    view, parts = view_of(draft.request), parts_of(draft)
    tree = export.original_task(view, parts)
    assert tree is not None
    assert {name: file.content for name, file in tree.files.items()} == contents(path)
    again = read(written(tree, tmp_path / "back" / path.name), tmp_path / "again")
    assert again.request == draft.request
    assert again.attachments == draft.attachments
    assert export.overrides(view, again.request) == BenchyardTable()


def test_later_changes_are_exported_as_overrides(tmp_path: Path) -> None:
    path = folders(tmp_path)["plain"]
    draft = read(path, tmp_path / "work")
    view = view_of(draft.request).model_copy(update={"scoring_isolation": "live", "nop_score": 0.5})
    changed = export.overrides(view, draft.request)
    assert changed is not None
    text = export.with_overrides((path / "task.toml").read_text(), changed)
    assert text.startswith((path / "task.toml").read_text())
    assert tomllib.loads(text)["metadata"]["benchyard"] == {"isolation": "live", "nop_score": 0.5}
    (path / "task.toml").write_text(text)
    again = read(path, tmp_path / "work").request
    assert (again.scoring_isolation, again.nop_score) == ("live", 0.5)
    twice = export.with_overrides(text, changed.model_copy(update={"isolation": "clean"}))
    assert tomllib.loads(twice)["metadata"]["benchyard"] == {"isolation": "clean", "nop_score": 0.5}


def test_a_task_whose_prompt_was_changed_is_made_anew_and_keeps_its_canary(tmp_path: Path) -> None:
    draft = read(folders(tmp_path)["plain"], tmp_path / "work")
    told = draft.request.input_context.model_copy(update={"problem_statement": "Write 43.\n"})
    view = view_of(draft.request.model_copy(update={"input_context": told}))
    assert export.overrides(view, draft.request) is None
    tree = export.make_task(view, parts_of(draft))
    assert tree.files["instruction.md"].content == b"<!-- canary 123 -->\n\nWrite 43.\n"
    assert tree.files["tests/test.sh"].content == TEST.encode()
    assert tree.files["solution/solve.sh"].content.startswith(b"#!/bin/sh\necho 42")


def test_a_solution_that_is_too_large_for_a_script_is_kept(tmp_path: Path) -> None:
    path = folders(tmp_path)["plain"]
    (path / "solution/large.bin").write_bytes(b"".join(each.to_bytes(4) for each in range(400_000)))
    draft = read(path, tmp_path / "work")
    assert draft.request.reference_output is None
    tree = export.original_task(view_of(draft.request), parts_of(draft))
    assert tree is not None
    assert {name: file.content for name, file in tree.files.items()} == contents(path)


def test_published_tasks_come_back_byte_for_byte(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with tarfile.open(sample("terminal-bench-2/tasks-sample.tar.gz")) as archive:
        archive.extractall(data, filter="data")
    tasks = task_folders_in(data)
    for path in tasks:
        draft = read(path, tmp_path / "work" / path.name)
        tree = export.original_task(view_of(draft.request), parts_of(draft))
        assert tree is not None
        assert {name: file.content for name, file in tree.files.items()} == contents(path), path.name
    assert tasks
