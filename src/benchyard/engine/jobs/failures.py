"""Failures of trials: each is somebody's, and only the agent's own count."""

import errno
import os

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
    """A trial is over without a score; says why."""

    def __init__(self, kind: FailureKind, name: str, message: str, *, is_proved: bool = False) -> None:
        super().__init__(message)
        self.is_proved = is_proved
        """Whether it was found out whose failure it is."""
        self.kind: FailureKind = kind
        self.name = name
        self.message = message

    def reason(self, stage: str | None) -> FailureReason:
        """As it is kept with the trial."""
        message = (
            self.message if len(self.message) <= MOST_CHARACTERS else self.message[:MOST_CHARACTERS] + "..."
        )
        return FailureReason(exception_type=self.name, exception_message=message, kind=self.kind, stage=stage)


def failure_of_error(error: BenchyardError | OSError) -> TrialFailed:
    """Whose failure an error is that came up on the way."""
    if isinstance(error, OSError):
        return TrialFailed("infrastructure", "HostError", from_os(error).message)
    if isinstance(error, ScorerFailed):
        return TrialFailed("scorer", "ScorerError", error.message)
    is_own = isinstance(error, UsageError | NotSupported) and not isinstance(error, Conflict | NotYet)
    if is_own or isinstance(error, NotFound):
        return TrialFailed("scenario", "ScenarioError", error.message)
    return TrialFailed("infrastructure", type(error).__name__, error.message)


def failure_of_setup(name: str, told: str, *, is_disk_full: bool = True) -> TrialFailed:
    """Whose failure it is that a devbox was not made ready: of the scenario, unless a disk was full.

    `is_disk_full` tells whether the server's may be, where that can be seen: programs of a devbox that was
    worked in say what they like.
    """
    if is_disk_full and _NO_SPACE in told.lower():
        return TrialFailed("infrastructure", "HostError", f"{_FULL}: {told}")
    return TrialFailed("scenario", name, told)


def failure_of_next_round(failure: TrialFailed) -> TrialFailed:
    """Whose failure it is that a round after the first could not begin in the devbox that was left.

    Who worked there decides what is left of it: what is the scenario's in a fresh devbox counts here.
    """
    if failure.kind != "scenario" or failure.is_proved:
        return failure
    told = f"the devbox as it was left does not let the next round begin: {failure.message}"
    return TrialFailed("agent", failure.name, told)


def failure_of_output(hint: str | None) -> TrialFailed | None:
    """The failure of the host that could not keep what the agent said; what it did is as doubtful."""
    if hint and "output was lost" in hint and _NO_SPACE in hint.lower():
        return TrialFailed("infrastructure", "HostError", f"{_FULL}: {hint}")
    return None


def failure_of_devbox(devbox: Devbox) -> TrialFailed:
    """Whose failure the end of a devbox is, before the trial was over."""
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
