"""Runs a grader as the program that a task's folder has of it: one file, without the package."""

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from benchyard.scorers.exports import grading_program


def run(grader: ModuleType, folder: Path, expected: Any, answer: bytes | None) -> dict[str, float]:
    """The rewards that it prints; None is an answer that is not there."""
    (folder / "grade.py").write_bytes(grading_program(grader))
    (folder / "expected.json").write_text(json.dumps(expected))
    (folder / "answer").unlink(missing_ok=True)
    if answer is not None:
        (folder / "answer").write_bytes(answer)
    command = [sys.executable, "-I", "-S", "grade.py", "expected.json", "answer"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, check=True, timeout=60)
    assert ended.stderr == b""
    rewards: dict[str, float] = json.loads(ended.stdout)
    return rewards
