from typing import Any

from benchyard.engine.devboxes.states import Move, devbox_usage, is_idle, record_after_move, seconds_left
from benchyard.models.devboxes import Devbox, DevboxStatus, StateTransition
from benchyard.models.launch import LaunchParameters

S = DevboxStatus
HOUR = 3_600_000


def running(**launch: Any) -> Devbox:
    record = Devbox(
        id="dbx_1",
        create_time_ms=0,
        image="host",
        launch_parameters=LaunchParameters.model_validate(launch),
        state_transitions=[StateTransition(status=S.PROVISIONING, transition_time_ms=0)],
    )
    return record_after_move(record_after_move(record, Move(S.INITIALIZING), 500), Move(S.RUNNING), 1000)


def is_expired(devbox: Devbox, now_ms: int) -> bool:
    left = seconds_left(devbox, now_ms)
    return left is not None and left <= 0


def test_a_clock_that_was_set_back_gives_nobody_more_than_all_of_the_time() -> None:
    assert seconds_left(running(keep_alive_time_seconds=5), -24 * HOUR) == 5


def test_a_devbox_lives_an_hour_from_its_start_by_default() -> None:
    assert not is_expired(running(), HOUR + 999)
    assert is_expired(running(), HOUR + 1000)
    assert is_expired(running(keep_alive_time_seconds=5), 6000)


def test_a_resumed_devbox_gets_its_whole_time_again() -> None:
    record = running(keep_alive_time_seconds=5)
    for time, status in [(2000, S.SUSPENDING), (3000, S.SUSPENDED)]:
        record = record_after_move(record, Move(status), time)
    assert not is_expired(record, 10**9)
    for status in (S.RESUMING, S.INITIALIZING, S.RUNNING):
        record = record_after_move(record, Move(status), 10**9)
    assert not is_expired(record, 10**9 + 4999)
    assert is_expired(record, 10**9 + 5000)


def test_a_devbox_that_never_comes_up_expires_too() -> None:
    stuck = Devbox(id="dbx_1", create_time_ms=0, image="host")
    assert is_expired(stuck, HOUR)


def test_an_idle_policy_takes_the_place_of_keep_alive() -> None:
    policy = {"idle_time_seconds": 10, "on_idle": "suspend"}
    record = running(keep_alive_time_seconds=5, lifecycle={"after_idle": policy})
    assert not is_expired(record, HOUR)
    assert not is_idle(record, 0, 10_999)
    assert is_idle(record, 0, 11_000)
    assert not is_idle(record, 5000, 14_999)
    assert is_idle(record, 5000, 15_000)


def test_without_a_policy_nothing_is_idle() -> None:
    assert not is_idle(running(), 0, 10**12)


def test_usage_counts_cpu_and_memory_while_active_and_disk_all_the_time() -> None:
    record = running(resource_size_request="MEDIUM")
    record = record_after_move(record_after_move(record, Move(S.SUSPENDING), 9000), Move(S.SUSPENDED), 10_000)
    seen = devbox_usage(record, 60_000)
    assert (seen.total_active_seconds, seen.total_elapsed_seconds) == (10, 60)
    assert (seen.vcpu_seconds, seen.memory_gb_seconds, seen.disk_gb_seconds) == (20, 40, 480)


def test_usage_stands_still_after_the_end() -> None:
    record = record_after_move(running(), Move(S.SHUTDOWN, shutdown="api_shutdown"), 5000)
    assert devbox_usage(record, 10**9).total_elapsed_seconds == 5
    assert devbox_usage(record, 10**9).end_time_ms == 5000
