"""Failures of trials by their cause; only those of the agent itself count against it."""

import errno
import os
from pathlib import Path

from benchyard.engine.disk_use import is_short
from benchyard.errors import (
    BenchyardError,
    Conflict,
    NotFound,
    NotSupported,
    NotYet,
    ScorerFailed,
    UsageError,
    from_os,
)
from benchyard.models.devboxes import Devbox, DevboxStatus
from benchyard.models.trials import FailureKind, FailureReason

MOST_CHARACTERS = 2000
_NO_SPACE = os.strerror(errno.ENOSPC).lower()
_FULL = "the server's disk was full; free space under its data folder"


class TrialFailed(Exception):
    """A trial ended without a score, for this reason."""

    def __init__(self, kind: FailureKind, name: str, message: str, *, is_proved: bool = False) -> None:
        super().__init__(message)
        self.is_proved = is_proved
        """True if the cause of the failure was established."""
        self.kind: FailureKind = kind
        self.name = name
        self.message = message

    def reason(self, stage: str | None) -> FailureReason:
        """Return the failure as it is stored with the trial."""
        message = (
            self.message if len(self.message) <= MOST_CHARACTERS else self.message[:MOST_CHARACTERS] + "..."
        )
        return FailureReason(exception_type=self.name, exception_message=message, kind=self.kind, stage=stage)


def failure_of_error(error: BenchyardError | OSError) -> TrialFailed:
    """Return the failure of a trial that an error has ended, with its cause."""
    if isinstance(error, OSError):
        return TrialFailed("infrastructure", "HostError", from_os(error).message)
    if isinstance(error, ScorerFailed):
        return TrialFailed("scorer", "ScorerError", error.message)
    is_own = isinstance(error, UsageError | NotSupported) and not isinstance(error, Conflict | NotYet)
    if is_own or isinstance(error, NotFound):
        return TrialFailed("scenario", "ScenarioError", error.message)
    return TrialFailed("infrastructure", type(error).__name__, error.message)


def failure_of_setup(name: str, message: str, *, is_disk_full: bool = True) -> TrialFailed:
    """Return the failure of a devbox's preparation: the scenario's, unless a disk was full.

    `is_disk_full` says whether the server's disk may be full, where that can be seen: after work in a
    devbox, its programs may print anything.
    """
    if is_disk_full and _NO_SPACE in message.lower():
        return TrialFailed("infrastructure", "HostError", f"{_FULL}: {message}")
    return TrialFailed("scenario", name, message)


def failure_of_next_round(failure: TrialFailed) -> TrialFailed:
    """Return the failure of a later round that could not begin in the devbox left by the round before.

    The agent is responsible for that devbox: a failure that is the scenario's in a fresh devbox is the
    agent's here.
    """
    if failure.kind != "scenario" or failure.is_proved:
        return failure
    message = f"the devbox as it was left does not let the next round begin: {failure.message}"
    return TrialFailed("agent", failure.name, message)


OUTPUT_LOST = "output of the agent was lost: there was no space left on the disk for a moment"
"""Condition of a trial that is scored all the same: an agent can fill the disk, and free it again."""


def failure_of_output(hint: str | None) -> TrialFailed | None:
    """Return the failure of a host that lost output of the agent; the agent's work is as doubtful."""
    if hint and "output was lost" in hint and _NO_SPACE in hint.lower():
        return TrialFailed("infrastructure", "HostError", f"{_FULL}: {hint}")
    return None


def note_of_output(hint: str | None, data: Path) -> TrialFailed | str | None:
    """Return what lost output of the agent means: a failure, if the server's disk is full, else a condition.

    Whoever took all the space has given it back by then, and the agent may have been that.
    """
    lost = failure_of_output(hint)
    return lost if lost is None or is_short(data) else OUTPUT_LOST


def failure_of_devbox(devbox: Devbox) -> TrialFailed:
    """Return the failure of a trial whose devbox has ended too early."""
    detail = devbox.state_transitions[-1].detail or devbox.failure_reason or devbox.shutdown_reason or ""
    if devbox.failure_reason in ("out_of_memory", "out_of_disk"):
        return TrialFailed(
            "agent", "DevboxExhausted", f"its devbox ended ({devbox.failure_reason}): {detail}"
        )
    if devbox.failure_reason == "execution_failed":
        return failure_of_setup("EnvironmentError", f"its devbox could not be prepared: {detail}")
    if devbox.status is DevboxStatus.SHUTDOWN and devbox.shutdown_reason == "api_shutdown":
        return TrialFailed("cancelled", "DevboxShutDown", "its devbox was shut down by somebody")
    return TrialFailed("infrastructure", "DevboxLost", f"its devbox ended: {detail}")
