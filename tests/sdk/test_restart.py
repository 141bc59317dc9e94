"""A server that is killed or restarted, as the official client sees it."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from runloop_api_client import BadRequestError, Runloop

from benchyard.testing.server import RunningServer
from tests.sdk.blocking import Loop
from tests.sdk.boxes import create, eventually, output, run
from tests.sdk.conftest import KINDS, connected, leaving_nothing
from tests.sdk.leftovers import belongings


@pytest.fixture(params=KINDS)
def lonely(
    request: pytest.FixtureRequest, tmp_path: Path, loop: Loop
) -> Iterator[tuple[RunningServer, Runloop]]:
    """A server of the test's own, and a client."""
    with (
        leaving_nothing(RunningServer(tmp_path / "data")) as server,
        connected(request.param, server, loop) as client,
    ):
        yield server, client


def test_devboxes_commands_and_shells_outlive_a_killed_server(lonely: tuple[RunningServer, Runloop]) -> None:
    server, client = lonely
    id = create(client, name="survivor", metadata={"a": "1"})
    command = "echo before; until [ -e ~/go ]; do sleep 0.05; done; echo after; exit 9"
    waiting = client.devboxes.execute_async(id, command=command)
    done = run(client, id, "seq 1 500; exit 4")
    output(client, id, "mkdir ~/sub; cd ~/sub; export COLOUR=blue", shell_name="work")
    fast = client.devboxes.execute_async(id, command="sleep 0.4; echo while it was down; exit 3")
    own = belongings(server.pid).without_devboxes()
    assert len(own.processes) > 1
    server.kill()
    server.start()
    eventually(lambda: own.left() == [], "the killed server's other processes to end")
    view = client.devboxes.retrieve(id)
    assert (view.status, view.name, view.metadata) == ("running", "survivor", {"a": "1"})
    executions = client.devboxes.executions
    assert executions.retrieve(waiting.execution_id, devbox_id=id).status == "running"
    assert executions.retrieve(done.execution_id, devbox_id=id) == done
    quick = executions.await_completed(fast.execution_id, devbox_id=id)
    assert (quick.exit_status, quick.stdout) == (3, "while it was down\n")
    assert output(client, id, "touch ~/go; pwd; echo $COLOUR", shell_name="work") == "/home/user/sub\nblue\n"
    ended = executions.await_completed(waiting.execution_id, devbox_id=id)
    assert (ended.exit_status, ended.stdout) == (9, "before\nafter\n")
    stream = executions.stream_stdout_updates(done.execution_id, devbox_id=id)
    assert "".join(chunk.output for chunk in stream) == "".join(f"{number}\n" for number in range(1, 501))
    assert client.devboxes.shutdown(id).status == "shutdown"


def test_a_restarted_server_has_what_it_had(lonely: tuple[RunningServer, Runloop]) -> None:
    server, client = lonely
    keys = [f"once-{uuid.uuid4()}" for _ in range(4)]
    devboxes = client.devboxes

    def requests() -> list[str]:
        made = devboxes.create(name="once", idempotency_key=keys[0])
        devboxes.await_running(made.id)
        ran = devboxes.execute_async(made.id, command="echo x >> ~/once", idempotency_key=keys[1])
        devboxes.executions.await_completed(ran.execution_id, devbox_id=made.id)
        taken = devboxes.snapshot_disk(made.id, name="once", idempotency_key=keys[2])
        thing = client.objects.create(name="once", content_type="text", idempotency_key=keys[3])
        return [made.id, ran.execution_id, taken.id, thing.id]

    before = requests()
    resting = create(client)
    output(client, resting, "echo kept > ~/file")
    devboxes.suspend(resting)
    devboxes.await_suspended(resting)
    server.restart()
    assert requests() == before
    assert output(client, before[0], "cat ~/once") == "x\n"
    with pytest.raises(BadRequestError):
        devboxes.create(name="other", idempotency_key=keys[0])
    copy = create(client, snapshot_id=before[2])
    assert output(client, copy, "cat ~/once") == "x\n"
    devboxes.resume(resting)
    devboxes.await_running(resting)
    assert output(client, resting, "cat ~/file") == "kept\n"
