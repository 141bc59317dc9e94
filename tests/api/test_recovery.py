"""A server that stops or is killed, and what it finds again."""

import os
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create, eventually, good


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RunningServer]:
    with RunningServer(tmp_path / "data", ["--driver", "fake"]) as running:
        yield running


@pytest.fixture
def own_api(own_server: RunningServer) -> Iterator[httpx.Client]:
    headers = {"authorization": f"Bearer {own_server.key}"}
    with httpx.Client(base_url=own_server.url, headers=headers, timeout=40) as client:
        yield client
        for devbox in good(client.get("/v1/devboxes", params={"limit": 100}))["devboxes"]:
            client.post(f"/v1/devboxes/{devbox['id']}/shutdown")


def kill(server: RunningServer) -> None:
    server.kill()
    server.start()


def test_a_running_devbox_and_its_commands_outlive_the_server(
    own_server: RunningServer, own_api: httpx.Client
) -> None:
    devbox = create(own_api, name="survivor")
    execution = devbox.start("until [ -e ~/go ]; do sleep 0.05; done; echo finished")
    kill(own_server)
    assert devbox.view()["status"] == "running"
    devbox.run("touch ~/go")
    assert devbox.ended(execution)["stdout"] == "finished\n"


def test_a_devbox_that_was_coming_up_comes_up_after_all(
    own_server: RunningServer, own_api: httpx.Client
) -> None:
    launch = {
        "launch_commands": ["echo once >> ~/log; until [ -e ~/go ]; do sleep 0.05; done", "echo two >> ~/log"]
    }
    body = {"launch_parameters": launch, "file_mounts": {"~/mounted": "here"}}
    devbox = DevboxOverHttp(own_api, good(own_api.post("/v1/devboxes", json=body))["id"])
    devbox.reaches("initializing")
    folder = own_server.data / "host" / "devboxes" / devbox.id / "changes"
    eventually(lambda: (folder / "home/user/log").exists(), "the first launch command")
    kill(own_server)
    assert devbox.view()["status"] == "initializing"
    (folder / "home/user/go").touch()
    assert devbox.reaches("running", "failure", "shutdown")["status"] == "running"
    assert devbox.run("cat ~/log ~/mounted")["stdout"] == "once\ntwo\nhere"


def test_a_devbox_that_is_gone_is_a_failure_with_a_reason(
    own_server: RunningServer, own_api: httpx.Client
) -> None:
    devbox = create(own_api)
    own_server.stop()
    refound = RunningServer(own_server.data, ["--driver", "fake", "--driver-option", "fail_find=yes"])
    with refound:
        headers = {"authorization": f"Bearer {refound.key}"}
        with httpx.Client(base_url=refound.url, headers=headers, timeout=40) as client:
            view = DevboxOverHttp(client, devbox.id).reaches("failure")
    assert view["failure_reason"] == "health_check_failed"
    assert "gone" in view["state_transitions"][-1]["detail"]
    # That driver only claimed that it is gone.
    for leak in leaks.look(own_server.data):
        if leak.kind == "process":
            os.kill(int(leak.name), signal.SIGKILL)
    own_server.start()


def test_a_suspended_devbox_can_be_resumed_after_a_restart(
    own_server: RunningServer, own_api: httpx.Client
) -> None:
    devbox = create(own_api)
    devbox.run("echo kept > ~/file")
    devbox.post("suspend")
    devbox.reaches("suspended")
    own_server.restart()
    assert devbox.view()["status"] == "suspended"
    devbox.post("resume")
    devbox.reaches("running")
    assert devbox.run("cat ~/file")["stdout"] == "kept\n"


def test_snapshots_and_logs_are_there_after_a_restart(
    own_server: RunningServer, own_api: httpx.Client
) -> None:
    devbox = create(own_api)
    devbox.run("echo kept > ~/file")
    taken = good(devbox.post("snapshot_disk", {"name": "before"}))
    devbox.post("shutdown")
    own_server.restart()
    assert good(own_api.get(f"/v1/devboxes/disk_snapshots/{taken['id']}/status"))["status"] == "complete"
    copy = create(own_api, snapshot_id=taken["id"])
    assert copy.run("cat ~/file")["stdout"] == "kept\n"
    assert "echo kept > ~/file" in [each.get("cmd") for each in good(devbox.get("logs"))["logs"]]


def test_a_devbox_that_nobody_knows_is_cleared_away(own_server: RunningServer, own_api: httpx.Client) -> None:
    devbox = create(own_api)
    disk = own_server.data / "host" / "devboxes" / devbox.id / "changes"
    assert disk.exists()
    own_server.kill()
    with sqlite3.connect(own_server.data / "benchyard.db") as database:
        database.execute("DELETE FROM devboxes")
    database.close()
    own_server.start()
    eventually(lambda: not disk.exists(), "the disk to be gone")


def test_a_driver_that_cannot_start_devboxes_fails_them(tmp_path: Path) -> None:
    options = ["--driver", "fake", "--driver-option", "fail_start=no room here"]
    with RunningServer(tmp_path / "data", options) as server:
        headers = {"authorization": f"Bearer {server.key}"}
        with httpx.Client(base_url=server.url, headers=headers, timeout=40) as client:
            made = good(client.post("/v1/devboxes/create_and_await_running", json={}))
    assert (made["status"], made["failure_reason"]) == ("failure", "health_check_failed")
    assert made["state_transitions"][-1]["detail"] == "no room here"


def test_a_long_poll_ends_when_the_server_stops(own_server: RunningServer, own_api: httpx.Client) -> None:
    devbox = create(own_api)
    execution = devbox.start("sleep 1000")
    path = f"/v1/devboxes/{devbox.id}/executions/{execution}/stream_stdout_updates"
    with own_api.stream("GET", path) as stream:
        assert stream.status_code == 200
        assert own_server.stop() == 0
        assert "event: error" in "".join(stream.iter_text())
    own_server.start()
