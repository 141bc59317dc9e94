"""Pure rules of a devbox's life: the next status, the end of its time, its use of resources."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchyard.engine.devboxes.sizes import resources
from benchyard.errors import Conflict
from benchyard.models.devboxes import (
    Devbox,
    DevboxStatus,
    DevboxUsageView,
    FailureReason,
    ShutdownReason,
    StateTransition,
)
from benchyard.models.launch import KEEP_ALIVE_DEFAULT_SECONDS

_S = DevboxStatus

BOOTING = frozenset({_S.SCHEDULED, _S.QUEUED, _S.PROVISIONING, _S.INITIALIZING, _S.RESUMING})
ENDED = frozenset({_S.FAILURE, _S.SHUTDOWN})
SUSPENDED = frozenset({_S.SUSPENDING, _S.SUSPENDED})
ACTIVE = frozenset({_S.PROVISIONING, _S.INITIALIZING, _S.RUNNING, _S.SUSPENDING, _S.RESUMING})
"""States in which a devbox uses the machine's cpu and memory."""

NEXT: Mapping[DevboxStatus, frozenset[DevboxStatus]] = {
    _S.SCHEDULED: frozenset({_S.PROVISIONING, *ENDED}),
    _S.QUEUED: frozenset({_S.PROVISIONING, *ENDED}),
    _S.PROVISIONING: frozenset({_S.INITIALIZING, *ENDED}),
    _S.INITIALIZING: frozenset({_S.RUNNING, *ENDED}),
    _S.RUNNING: frozenset({_S.SUSPENDING, *ENDED}),
    _S.SUSPENDING: frozenset({_S.SUSPENDED, *ENDED}),
    _S.SUSPENDED: frozenset({_S.RESUMING, *ENDED}),
    _S.RESUMING: frozenset({_S.INITIALIZING, *ENDED}),
    _S.FAILURE: frozenset(),
    _S.SHUTDOWN: frozenset(),
}


@dataclass(frozen=True)
class Move:
    """A change of status and why it happens."""

    status: DevboxStatus
    failure: FailureReason | None = None
    shutdown: ShutdownReason | None = None
    detail: str | None = None


def record_after_move(devbox: Devbox, move: Move, now_ms: int) -> Devbox:
    """Return the record after a move; raises Conflict if the table does not allow it."""
    if move.status not in NEXT[devbox.status]:
        raise Conflict(f"devbox {devbox.id} is {devbox.status} and cannot become {move.status}")
    transition = StateTransition(
        status=move.status, transition_time_ms=now_ms, failure_reason=move.failure, detail=move.detail
    )
    changes: dict[str, object] = {
        "status": move.status,
        "state_transitions": [*devbox.state_transitions, transition],
        "failure_reason": move.failure,
        "shutdown_reason": move.shutdown,
    }
    if move.status in ENDED:
        changes |= {"end_time_ms": now_ms, "mounts": [], "tunnel": None, "ssh_keys": []}
    elif move.status is _S.RUNNING:
        changes["mounts"] = []
    return devbox.model_copy(update=changes)


_CLOCK_STARTS = frozenset({DevboxStatus.PROVISIONING, DevboxStatus.RESUMING, DevboxStatus.RUNNING})


def alive_since_ms(devbox: Devbox) -> int:
    """Return when the clock of its lifetime was last started: at creation, resumption, or running."""
    times = [
        state_transition.transition_time_ms
        for state_transition in devbox.state_transitions
        if state_transition.status in _CLOCK_STARTS
    ]
    return max(times, default=devbox.create_time_ms)


def seconds_left(devbox: Devbox, now_ms: int) -> float | None:
    """Return the seconds left of its keep-alive time; None if an idle policy applies, or no time counts."""
    launch = devbox.launch_parameters
    counts = devbox.status in BOOTING or (devbox.status is DevboxStatus.RUNNING and not launch.idle_policy)
    seconds = launch.keep_alive_time_seconds or KEEP_ALIVE_DEFAULT_SECONDS
    # At most the whole time, even if the clock has been set back since.
    return seconds - max(0, now_ms - alive_since_ms(devbox)) / 1000 if counts else None


def is_idle(devbox: Devbox, last_use_ms: int, now_ms: int) -> bool:
    """Tell whether its idle policy's time has passed since its last use."""
    policy = devbox.launch_parameters.idle_policy
    if policy is None or devbox.status is not DevboxStatus.RUNNING:
        return False
    since = max(alive_since_ms(devbox), last_use_ms)
    return now_ms >= since + policy.idle_time_seconds * 1000


def active_ms(devbox: Devbox, now_ms: int) -> int:
    """Return the milliseconds in which it held cpu and memory."""
    end = devbox.end_time_ms or now_ms
    total = 0
    for index, transition in enumerate(devbox.state_transitions):
        following = devbox.state_transitions[index + 1 : index + 2]
        until = following[0].transition_time_ms if following else end
        if transition.status in ACTIVE:
            total += max(0, until - transition.transition_time_ms)
    return total


def devbox_usage(devbox: Devbox, now_ms: int) -> DevboxUsageView:
    """Return the usage: cpu and memory for active time, disk for the whole time."""
    size = resources(devbox.launch_parameters)
    elapsed = max(0, (devbox.end_time_ms or now_ms) - devbox.create_time_ms) / 1000
    active = active_ms(devbox, now_ms) / 1000
    return DevboxUsageView(
        id=devbox.id,
        status=devbox.status,
        start_time_ms=devbox.create_time_ms,
        end_time_ms=devbox.end_time_ms,
        total_elapsed_seconds=int(elapsed),
        total_active_seconds=int(active),
        vcpu_seconds=int(active * size.cpus),
        memory_gb_seconds=int(active * size.memory_gb),
        disk_gb_seconds=int(elapsed * size.disk_gb),
    )
