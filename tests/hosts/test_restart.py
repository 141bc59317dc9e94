"""After a restart, or a crash, the host goes on with what runs and tells what does not."""

import os
import shutil
import signal

import pytest

from benchyard.devboxes.base import DevboxEnded, Stdin
from benchyard.devboxes.guest import processes
from benchyard.devboxes.shared.running_devbox import FirstProcess
from benchyard.testing.contracts.driver_fixture import eventually
from tests.hosts.conftest import OnHost
from tests.hosts.yard import HostYard


def test_devboxes_and_their_commands_are_found_again(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        state = await yard.host.exec(devbox, yard.request("read line; echo $line; exit 3", attach_stdin=True))
        done = await yard.run(devbox, "echo done")
        await yard.restart()
        assert yard.host.running() == {devbox}
        assert (await yard.host.execution(devbox, done.id)).exit_status == 0
        assert (await yard.host.execution(devbox, state.id)).status == "running"
        assert await yard.host.control(devbox, state.id, Stdin(b"hello\n"))
        assert (await yard.host.wait(devbox, state.id, 30)).exit_status == 3
        assert await yard.output(devbox, state.id) == b"hello\n"

    on_host(test)


def test_a_command_that_ended_meanwhile_is_completed(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        state = await yard.host.exec(devbox, yard.request("until [ -e go ]; do sleep 0.01; done; exit 8"))
        home = yard.folder / "host/devboxes" / devbox / "changes/home/user"
        await yard.close()
        (home / "go").touch()
        status = yard.folder / "host/devboxes" / devbox / "executions" / state.id / "status.json"
        await eventually(lambda: status.exists() and status.stat().st_size > 0, "its end")
        await yard.open()
        assert (await yard.host.execution(devbox, state.id)).exit_status == 8

    on_host(test)


@pytest.mark.parametrize("shell", [None, "named"])
@pytest.mark.parametrize("left", [("status.json",), ("status.json", "stdout", "stderr")])
def test_a_command_that_was_never_handed_over_is_begun(
    on_host: OnHost, shell: str | None, left: tuple[str, ...]
) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        state = await yard.run(devbox, "echo once >> ~/times; cat ~/times", shell_name=shell)
        folder = yard.folder / "host/devboxes" / devbox / "executions"
        await yard.close()
        for name in left:
            (folder / state.id / name).unlink()
        (folder / "half").mkdir()
        (folder / "half/request.json").write_text('{"id": "ha')
        await yard.open()
        ended = await yard.host.wait(devbox, state.id, 30)
        assert ended.exit_status == 0
        assert (await yard.host.tail(devbox, state.id, "stdout", 9))[0] == "once\nonce\n"
        assert [execution.id for execution in await yard.host.executions(devbox)] == [state.id]

    on_host(test)


def test_a_devbox_that_is_gone_does_not_run_and_can_be_started_anew(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        state = await yard.host.exec(devbox, yard.request("while :; do sleep 0.1; done"))
        held = FirstProcess.load(yard.folder / "host/devboxes" / devbox)
        assert held is not None
        await yard.close()
        os.kill(held.pid, signal.SIGKILL)
        await eventually(lambda: processes.start_time(held.pid) != held.start_time, "its end")
        await yard.open()
        assert yard.host.running() == set()
        assert (await yard.host.execution(devbox, state.id)).exit_status == 137
        await yard.restart()
        await yard.devbox(devbox)
        assert await yard.text(devbox, "echo again") == "again\n"

    on_host(test)


def test_a_devbox_that_dies_under_the_host_is_reported(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        state = await yard.host.exec(devbox, yard.request("while :; do sleep 0.1; done"))
        held = FirstProcess.load(yard.folder / "host/devboxes" / devbox)
        assert held is not None
        os.kill(held.pid, signal.SIGKILL)
        async for event in yard.host.events():
            if isinstance(event, DevboxEnded):
                break
        assert yard.host.running() == set()
        assert (await yard.host.execution(devbox, state.id)).exit_status == 137

    on_host(test)


def test_queued_commands_of_a_shell_go_on(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        requests = [
            yard.request(command, shell_name="s", attach_stdin=True)
            for command in ("A=1; read line", "echo $A; B=2; cd /usr", "echo $B; pwd")
        ]
        states = [await yard.host.exec(devbox, request) for request in requests]
        assert [state.status for state in states] == ["running", "queued", "queued"]
        await yard.restart()
        found = await yard.host.executions(devbox)
        assert [state.status for state in found] == ["running", "queued", "queued"]
        await yard.host.control(devbox, states[0].id, Stdin(b"\n"))
        assert (await yard.host.wait(devbox, states[2].id, 30)).exit_status == 0
        assert await yard.output(devbox, states[1].id) == b"1\n"
        assert await yard.output(devbox, states[2].id) == b"2\n/usr\n"

    on_host(test)


def test_unrecorded_layers_can_be_cleared(on_host: OnHost) -> None:
    """It was killed between keeping the layers for a devbox and noting which one it is."""

    async def test(yard: HostYard) -> None:
        await yard.devbox("dbx_1")
        await yard.host.stop("dbx_1", keep_disk=True)
        folder = yard.folder / "host/devboxes/dbx_1"
        await yard.close()
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / "request.json.part").write_text('{"requ')
        await yard.open()
        assert "dbx_1" in yard.host.with_disk()
        await yard.host.stop("dbx_1", keep_disk=True)
        assert folder.exists()
        await yard.host.stop("dbx_1", keep_disk=False)
        assert not folder.exists()
        assert "dbx_1" not in yard.host.with_disk()

    on_host(test)
