import pytest

from benchyard.engine.jobs.failures import failure_of_output, failure_of_setup


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
