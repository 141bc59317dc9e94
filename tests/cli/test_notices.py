"""What is said beside the output: whole words at a terminal's edge, whole lines in a pipe."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from benchyard.cli import notices, render
from tests.cli.screen import Screen

PROGRAM = (sys.executable, "-m", "benchyard.cli.main")
WIDTH = 60


def on_screen(arguments: list[str], environment: dict[str, str]) -> list[str]:
    """The lines that a narrow terminal shows."""
    with Screen(arguments, environment) as screen:
        screen.resize(WIDTH, 24)
        screen.expect_end()
        return screen.shown.decode().replace("\r", "").splitlines()


@pytest.mark.parametrize(
    "arguments",
    [
        ["job", "run", "--agent", "nop", "--benchmark", "quickstart", "--max-unscored", "3"],
        ["job", "run", "--agent", "nop", "--benchmark", "quickstart", "--n-attempts", "not-a-number-at-all"],
        ["doctor", "--no-server"],
    ],
)
def test_a_terminal_breaks_no_word_and_a_pipe_gets_whole_lines(arguments: list[str], tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "BENCHYARD_DATA": str(tmp_path / "data"),
        "COLUMNS": "",
    }
    shown = [click.unstyle(line) for line in on_screen(arguments, environment)]
    ended = subprocess.run(
        [*PROGRAM, *arguments], capture_output=True, text=True, env=environment, check=False
    )
    piped = ended.stdout + ended.stderr
    assert any(len(line) > WIDTH for line in piped.splitlines()), piped
    assert " ".join(shown).split() == piped.split()
    long = [line for line in shown if len(line) > WIDTH and " " in line.strip()]
    assert long == []


def test_a_command_to_type_is_still_one_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    command = "benchyard job retry bmj_1234567890123456789 --only not-passed --scenario 'a name/with blanks'"
    assert render.command_text(command, "  ") == [f"  {command}"], "a pipe gets one line"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "50")
    lines = render.command_text(command, "one:  ")
    assert len(lines) > 1
    assert all(len(line) <= 50 for line in lines)
    pasted = "printf '%s\\n' " + "\n".join(lines).removeprefix("one:")
    heard = subprocess.run(["sh", "-c", pasted], capture_output=True, text=True, check=True).stdout
    assert heard.splitlines() == shlex.split(command), "a shell hears the same"
    monkeypatch.setenv("COLUMNS", "200")
    assert render.command_text(command, "one:  ") == [f"one:  {command}"]


def test_a_command_in_a_sentence_is_kept_together(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(notices, "_width", lambda: 50)
    notices.tell("something went on for long; `benchyard job watch bmj_12345` shows it again, and more")
    lines = capsys.readouterr().err.splitlines()
    assert all(len(line) <= 50 for line in lines)
    assert [line for line in lines if "`benchyard job watch bmj_12345`" in line], lines


def test_a_terminal_that_does_not_know_its_width_has_the_usual_one(tmp_path: Path) -> None:
    environment = {"HOME": str(tmp_path), "BENCHYARD_DATA": str(tmp_path / "data"), "COLUMNS": ""}
    arguments = ["job", "run", "--agent", "nop", "--benchmark", "quickstart", "--max-unscored", "3"]
    with Screen(arguments, environment) as screen:
        screen.resize(0, 0)
        screen.expect_end()
        lines = screen.shown.decode().replace("\r", "").splitlines()
    assert 60 < max(len(line) for line in lines) <= 80, lines
