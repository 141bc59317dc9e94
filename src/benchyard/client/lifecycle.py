"""The steps of a devbox's life that several operations share: create, wait, explain an end."""

from collections.abc import Sequence

from benchyard.client.core import Request, Steps, at, fetch, send
from benchyard.client.waiting import insist
from benchyard.errors import DevboxGone, StartFailed
from benchyard.models.devboxes import DevboxRequest, DevboxStatus, DevboxView, WaitRequest

CREATE_TIMEOUT = 60.0
ENDED = (DevboxStatus.FAILURE, DevboxStatus.SHUTDOWN)


def create(request: DevboxRequest) -> Steps[DevboxView]:
    """Ask for a devbox."""
    return (yield from fetch(Request("POST", "/v1/devboxes", json=request), DevboxView))


def get(id: str) -> Steps[DevboxView]:
    """Look a devbox up."""
    return (yield from fetch(Request("GET", at("/v1/devboxes/{}", id)), DevboxView))


def keep_alive(id: str) -> Steps[None]:
    """Start a devbox's idle time over."""
    yield from send(Request("POST", at("/v1/devboxes/{}/keep_alive", id)))


def create_running(request: DevboxRequest, timeout: float | None) -> Steps[DevboxView]:
    """Ask for a devbox and wait until it runs."""
    path = "/v1/devboxes/create_and_await_running"
    view = yield from fetch(Request("POST", path, json=request, timeout=CREATE_TIMEOUT), DevboxView)
    return (yield from await_running(view, timeout))


def await_running(view: DevboxView, timeout: float | None) -> Steps[DevboxView]:
    """Wait until a new devbox runs; raises StartFailed if it never will."""
    if view.status == DevboxStatus.RUNNING:
        return view
    return (yield from reach_running(view.id, timeout))


def reach_running(id: str, timeout: float | None) -> Steps[DevboxView]:
    """Wait until a devbox runs; raises StartFailed if it never will."""
    view = yield from wait_for(id, (DevboxStatus.RUNNING, *ENDED), timeout)
    if view.status != DevboxStatus.RUNNING:
        raise StartFailed(f"devbox {id} did not start: {why_ended(view)}", devbox_id=id)
    return view


def reach(id: str, status: DevboxStatus, timeout: float | None = None) -> Steps[DevboxView]:
    """Wait for a status; raises DevboxGone if the devbox ended instead."""
    view = yield from wait_for(id, (status, *ENDED), timeout)
    if view.status != status:
        raise DevboxGone(f"devbox {id} is {view.status.value} instead of {status.value}: {why_ended(view)}")
    return view


def wait_for(id: str, statuses: Sequence[DevboxStatus], timeout: float | None) -> Steps[DevboxView]:
    """Ask again and again, by long-polls, until the devbox has one of the statuses."""
    path = at("/v1/devboxes/{}/wait_for_status", id)

    def ask(hold: float) -> Steps[DevboxView]:
        wanted = WaitRequest(statuses=list(statuses), timeout_seconds=hold)
        return (yield from fetch(Request("POST", path, json=wanted, long_poll=True), DevboxView))

    return (yield from insist(ask, timeout))


def suspend(id: str) -> Steps[DevboxView]:
    """Begin to suspend a devbox."""
    return (yield from fetch(Request("POST", at("/v1/devboxes/{}/suspend", id)), DevboxView))


def resume(id: str) -> Steps[DevboxView]:
    """Begin to resume a suspended devbox."""
    return (yield from fetch(Request("POST", at("/v1/devboxes/{}/resume", id)), DevboxView))


def shutdown(id: str, *, force: bool = False) -> Steps[DevboxView]:
    """End a devbox."""
    query = {"force": True} if force else {}
    return (yield from fetch(Request("POST", at("/v1/devboxes/{}/shutdown", id), query), DevboxView))


def why_ended(view: DevboxView) -> str:
    """The reason a devbox ended, in words, as far as it is known."""
    details = [transition.detail for transition in view.state_transitions if transition.detail]
    reason = view.failure_reason or view.shutdown_reason or view.status.value
    return f"{reason} ({details[-1]})" if details else reason
