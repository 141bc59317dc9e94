"""What goes on while things are killed, and what must be true of it afterwards."""

import base64
import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from benchyard.testing.server import RunningServer
from tests.faults.caller import PATIENCE_SECONDS, Caller

KILLED = 137


def surprises(server: RunningServer) -> list[str]:
    """What the server logged and did not expect."""
    return [line for line in server.log.splitlines() if '"trace"' in line or "Traceback" in line]


@dataclass
class Promises:
    """What the server answered with 200, and so may not lose."""

    devboxes: list[str] = field(default_factory=list)
    executions: list[tuple[str, str, str, int]] = field(default_factory=list)
    files: dict[tuple[str, str], bytes] = field(default_factory=dict)
    snapshots: list[tuple[str, str, str]] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)


class Worker(threading.Thread):
    """Creates devboxes, runs commands, uploads and snapshots, in an order that a seed decides."""

    def __init__(self, caller: Caller, seed: int, steps: int) -> None:
        super().__init__(name=f"worker-{seed}")
        self._caller = caller
        self._random = random.Random(seed)
        self._steps = steps
        self.promises = Promises()
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            for _number in range(self._steps):
                if not self.promises.devboxes or self._random.random() < 0.2:
                    self._create()
                else:
                    devbox = self._random.choice(self.promises.devboxes)
                    verbs = (self._execute, self._execute, self._upload, self._snapshot, self._store)
                    self._random.choice(verbs)(devbox)
        except AssertionError as failure:
            self.failure = failure

    def _create(self) -> None:
        response = self._caller.post("/v1/devboxes", {"name": "fault"})
        assert response.status_code == 200, response.text
        self.promises.devboxes.append(response.json()["id"])

    def _execute(self, devbox: str) -> None:
        token, status = f"{self._random.getrandbits(64):016x}", self._random.randrange(120)
        command = f"echo {token}; sleep 0.{self._random.randrange(9)}; echo end; exit {status}"
        response = self._caller.post(f"/v1/devboxes/{devbox}/execute_async", {"command": command})
        if response.status_code == 200:
            execution = response.json()["execution_id"]
            self.promises.executions.append((devbox, execution, f"{token}\nend\n", status))
        else:
            assert response.status_code == 409, response.text

    def _upload(self, devbox: str) -> None:
        data = base64.b64encode(self._random.randbytes(50_000))
        name = f"file-{self._random.getrandbits(32)}"
        response = self._caller.post(
            f"/v1/devboxes/{devbox}/upload_file", files={"file": (name, data)}, data={"path": f"~/{name}"}
        )
        if response.status_code == 200:
            self.promises.files[devbox, name] = data
        else:
            assert response.status_code == 409, response.text

    def _snapshot(self, devbox: str) -> None:
        mark = f"mark-{self._random.getrandbits(32)}"
        written = self._caller.post(
            f"/v1/devboxes/{devbox}/write_file_contents", {"file_path": f"~/{mark}", "contents": mark}
        )
        if written.status_code != 200:
            return
        response = self._caller.post(f"/v1/devboxes/{devbox}/snapshot_disk_async")
        if response.status_code == 200:
            self.promises.snapshots.append((devbox, response.json()["id"], mark))

    def _store(self, _devbox: str) -> None:
        data = self._random.randbytes(50_000)
        made = self._caller.post("/v1/objects", {"name": "fault", "content_type": "binary"})
        assert made.status_code == 200, made.text
        sent = self._caller.put(made.json()["upload_url"], data)
        assert sent.status_code == 200, sent.text
        done = self._caller.post(f"/v1/objects/{made.json()['id']}/complete")
        # A first try may have been answered to nobody.
        assert done.status_code == 200 or "READ_ONLY" in done.text, done.text
        self.promises.objects[made.json()["id"]] = data


class Check:
    """Looks whether every promise was kept."""

    def __init__(self, caller: Caller, killed: set[str], *, is_disk_full: bool = False) -> None:
        self._caller = caller
        self._killed = killed
        self._is_disk_full = is_disk_full

    def all(self, promises: Promises) -> None:
        """Check everything that one worker was promised."""
        for devbox in promises.devboxes:
            self._devbox(devbox)
        for devbox, execution, output, status in promises.executions:
            self._execution(devbox, execution, output, status)
        for (devbox, name), data in promises.files.items():
            if devbox not in self._killed:
                answer = self._caller.post(f"/v1/devboxes/{devbox}/download_file", {"path": f"~/{name}"})
                assert answer.content == data, (devbox, name)
        for stored, data in promises.objects.items():
            link = self._caller.get(f"/v1/objects/{stored}/download")["download_url"]
            assert self._caller.download(link) == data, stored
        for devbox, snapshot, mark in promises.snapshots:
            self._snapshot(devbox, snapshot, mark)

    def _devbox(self, devbox: str) -> None:
        self._caller.post(
            f"/v1/devboxes/{devbox}/wait_for_status",
            {"statuses": ["running", "failure"], "timeout_seconds": 20},
        )
        view = self._caller.get(f"/v1/devboxes/{devbox}")
        if view["status"] == "failure" and self._is_disk_full:
            reasons = [step.get("detail") or "" for step in view["state_transitions"]]
            assert any("full" in reason or "space" in reason for reason in reasons), view
            self._killed.add(devbox)
        status = view["status"]
        assert status == "running" or (devbox in self._killed and status == "failure"), view

    def _execution(self, devbox: str, execution: str, output: str, status: int) -> None:
        answer = self._caller.post(
            f"/v1/devboxes/{devbox}/executions/{execution}/wait_for_status",
            {"statuses": ["completed"], "timeout_seconds": 20},
        )
        assert answer.status_code == 200, answer.text
        view = answer.json()
        if devbox in self._killed and view["exit_status"] == KILLED:
            assert output.startswith(view["stdout"]), view
        elif self._is_disk_full and view["stdout_truncated"]:
            assert (view["exit_status"], "No space left" in view["hint"]) == (status, True), view
            assert output.startswith(view["stdout"]), view
        else:
            assert (view["exit_status"], view["stdout"]) == (status, output), view

    def _snapshot_status(self, snapshot: str) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            view = self._caller.get(f"/v1/devboxes/disk_snapshots/{snapshot}/status")
            if view["status"] != "in_progress" or time.monotonic() > deadline:
                return view
            time.sleep(0.1)

    def _snapshot(self, devbox: str, snapshot: str, mark: str) -> None:
        view = self._snapshot_status(snapshot)
        if view["status"] == "complete":
            answer = self._caller.post("/v1/devboxes/create_and_await_running", {"snapshot_id": snapshot})
            assert answer.status_code == 200, answer.text
            copy = answer.json()["id"]
            read = self._caller.post(f"/v1/devboxes/{copy}/read_file_contents", {"file_path": f"~/{mark}"})
            assert read.text == mark, (devbox, snapshot, read.text)
            self._caller.post(f"/v1/devboxes/{copy}/shutdown")
        else:
            assert view["status"] == "error", view
            assert view["error_message"], view
