"""What most tests do with a devbox, by the generated client."""

import time
from collections.abc import Callable
from typing import Any

from runloop_api_client import Runloop
from runloop_api_client.types import DevboxAsyncExecutionDetailView

PATIENCE_SECONDS = 90.0


def create(client: Runloop, **request: Any) -> str:
    """The id of a new devbox that runs."""
    made = client.devboxes.create_and_await_running(**request)
    assert made.status == "running", made
    return made.id


def run(client: Runloop, id: str, command: str, **options: Any) -> DevboxAsyncExecutionDetailView:
    """A command, run to its end."""
    return client.devboxes.execute_and_await_completion(id, command=command, **options)


def output(client: Runloop, id: str, command: str, **options: Any) -> str:
    """What a command that must succeed prints."""
    view = run(client, id, command, **options)
    assert view.exit_status == 0, view
    return view.stdout or ""


def reaches(client: Runloop, id: str, status: str) -> Any:
    """The view once it has the status."""
    body = {"statuses": [status], "timeout_seconds": PATIENCE_SECONDS}
    client.post(f"/v1/devboxes/{id}/wait_for_status", cast_to=object, body=body)
    return client.devboxes.retrieve(id)


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds, or fail naming it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s for {what}"
        time.sleep(0.02)
