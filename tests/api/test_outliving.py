"""Devboxes outlive the server and its helpers; when they end, that is told, and nothing is left."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchyard.devboxes.shared import devbox_index
from benchyard.devboxes.shared.running_devbox import FirstProcess
from benchyard.errors import ServerUnreachable
from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.api.devbox import DevboxOverHttp, create, eventually, good
from tests.api.test_executions import output
from tests.api.test_objects import link, stored
from tests.api.test_pty import Terminals, until

LINES = "".join(f"{number}\n" for number in range(1, 2001))


@contextmanager
def served(tmp_path: Path, *options: str) -> Iterator[RunningServer]:
    with RunningServer(tmp_path / "data", list(options)) as running:
        yield running
    assert leaks.find(running.data) == []


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with the native driver that is killed again and again."""
    with served(tmp_path_factory.mktemp("lasting")) as running:
        yield running


@pytest.fixture(scope="module")
def http(lasting: RunningServer) -> Iterator[httpx.Client]:
    """A client of it."""
    with client_of(lasting) as client:
        yield client


def client_of(server: RunningServer) -> httpx.Client:
    headers = {"authorization": f"Bearer {server.key}"}
    return httpx.Client(base_url=server.url, headers=headers, timeout=40)


def held(server: RunningServer, devbox: DevboxOverHttp) -> FirstProcess:
    found = FirstProcess.load(server.data / "host" / "devboxes" / devbox.id)
    assert found is not None
    return found


def printed(server: RunningServer, devbox: DevboxOverHttp, execution: str) -> str:
    """What a command has printed so far."""
    return (server.data / "host/devboxes" / devbox.id / "executions" / execution / "stdout").read_text()


def kill_zygote(server: RunningServer) -> None:
    """Kill every helper of the server; devboxes are none."""
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and (folder / "cwd").readlink() == server.data / "driver":
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            continue


def hit(server: RunningServer, victims: str) -> None:
    """Kill them, and start what does not start again by itself."""
    if victims in ("zygote", "both"):
        kill_zygote(server)
    if victims in ("server", "both"):
        server.kill()
        server.start()


@pytest.mark.parametrize("victims", ["server", "zygote", "both"])
def test_everything_in_a_devbox_goes_on(lasting: RunningServer, http: httpx.Client, victims: str) -> None:
    devbox = create(http, name=f"survivor of {victims}")
    wait = "until [ -e ~/go ]; do sleep 0.05; done"
    running = devbox.start(f"seq 1 1000; {wait}; seq 1001 2000; echo late >&2; exit 9")
    done = devbox.run("seq 1 2000; exit 4")["execution_id"]
    first = devbox.start(f"cd /usr; COLOUR=blue; {wait}", shell_name="s")
    queued = [devbox.start(command, shell_name="s") for command in ("pwd; A=1", "echo $COLOUR $A; exit 5")]
    with Terminals(devbox, lasting).attach("t") as socket:
        socket.send(b"COLOUR=green; echo be''fore\n")
        until(socket, b"before")
    hit(lasting, victims)
    assert devbox.view()["status"] == "running"
    assert [view(devbox, each)["status"] for each in (running, first, *queued)] == [
        "running",
        "running",
        "queued",
        "queued",
    ]
    devbox.run("touch ~/go")
    ended = devbox.ended(running)
    assert (ended["exit_status"], ended["stderr"]) == (9, "late\n")
    assert output(devbox, running) == LINES
    assert output(devbox, done) == LINES
    assert view(devbox, done)["exit_status"] == 4
    assert [devbox.ended(each)["stdout"] for each in queued] == ["/usr\n", "blue 1\n"]
    assert view(devbox, queued[1])["exit_status"] == 5
    with Terminals(devbox, lasting).attach("t") as socket:
        until(socket, b"before")
        socket.send(b"echo $COLOUR-again\n")
        until(socket, b"green-again")
    assert create(http).run("echo new")["stdout"] == "new\n"
    assert good(devbox.post("shutdown"))["status"] == "shutdown"


def view(devbox: DevboxOverHttp, execution: str) -> dict[str, Any]:
    return good(devbox.get(f"executions/{execution}"))


@pytest.mark.parametrize("is_served", [True, False])
def test_a_devbox_whose_first_process_is_killed_has_failed(
    lasting: RunningServer, http: httpx.Client, is_served: bool
) -> None:
    devbox = create(http)
    running = devbox.start("seq 1 2000; while :; do sleep 0.1; done")
    eventually(lambda: printed(lasting, devbox, running) == LINES, "the output")
    first = held(lasting, devbox)
    if not is_served:
        lasting.kill()
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: not devbox_index.is_alive(first), "its end")
    if not is_served:
        lasting.start()
    failed = devbox.reaches("failure")
    assert failed["failure_reason"] == "health_check_failed"
    assert devbox.ended(running)["exit_status"] == 137
    assert output(devbox, running) == LINES


def test_after_a_reboot_devboxes_have_failed_and_what_was_kept_is_whole(
    lasting: RunningServer, http: httpx.Client
) -> None:
    devbox = create(http)
    devbox.run("echo kept > ~/file")
    snapshot = good(devbox.post("snapshot_disk", {"name": "kept"}))["id"]
    kept = stored(http, b"kept too")["id"]
    lasting.kill()
    folder = lasting.data / "host" / "devboxes" / devbox.id
    note = json.loads((folder / "box.json").read_text())
    (folder / "box.json").write_text(json.dumps({**note, "boot_id": "another boot"}))
    lasting.start()
    assert devbox.reaches("failure")["failure_reason"] == "health_check_failed"
    assert create(http, snapshot_id=snapshot).run("cat ~/file")["stdout"] == "kept\n"
    assert httpx.get(link(http, kept)).content == b"kept too"
    assert leaks.find(lasting.data) == []


def test_a_second_server_on_the_same_data_is_refused(lasting: RunningServer) -> None:
    other = RunningServer(lasting.data)
    with pytest.raises(ServerUnreachable, match="another server uses"):
        other.start()


def held_by_a_devbox(server: RunningServer) -> set[str]:
    """The kinds of leaks that a devbox holds in the kernel."""
    return {leak.kind for leak in leaks.find(server.data)} & {"process", "mount", "cgroup", "namespace"}


def test_devboxes_end_when_the_server_never_comes_back(tmp_path: Path) -> None:
    with served(tmp_path, "--devbox-lease", "1") as server, client_of(server) as client:
        devbox = create(client)
        running = devbox.start("echo begun; while :; do sleep 0.1; done")
        eventually(lambda: printed(server, devbox, running) == "begun\n", "the output")
        first = held(server, devbox)
        server.kill()
        eventually(lambda: not devbox_index.is_alive(first), "the end of the lease")
        # The kernel may count a process that has just died for a moment more.
        eventually(lambda: not held_by_a_devbox(server), "the end of all that it held")
        server.start()
        assert devbox.reaches("failure")["failure_reason"] == "health_check_failed"
        assert devbox.ended(running)["exit_status"] == 137
        assert output(devbox, running) == "begun\n"
