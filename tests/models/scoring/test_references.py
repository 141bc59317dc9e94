"""Reference outputs: told apart, and applied by a real shell."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchyard.models.scenarios import ScenarioView
from benchyard.models.scoring import references

DIFF = "--- a/x.txt\n+++ b/x.txt\n@@ -1 +1 @@\n-old\n+new\n"


def scenario(reference: str, directory: str | None = None, **fields: Any) -> ScenarioView:
    return ScenarioView.model_validate(
        {
            "id": "scn_1",
            "name": "x",
            "status": "active",
            "input_context": {"problem_statement": "x"},
            "scoring_contract": {
                "scoring_function_parameters": [
                    {"name": "a", "weight": 1, "scorer": {"type": "command_scorer", "command": "true"}}
                ]
            },
            "environment": {"working_directory": directory},
            "metadata": {},
            "create_time_ms": 0,
            "reference_output": reference,
            **fields,
        }
    )


@pytest.mark.parametrize(
    ("text", "is_diff"),
    [
        (DIFF, True),
        (f"diff --git a/x.txt b/x.txt\nindex 1..2 100644\n{DIFF}", True),
        ("diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n", True),
        (f"From 0123456789 Mon Sep 17\nSubject: x\n\n{DIFF}", True),
        (f"\n{DIFF}", True),
        ("echo hello\n", False),
        (f"cat > x <<'END'\n{DIFF}END\n", False),
        (f"#!/bin/bash\npatch -p1 <<'END'\n{DIFF}END\n", False),
        ("--- not a diff\n", False),
        ("", False),
    ],
)
def test_a_diff_is_distinguished_from_a_script(text: str, is_diff: bool) -> None:
    assert references.is_diff(text) is is_diff


@pytest.mark.parametrize(
    ("before", "fields", "after"),
    [
        ("old\n", {}, "new\n"),
        ("old\n", {"validation_type": "FORWARD"}, "new\n"),
        ("new\n", {"validation_type": "REVERSE"}, "old\n"),
        ("new\n", {"metadata": {"reference_patch_direction": "reverse"}}, "old\n"),
    ],
)
def test_a_diff_is_applied_in_its_direction(
    tmp_path: Path, before: str, fields: dict[str, Any], after: str
) -> None:
    (tmp_path / "x.txt").write_text(before)
    patch = tmp_path / "the patch"
    patch.write_text(DIFF)
    text = references.command(scenario(DIFF, str(tmp_path), **fields), str(patch))
    subprocess.run(["bash", "-c", text], check=True, cwd="/", stdout=subprocess.DEVNULL)
    assert (tmp_path / "x.txt").read_text() == after
    assert sorted(path.name for path in tmp_path.iterdir()) == ["the patch", "x.txt"]


def test_a_diff_that_does_not_fit_fails_and_asks_nothing(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("something else\n")
    patch = tmp_path / "p"
    patch.write_text(DIFF)
    text = references.command(scenario(DIFF, str(tmp_path)), str(patch))
    ended = subprocess.run(["bash", "-c", text], check=False, capture_output=True, timeout=60)
    assert ended.returncode != 0


def test_a_diff_that_is_applied_already_fails(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("new\n")
    patch = tmp_path / "p"
    patch.write_text(DIFF)
    text = references.command(scenario(DIFF, str(tmp_path)), str(patch))
    assert subprocess.run(["bash", "-c", text], check=False, capture_output=True, timeout=60).returncode != 0
    assert (tmp_path / "x.txt").read_text() == "new\n"


def test_a_script_runs_in_the_working_directory(tmp_path: Path) -> None:
    script = tmp_path / "reference"
    script.write_text("pwd > here; exit 3\n")
    text = references.command(scenario("pwd", str(tmp_path)), str(script))
    assert subprocess.run(["bash", "-c", text], check=False).returncode == 3
    assert (tmp_path / "here").read_text().strip() == str(tmp_path)


def test_files_are_called_by_what_they_are() -> None:
    assert references.file_name(scenario(DIFF)) == "reference.patch"
    assert references.file_name(scenario("echo")) == "reference.sh"
    assert references.file_name(scenario(DIFF, validation_type="EVALUATION")) == "reference.txt"
