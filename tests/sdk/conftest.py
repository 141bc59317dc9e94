"""The official client, both kinds of it, against a server with the native driver."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import httpx
import pytest
from runloop_api_client import AsyncRunloop, AsyncRunloopSDK, Runloop, RunloopSDK
from runloop_api_client.sdk import Devbox

from benchyard.hosts import leaks
from benchyard.testing.server import RunningServer
from tests.sdk.blocking import Blocking, Loop, running_loop
from tests.sdk.leftovers import belongings, disks_below, mounts_below

KINDS = ["sync", "async"]


@pytest.fixture(scope="session")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a git server with one repository, `owner/repo`."""
    folder = tmp_path_factory.mktemp("forge")
    script = """
        git init -q -b main work && cd work && git config user.email a@b.c && git config user.name a
        echo one > file && git add file && git commit -qm one && git tag v1
        echo two > file && git commit -qam two
        cd .. && mkdir owner && git clone -q --bare work owner/repo.git
    """
    subprocess.run(["sh", "-ec", script], cwd=folder, check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["git", "daemon", "--export-all", f"--base-path={folder}", "--listen=127.0.0.1"]
    process = subprocess.Popen([*command, f"--port={port}", "--reuseaddr"], stderr=subprocess.DEVNULL)
    yield f"git://127.0.0.1:{port}"
    process.terminate()
    process.wait(30)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, forge: str) -> Iterator[RunningServer]:
    """A server with the native driver; nothing may be left of it or its devboxes."""
    data = tmp_path_factory.mktemp("sdk") / "data"
    with leaving_nothing(RunningServer(data, environment={"BENCHYARD_GIT_URL": forge})) as running:
        yield running


@pytest.fixture(scope="session")
def loop() -> Iterator[Loop]:
    """Where the asynchronous client lives."""
    with running_loop() as running:
        yield running


@pytest.fixture(scope="session", params=KINDS)
def client(request: pytest.FixtureRequest, server: RunningServer, loop: Loop) -> Iterator[Runloop]:
    """The generated client: `Runloop`, and `AsyncRunloop` behind the same face."""
    with connected(request.param, server, loop) as made:
        yield made


@pytest.fixture(scope="session", params=KINDS)
def sdk(request: pytest.FixtureRequest, server: RunningServer, loop: Loop) -> Iterator[RunloopSDK]:
    """The object-oriented client: `RunloopSDK`, and `AsyncRunloopSDK` behind the same face."""
    if request.param == "sync":
        with RunloopSDK(base_url=server.url, bearer_token=server.key) as made:
            yield made
    else:
        asynchronous = AsyncRunloopSDK(base_url=server.url, bearer_token=server.key)
        with cast(RunloopSDK, Blocking(asynchronous, loop)) as made:
            yield made


@contextmanager
def leaving_nothing(server: RunningServer) -> Iterator[RunningServer]:
    """Run a server; afterwards nothing may be left of it and its devboxes."""
    with server:
        yield server
        # One devbox at least, so that its groups are known.
        headers = {"authorization": f"Bearer {server.key}"}
        httpx.post(f"{server.url}/v1/devboxes/create_and_await_running", headers=headers, timeout=40)
        before = belongings(server.pid)
    assert len(before.processes) > 1
    assert before.left() == []
    assert mounts_below(server.data) == []
    assert disks_below(server.data) == []
    assert leaks.find(server.data) == []


def connected(kind: str, server: RunningServer, loop: Loop) -> Runloop:
    """A client of that kind; use it as a context manager."""
    if kind == "sync":
        return Runloop(base_url=server.url, bearer_token=server.key)
    return cast(Runloop, Blocking(AsyncRunloop(base_url=server.url, bearer_token=server.key), loop))


@pytest.fixture(scope="module")
def box(client: Runloop) -> Iterator[str]:
    """The id of a devbox that the tests of one file share."""
    made = client.devboxes.create_and_await_running(name="shared")
    yield made.id
    client.devboxes.shutdown(made.id)


@pytest.fixture(scope="module")
def devbox(sdk: RunloopSDK) -> Iterator[Devbox]:
    """The same as an object of the SDK."""
    with sdk.devbox.create(name="shared") as made:
        yield made
