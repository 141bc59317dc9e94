import contextlib

import pytest

from benchyard.engine.devboxes.states import ENDED, NEXT, Move, record_after_move
from benchyard.errors import Conflict
from benchyard.models.devboxes import Devbox, DevboxStatus, StateTransition
from benchyard.models.launch import FileMount

S = DevboxStatus


def devbox(status: DevboxStatus = S.PROVISIONING) -> Devbox:
    return Devbox(
        id="dbx_1",
        create_time_ms=1000,
        image="host",
        status=status,
        mounts=[FileMount(target="a", content="b")],
        state_transitions=[StateTransition(status=status, transition_time_ms=1000)],
    )


def test_a_devbox_walks_from_provisioning_to_shutdown() -> None:
    record = devbox()
    path = [S.INITIALIZING, S.RUNNING, S.SUSPENDING, S.SUSPENDED, S.RESUMING, S.INITIALIZING, S.RUNNING]
    for number, status in enumerate([*path, S.SHUTDOWN]):
        record = record_after_move(record, Move(status), 2000 + number)
    assert record.status is S.SHUTDOWN
    assert [each.status for each in record.state_transitions] == [S.PROVISIONING, *path, S.SHUTDOWN]
    assert record.end_time_ms == 2000 + len(path)


@pytest.mark.parametrize("status", list(S))
def test_only_what_the_table_allows_can_happen(status: DevboxStatus) -> None:
    allowed = []
    for wanted in S:
        with contextlib.suppress(Conflict):
            assert record_after_move(devbox(status), Move(wanted), 1).status is wanted
            allowed.append(wanted)
    assert set(allowed) == NEXT[status]


def test_every_live_devbox_can_be_ended() -> None:
    assert [status for status in S if status not in ENDED and not NEXT[status] >= ENDED] == []


def test_mounts_are_dropped_once_they_are_not_needed() -> None:
    initializing = record_after_move(devbox(), Move(S.INITIALIZING), 1)
    assert initializing.mounts
    assert record_after_move(initializing, Move(S.RUNNING), 2).mounts == []
    assert record_after_move(initializing, Move(S.FAILURE, failure="execution_failed"), 2).mounts == []


def test_the_reason_of_a_failure_is_kept_on_record_and_transition() -> None:
    failed = record_after_move(devbox(), Move(S.FAILURE, failure="out_of_memory", detail="too much"), 5)
    assert failed.failure_reason == "out_of_memory"
    assert failed.state_transitions[-1].failure_reason == "out_of_memory"
    assert failed.state_transitions[-1].detail == "too much"
