from pathlib import Path
from types import SimpleNamespace

import pytest

from benchyard.engine.disk_use import SHORT_BYTES
from benchyard.engine.jobs.failures import (
    OUTPUT_LOST,
    TrialFailed,
    failure_of_output,
    failure_of_setup,
    note_of_output,
)


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ("mkdir: cannot create directory: Permission denied", "scenario"),
        ("mkdir: cannot create directory: No space left on device", "infrastructure"),
    ],
)
def test_full_disk_during_setup_is_not_the_scenarios_failure(told: str, kind: str) -> None:
    failure = failure_of_setup("SetupError", told)
    assert (failure.kind, told in failure.message) == (kind, True)


def test_lost_output_is_the_hosts_failure_and_cut_output_is_not() -> None:
    lost = failure_of_output("The command was cut short: output was lost: No space left on device.")
    assert lost is not None
    assert lost.kind == "infrastructure"
    assert "free space" in lost.message
    assert (
        failure_of_output("The output was cut after 100 bytes; send it to a file and download that.") is None
    )
    assert failure_of_output(None) is None


LOST = "The command was cut short: output was lost: No space left on device."


@pytest.mark.parametrize(("free", "is_lost"), [(0, True), (SHORT_BYTES - 1, True), (SHORT_BYTES, False)])
def test_output_that_an_agent_made_itself_lose_leaves_its_work_to_be_scored(
    free: int, is_lost: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It fills the disk, prints a letter, and frees the disk again."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    told = note_of_output(LOST, tmp_path)
    assert isinstance(told, TrialFailed) == is_lost
    assert is_lost or told == OUTPUT_LOST
    assert note_of_output("The output was cut after 100 bytes.", tmp_path) is None
