"""Every error Benchyard raises on purpose.

    BenchyardError              code, http_status, exit_code, retryable: class attributes
    ├── UsageError              the caller asked for what cannot be              400 / exit 2
    │   ├── Unauthorized        no key, or a wrong one                           401 / 3
    │   ├── Forbidden           the key may not do this                          403 / 3
    │   ├── NotFound            no such thing                                    404 / 4
    │   │   └── MalformedId     an id that nothing of its kind can have          400
    │   ├── Conflict            the thing is in a state that forbids it          409 / 5
    │   ├── TooLarge            a body, file or header over its limit            413 / 2
    │   ├── TooMany             a rate or a quota is used up                     429 / 6
    │   ├── DatasetError        a benchmark's data cannot be had, or is not what it should be    400 / 16
    │   ├── ScenarioError       a scenario lacks what is to be done with it      400 / 2
    │   └── NotYet              a feature that is not built yet, by its name     501 / 7
    ├── StillWaiting            a long-poll ended before the state was reached   408 / 8
    ├── DevboxError             the devbox's machinery broke                     500 / 10
    │   ├── StartFailed         a devbox could not be made: the step and its remedy
    │   ├── DevboxGone          the devbox ended while it was being used         409
    │   └── NotSupported        this driver or mode cannot do that               400 / 2
    ├── ImageError              an image could not be read, made or found        400 / 11
    │   └── BuildFailed         a Dockerfile's build ended without an image; `reason` is the wire's
    ├── StoreError              the database or the object store failed          503 / 12
    │   ├── DiskFull            the disk under the data folder is full           507
    │   └── Unreadable          a record is kept, but makes no sense             500
    ├── ScorerFailed            a scorer gave no score: its reason; the run goes on   500 / 14
    │   └── WorkerFailed        the process that graded or parsed died, or exceeded its limits
    ├── InstallFailed           an agent could not be installed: its last lines  500 / 15
    └── ServerUnreachable       the client found no server                       503 / 13

On the wire an error is `{"code", "message", "details"}`; the client maps the code back to a class
of this tree, never to anything a server names.
"""

import errno
import os
from typing import Any, ClassVar, Literal

_FULL = (errno.ENOSPC, errno.EDQUOT)


class BenchyardError(Exception):
    """The root: a message for people, details for programs."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details

    def body(self) -> dict[str, Any]:
        """Return the error as it goes over the wire."""
        return {"code": self.code, "message": self.message, "details": self.details}


class UsageError(BenchyardError):
    """The caller requested something impossible."""

    code = "bad_request"
    http_status = 400
    exit_code = 2


class Unauthorized(UsageError):
    """No key, or a wrong one."""

    code = "unauthorized"
    http_status = 401
    exit_code = 3


class Forbidden(UsageError):
    """The key may not do this."""

    code = "forbidden"
    http_status = 403
    exit_code = 3


class NotFound(UsageError):
    """No such thing."""

    code = "not_found"
    http_status = 404
    exit_code = 4


class MalformedId(NotFound):
    """An id that nothing of its kind can have."""

    code = "malformed_id"
    http_status = 400


class Conflict(UsageError):
    """The thing is in a state that forbids it."""

    code = "conflict"
    http_status = 409
    exit_code = 5


class TooLarge(UsageError):
    """A body, file or header over its limit."""

    code = "too_large"
    http_status = 413


class TooMany(UsageError):
    """A rate or a quota is used up."""

    code = "too_many"
    http_status = 429
    exit_code = 6
    retryable = True


class ScenarioError(UsageError):
    """A scenario lacks a part that is needed, such as a reference output to apply."""

    code = "scenario_error"


class DatasetError(UsageError):
    """Data of a public benchmark cannot be fetched or read, or is not as expected."""

    code = "dataset_error"
    exit_code = 16


class NotYet(UsageError):
    """A feature that is not built yet."""

    code = "not_implemented"
    http_status = 501
    exit_code = 7


class StillWaiting(BenchyardError):
    """A long-poll ended before the state was reached."""

    code = "still_waiting"
    http_status = 408
    exit_code = 8
    retryable = True


class DevboxError(BenchyardError):
    """The devbox's machinery broke."""

    code = "devbox_error"
    exit_code = 10


class StartFailed(DevboxError):
    """A devbox could not be made; details carry the step that failed and its remedy."""

    code = "start_failed"


class DevboxGone(DevboxError):
    """The devbox ended while it was being used."""

    code = "devbox_gone"
    http_status = 409


class NotSupported(DevboxError):
    """The driver, or the mode it is in, cannot do the requested thing."""

    code = "not_supported"
    http_status = 400
    exit_code = 2


class ImageError(BenchyardError):
    """An image could not be read, made or found."""

    code = "image_error"
    http_status = 400
    exit_code = 11


class BuildFailed(ImageError):
    """A build ended without an image."""

    code = "build_failed"

    def __init__(self, message: str, reason: str = "build_failed", **details: Any) -> None:
        super().__init__(message, **details)
        self.reason = reason
        """`build_failed`, `out_of_memory` or `out_of_disk`."""


class StoreError(BenchyardError):
    """The database or the object store failed."""

    code = "store_error"
    http_status = 503
    exit_code = 12
    retryable = True


class Unreadable(StoreError):
    """A stored record cannot be read by this version."""

    code = "unreadable"
    http_status = 500
    retryable = False


class DiskFull(StoreError):
    """The disk under the data folder is full; the same request works once there is space."""

    code = "disk_full"
    http_status = 507


class ScorerFailed(BenchyardError):
    """A scorer gave no score; why, and who is to blame where that is known. The run goes on."""

    code = "scorer_failed"
    exit_code = 14

    def __init__(
        self, message: str, *, cause: Literal["scorer", "machine"] | None = None, **details: Any
    ) -> None:
        super().__init__(message, **details)
        self.cause = cause
        """The part at fault if no answer can have caused the failure; None if one may have."""


class WorkerFailed(ScorerFailed):
    """The worker that graded or parsed something died, or exceeded the limit in `details["limit"]`."""

    code = "worker_failed"


class InstallFailed(BenchyardError):
    """An agent could not be installed; the message has the last lines of the installer's output."""

    code = "install_failed"
    exit_code = 15


class ServerUnreachable(BenchyardError):
    """The client found no server."""

    code = "unreachable"
    http_status = 503
    exit_code = 13
    retryable = True


def is_disk_full(error: BaseException) -> bool:
    """Tell whether the operating system says that there is no space left."""
    return isinstance(error, OSError) and error.errno in _FULL


def refused(error: OSError) -> str:
    """Return the reason of the operating system in its own words; Python adds others for some calls."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)


def from_os(error: BenchyardError | OSError) -> BenchyardError:
    """Return the error of our own tree for a refusal of the operating system; our own stay as they are."""
    if isinstance(error, BenchyardError):
        return error
    if is_disk_full(error):
        return DiskFull("the server's disk is full; free space under its data folder and try again")
    return StoreError(f"the server's disk failed: {error.strerror or error}")


def message_of(error: BenchyardError | OSError) -> str:
    """Return the message of one of our own errors, or of a refusal of the operating system."""
    return from_os(error).message
