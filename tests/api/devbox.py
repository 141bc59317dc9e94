"""A devbox over plain HTTP, for the tests of this room."""

import time
import uuid
from collections.abc import Callable
from typing import Any

import httpx

PATIENCE_SECONDS = 90.0


class DevboxOverHttp:
    """One devbox and what can be asked of it."""

    def __init__(self, api: httpx.Client, id: str) -> None:
        self.api = api
        self.id = id

    def view(self) -> dict[str, Any]:
        return good(self.api.get(f"/v1/devboxes/{self.id}"))

    def post(self, verb: str, body: Any = None, **options: Any) -> httpx.Response:
        return self.api.post(f"/v1/devboxes/{self.id}/{verb}", json=body, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.api.get(f"/v1/devboxes/{self.id}/{path}", **options)

    def run(self, command: str, **fields: Any) -> dict[str, Any]:
        """Run a command to its end."""
        body = {"command": command, "command_id": str(uuid.uuid4()), **fields}
        view = good(self.post("execute", body))
        assert view["status"] == "completed", view
        return view

    def start(self, command: str, **fields: Any) -> str:
        """Start a command; its id."""
        id: str = good(self.post("execute_async", {"command": command, **fields}))["execution_id"]
        return id

    def ended(self, execution_id: str) -> dict[str, Any]:
        """An execution once it has completed."""
        body = {"statuses": ["completed"], "timeout_seconds": 25}
        return good(self.post(f"executions/{execution_id}/wait_for_status", body))

    def reaches(self, *statuses: str) -> dict[str, Any]:
        """The view once it has one of the statuses."""
        return good(self.post("wait_for_status", {"statuses": statuses, "timeout_seconds": 30}))

    def path(self, name: str) -> str:
        """A path below the home of its user."""
        return f"~/{name}"


def create(api: httpx.Client, **request: Any) -> DevboxOverHttp:
    """A devbox that runs."""
    made = good(api.post("/v1/devboxes/create_and_await_running", json=request))
    assert made["status"] == "running", made
    return DevboxOverHttp(api, made["id"])


def good(response: httpx.Response) -> dict[str, Any]:
    """The body of an answer that must be 200."""
    assert response.status_code == 200, response.text
    body: dict[str, Any] = response.json()
    return body


def refusal(response: httpx.Response, status: int) -> str:
    """The message of an answer that must be an error of that status."""
    assert response.status_code == status, response.text
    message: str = response.json()["message"]
    return message


def eventually(holds: Callable[[], bool], what: str) -> None:
    """Wait until something holds, or fail naming it."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"waited {PATIENCE_SECONDS} s for {what}"
        time.sleep(0.02)
