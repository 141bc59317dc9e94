"""The life of a devbox as a table, and the one function that moves a record along it."""

from collections.abc import Mapping
from dataclasses import dataclass

from benchyard.errors import Conflict
from benchyard.models.devboxes import Devbox, DevboxStatus, FailureReason, ShutdownReason, StateTransition

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


def moved(devbox: Devbox, move: Move, now_ms: int) -> Devbox:
    """The record after a move; raises Conflict when the table does not allow it."""
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
