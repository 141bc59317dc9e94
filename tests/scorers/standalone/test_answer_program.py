"""The command by which graders run what is graded."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchyard.scorers.kits import answer_command

MEBIBYTE = 1024**2


def run(tmp_path: Path, *words: str, given: str = "") -> "subprocess.CompletedProcess[str]":
    """The command as a room has it."""
    program = tmp_path / "graded"
    program.write_bytes(answer_command.program(f"{sys.executable} -IS", "nobody", ["A_SECRET"]))
    environment = {"PATH": "/usr/bin:/bin", "A_SECRET": "s", "A_VARIABLE": "v"}
    return subprocess.run(
        [sys.executable, "-IS", program, *words],
        input=given,
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def results(tmp_path: Path, cases: list[dict[str, Any]], *words: str) -> list[dict[str, Any]]:
    """What comes of cases."""
    ran = run(tmp_path, *words, given=json.dumps(cases))
    assert ran.returncode == 0, ran.stderr
    found: list[dict[str, Any]] = json.loads(ran.stdout)
    return found


def test_command_passes_on_input_output_and_exit_status(tmp_path: Path) -> None:
    ran = run(tmp_path, "sh", "-c", "cat; echo wrong >&2; exit 7", given="héllo")
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, "héllo", "wrong\n")
    assert run(tmp_path, "sh", "-c", "kill -9 $$").returncode == 137
    assert run(tmp_path, "--seconds", "0.1", "sleep", "60").returncode == 124
    assert run(tmp_path, "no-such-program").returncode == 127
    assert run(tmp_path, "sh", "-c", 'echo "$A_SECRET$A_VARIABLE"').stdout == "v\n"
    assert "usage" in run(tmp_path, "--cases").stderr


def test_cases_are_run_one_by_one_each_with_its_own_arguments_and_input(tmp_path: Path) -> None:
    cases: list[dict[str, Any]] = [
        {"arguments": ["cat; echo $$ >&2; exit 3"], "stdin": "héllo" * 100_000},
        {"arguments": ["echo $$ >&2; true"], "stdin": "never read" * 100_000},
        {"arguments": ["echo $$ >&2; kill -9 $$"]},
        {"arguments": ["echo $$ >&2; read line || exec echo nothing"]},
    ]
    found = results(tmp_path, cases, "--cases", "sh", "-c")
    assert [each["exit_status"] for each in found] == [3, 0, 137, 0]
    assert [each["stdout"] for each in found] == ["héllo" * 100_000, "", "", "nothing\n"]
    assert len({each["stderr"] for each in found}) == 4
    assert results(tmp_path, [], "--cases", "sh") == []


def test_a_case_that_is_late_loud_or_leaves_something_costs_the_next_ones_nothing(tmp_path: Path) -> None:
    cases = [
        {"arguments": ["sleep 60"]},
        {"arguments": [f"head -c {3 * MEBIBYTE} /dev/zero"]},
        {"arguments": ["(setsid sh -c 'while :; do echo late; done' &) ; echo $PPID"]},
        {"arguments": ["ps -o args= --ppid $PPID | grep -c '[e]cho late'"]},
    ]
    late, loud, leaving, after = results(tmp_path, cases, "--seconds", "5", "--cases", "sh", "-c")
    assert late["exit_status"] == 124
    assert (loud["exit_status"], len(loud["stdout"])) == (0, MEBIBYTE)
    assert leaving["exit_status"] == 0
    assert after["stdout"] == "0\n"
