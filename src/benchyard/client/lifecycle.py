"""The steps of a devbox's life that several operations share: create, wait, explain an end."""

import time
from collections.abc import Sequence

from benchyard.client.core import Request, Steps, at, fetch
from benchyard.errors import DevboxGone, StartFailed, StillWaiting
from benchyard.models.devboxes import DevboxRequest, DevboxStatus, DevboxView, WaitRequest

HOLD_SECONDS = 20
CREATE_TIMEOUT = 60.0
ENDED = (DevboxStatus.FAILURE, DevboxStatus.SHUTDOWN)


def create(request: DevboxRequest) -> Steps[DevboxView]:
    """Ask for a devbox."""
    return (yield from fetch(Request("POST", "/v1/devboxes", json=request), DevboxView))


def create_running(request: DevboxRequest, timeout: float | None) -> Steps[DevboxView]:
    """Ask for a devbox and wait until it runs."""
    path = "/v1/devboxes/create_and_await_running"
    view = yield from fetch(Request("POST", path, json=request, timeout=CREATE_TIMEOUT), DevboxView)
    return (yield from await_running(view, timeout))


def await_running(view: DevboxView, timeout: float | None) -> Steps[DevboxView]:
    """Wait until a new devbox runs; raises StartFailed if it never will."""
    if view.status != DevboxStatus.RUNNING:
        view = yield from wait_for(view.id, (DevboxStatus.RUNNING, *ENDED), timeout)
    if view.status != DevboxStatus.RUNNING:
        raise StartFailed(f"devbox {view.id} did not start: {why_ended(view)}", devbox_id=view.id)
    return view


def reach(id: str, status: DevboxStatus) -> Steps[DevboxView]:
    """Wait for a status; raises DevboxGone if the devbox ended instead."""
    view = yield from wait_for(id, (status, *ENDED), None)
    if view.status != status:
        raise DevboxGone(f"devbox {id} is {view.status.value} instead of {status.value}: {why_ended(view)}")
    return view


def wait_for(id: str, statuses: Sequence[DevboxStatus], timeout: float | None) -> Steps[DevboxView]:
    """Ask again and again, by long-polls, until the devbox has one of the statuses."""
    deadline = None if timeout is None else time.monotonic() + timeout
    path = at("/v1/devboxes/{}/wait_for_status", id)
    while True:
        hold = HOLD_SECONDS if deadline is None else min(HOLD_SECONDS, deadline - time.monotonic())
        wanted = WaitRequest(statuses=list(statuses), timeout_seconds=max(hold, 0))
        try:
            return (yield from fetch(Request("POST", path, json=wanted, long_poll=True), DevboxView))
        except StillWaiting:
            if deadline is not None and time.monotonic() >= deadline:
                raise


def shutdown(id: str, *, force: bool = False) -> Steps[DevboxView]:
    """End a devbox."""
    query = {"force": True} if force else {}
    return (yield from fetch(Request("POST", at("/v1/devboxes/{}/shutdown", id), query), DevboxView))


def why_ended(view: DevboxView) -> str:
    """The reason a devbox ended, in words, as far as it is known."""
    details = [transition.detail for transition in view.state_transitions if transition.detail]
    reason = view.failure_reason or view.shutdown_reason or view.status.value
    return f"{reason} ({details[-1]})" if details else reason
