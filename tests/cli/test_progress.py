"""What is shown while something takes its time."""

import time

import pytest

from benchyard.cli import progress
from benchyard.cli.progress import ActivityLine, ByteMeter, patience, stamp

PATIENCE_SECONDS = 30.0


def test_a_pipe_gets_lines_with_the_time(capfd: pytest.CaptureFixture[str]) -> None:
    with ActivityLine("pulling x") as activity:
        activity.say("a line")
    first, second = capfd.readouterr().err.splitlines()
    assert first.endswith("Z pulling x...")
    assert second == "a line"
    assert stamp(0) == "1970-01-01T00:00:00Z"


def test_a_pipe_gets_lines_of_progress_and_the_duration(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "REMIND_SECONDS", 0.01)
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.0)
    said = ""
    with ActivityLine("pulling x"):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while said.count("pulling x") < 3 and time.monotonic() < deadline:
            said += capfd.readouterr().err
    said += capfd.readouterr().err
    assert said.count("pulling x, 0s") >= 3
    assert "pulling x: done after 0s" in said


def test_lines_are_never_glued_to_a_drawn_bar(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "is_terminal", lambda: True)
    with ActivityLine("validating") as activity:
        activity.say("one: 0 (2.5 s)")
        activity.text = "validating: 1 of about 4 runs"
        activity.say("two: 1 (2.5 s)")
    said = capfd.readouterr().err
    for line in ("one: 0 (2.5 s)", "two: 1 (2.5 s)"):
        assert f"\r\x1b[K{line}\n\r\x1b[K" in said
    assert said.endswith("\r\x1b[K")


def test_quick_work_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    with patience("waiting"):
        pass
    assert capfd.readouterr().err == ""


def test_server_work_after_an_upload_is_shown(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "QUIET_SECONDS", 0.01)
    said = ""
    with ByteMeter("a file", 10, "the server reads it") as meter:
        meter.add(4)
        meter.add(6)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "the server reads it" not in said and time.monotonic() < deadline:
            said += capfd.readouterr().err
    assert "the server reads it" in said
