"""The host: devboxes, executions, files and events of one machine."""

import asyncio
import contextlib
import os
import stat

import pytest

from benchyard.devboxes.base import (
    Capability,
    DevboxEnded,
    DevboxLimits,
    ExecutionEnded,
    Kill,
    Network,
    Signal,
    Stdin,
)
from benchyard.errors import Conflict, DevboxGone, NotFound, StartFailed, UsageError
from benchyard.hosts.host import StartRequest
from benchyard.testing.contracts.driver_fixture import eventually, processes_with
from tests.hosts.conftest import OnHost
from tests.hosts.yard import HostYard


def test_a_command_runs_in_a_login_shell_from_home(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox(env={"GIVEN": "by devbox"})
        said = await yard.text(devbox, 'shopt -q login_shell && echo login; test "$PWD" = ~ && echo $GIVEN')
        assert said == "login\nby devbox\n"
        assert await yard.text(devbox, "echo $GIVEN", env={"GIVEN": "by command"}) == "by command\n"

    on_host(test)


def test_an_execution_has_its_state(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        begun = await yard.host.exec(devbox, yard.request("cat; echo err >&2; exit 7", attach_stdin=True))
        assert (begun.status, begun.exit_status, begun.end_ms) == ("running", None, None)
        assert (await yard.host.wait(devbox, begun.id, 0.01)).status == "running"
        assert await yard.host.control(devbox, begun.id, Stdin(b"in", close=True))
        ended = await yard.host.wait(devbox, begun.id, 30)
        assert (ended.status, ended.exit_status, ended.stdout_bytes, ended.stderr_bytes) == (
            "completed",
            7,
            2,
            4,
        )
        assert ended.end_ms is not None
        assert ended.end_ms >= ended.start_ms
        assert not await yard.host.control(devbox, begun.id, Kill())
        assert await yard.host.execution(devbox, begun.id) == ended
        assert await yard.host.executions(devbox) == [ended]

    on_host(test)


def test_the_same_id_again_is_the_same_execution(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        request = yard.request("echo x >> ran", request_hash="a")
        await yard.host.exec(devbox, request)
        again = await yard.host.exec(devbox, request)
        await yard.host.wait(devbox, again.id, 30)
        await yard.restart()
        assert (await yard.host.exec(devbox, request)).status == "completed"
        assert await yard.text(devbox, "cat ran") == "x\n"
        with pytest.raises(UsageError, match="another request"):
            await yard.host.exec(devbox, yard.request("other", id=request.id, request_hash="b"))

    on_host(test)


def test_ids_that_would_leave_the_folder_are_refused(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        for bad in ("../x", "a/b", "", ".hidden", "x" * 200, "a\0b"):
            with pytest.raises(UsageError):
                await yard.host.exec(devbox, yard.request("true", id=bad))
            with pytest.raises(UsageError):
                await yard.host.start(StartRequest(id=bad, image="host"))
            with pytest.raises(UsageError):
                await yard.host.execution(devbox, bad)

    on_host(test)


def test_unknown_devbox_or_execution_is_not_found(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        with pytest.raises(NotFound):
            await yard.host.exec("never-was", yard.request("true"))
        with pytest.raises(NotFound):
            await yard.host.wait(devbox, "never-was", 1)
        with pytest.raises(NotFound):
            await yard.output(devbox, "never-was")
        with pytest.raises(NotFound):
            await yard.host.start(StartRequest(id="other", image="no-such-image"))
        with pytest.raises(UsageError):
            await yard.output(devbox, (await yard.run(devbox, "true")).id, "status.json")
        await yard.host.stop("never-was", keep_disk=False)

    on_host(test)


def test_commands_of_any_length_run(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        long = "x='" + "y" * 300_000 + "'; echo ${#x}; ls /proc/$$/fd | grep -c '^[89]$'; exit 4"
        state = await yard.run(devbox, long)
        assert (state.exit_status, await yard.output(devbox, state.id)) == (4, b"300000\n0\n")
        in_shell = await yard.run(devbox, long, shell_name="s")
        assert (in_shell.exit_status, (await yard.output(devbox, in_shell.id))[:7]) == (4, b"300000\n")
        with pytest.raises(UsageError, match="NUL"):
            await yard.run(devbox, "echo a\0b")

    on_host(test)


def test_a_timeout_is_reported(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        state = await yard.run(devbox, "while :; do sleep 0.1; done", timeout_seconds=0.2)
        assert state.exit_status == 137
        assert state.hint is not None
        assert "time limit" in state.hint

    on_host(test)


def test_cut_output_is_reported(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox(limits=DevboxLimits(output_bytes=10))
        state = await yard.run(devbox, "echo 0123456789abcdef")
        assert (state.stdout_truncated, state.stderr_truncated, state.stdout_bytes) == (True, False, 10)
        assert state.hint is not None
        assert "10 bytes" in state.hint

    on_host(test)


def test_a_command_that_needed_the_network_names_the_flag(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        failing = "echo 'curl: (6) Could not resolve host: example.org' >&2; exit 6"
        state = await yard.run(devbox, failing)
        assert state.hint is not None
        assert "--devbox-network host" in state.hint
        assert "benchyard.network=host" in state.hint
        await yard.restart()
        assert (await yard.host.execution(devbox, state.id)).hint == state.hint
        assert (await yard.run(devbox, failing.replace("exit 6", "exit 0"))).hint is None

    on_host(test)


@pytest.mark.parametrize(
    "command",
    [
        "kill -XFSZ $$",
        "echo 'dd: error writing x: No space left on device' >&2; exit 1",
        "python3 -c 'raise OSError(27, \"File too large\")'",
    ],
)
def test_a_command_that_filled_the_disk_gets_that_reason(on_host: OnHost, command: str) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox(network=Network.HOST)
        state = await yard.run(devbox, command)
        assert state.hint is not None
        assert "disk is full" in state.hint

    on_host(test)


def test_output_is_followed_from_any_offset_to_the_end(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        command = "echo one; read line; echo $line"
        state = await yard.host.exec(devbox, yard.request(command, attach_stdin=True))
        stream = yard.host.output(devbox, state.id, "stdout")
        assert await anext(stream) == b"one\n"
        await yard.host.control(devbox, state.id, Stdin(b"two\n"))
        assert b"".join([piece async for piece in stream]) == b"two\n"
        assert await yard.output(devbox, state.id, offset=2) == b"e\ntwo\n"
        assert await yard.output(devbox, state.id, offset=1000) == b""

    on_host(test)


def test_output_without_following_is_the_present_output(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        state = await yard.host.exec(devbox, yard.request("echo one; cat", attach_stdin=True))
        await anext(yard.host.output(devbox, state.id, "stdout"))
        pieces = yard.host.output(devbox, state.id, "stdout", follow=False)
        assert [piece async for piece in pieces] == [b"one\n"]

    on_host(test)


def test_the_last_lines_are_reported(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        state = await yard.run(devbox, "seq 1000")
        assert await yard.host.tail(devbox, state.id, "stdout", 2) == ("999\n1000\n", True)
        whole, is_cut = await yard.host.tail(devbox, state.id, "stdout", 1000)
        assert (whole.count("\n"), is_cut) == (1000, False)
        assert await yard.host.tail(devbox, state.id, "stderr", 2) == ("", False)

    on_host(test)


def test_files_are_read_and_written_as_the_devboxs_user(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        with os.fdopen(await yard.host.open_write(devbox, "~/a/b", mode=0o700), "wb") as file:
            file.write(b"content")
        assert await yard.text(devbox, "cat a/b; stat -c %a a/b") == "content700\n"
        with os.fdopen(await yard.host.open_read(devbox, "a/b"), "rb") as file:
            assert file.read() == b"content"

    on_host(test)


def test_stopping_keeps_the_disk_or_takes_it(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        state = await yard.run(devbox, "echo kept > file; echo said")
        await yard.host.stop(devbox, keep_disk=True)
        await yard.host.stop(devbox, keep_disk=True)
        assert yard.host.running() == set()
        with pytest.raises(DevboxGone):
            await yard.run(devbox, "true")
        await yard.devbox(devbox)
        assert await yard.text(devbox, "cat file") == "kept\n"
        await yard.host.stop(devbox, keep_disk=False)
        assert await yard.output(devbox, state.id) == b"said\n"
        folder = yard.folder / "host/devboxes" / devbox
        assert {path.name for path in folder.iterdir()} <= {"request.json", "executions"}
        await yard.host.forget(devbox)
        assert not folder.exists()
        with pytest.raises(NotFound):
            await yard.host.execution(devbox, state.id)

    on_host(test)


def test_stopping_ends_the_executions(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        running = await yard.host.exec(devbox, yard.request("while :; do sleep 0.1; done", shell_name="s"))
        queued = await yard.host.exec(devbox, yard.request("true", shell_name="s"))
        waiting = asyncio.ensure_future(yard.host.wait(devbox, running.id, 30))
        await yard.host.stop(devbox, keep_disk=False)
        assert (await waiting).exit_status == 137
        assert (await yard.host.execution(devbox, queued.id)).exit_status == 137

    on_host(test)


def test_an_abandoned_stop_keeps_others_away_until_its_end(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        await yard.run(devbox, "mkdir old && cd old && seq 3000 | xargs touch")
        stopping = asyncio.ensure_future(yard.host.stop(devbox, keep_disk=False))
        await eventually(lambda: not yard.host.running(), "the devbox to be stopped")
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        await yard.devbox(devbox)
        assert await yard.text(devbox, "ls; echo new > file; cat file") == "new\n"

    on_host(test)


def test_a_running_devbox_is_not_forgotten(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        with pytest.raises(Conflict):
            await yard.host.forget(devbox)
        assert await yard.text(devbox, "echo fine") == "fine\n"

    on_host(test)


def test_a_start_that_fails_is_reported_and_can_be_repeated(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        with pytest.raises(StartFailed, match="no reason"):
            await yard.devbox()
        assert yard.host.running() == set()
        await yard.host.stop("dbx_1", keep_disk=False)
        yard.options.clear()
        await yard.restart()
        assert yard.host.running() == set()
        await yard.devbox()
        assert await yard.text("dbx_1", "echo fine") == "fine\n"

    on_host(test, fail_start="no reason")


def test_a_cancelled_start_leaves_nothing_running(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        starting = asyncio.ensure_future(yard.devbox())
        await asyncio.sleep(0)
        starting.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await starting
        assert yard.host.running() == set()
        await yard.host.forget("dbx_1")
        assert not (yard.folder / "host/devboxes/dbx_1").exists()

    on_host(test, start_delay="30")


def test_a_command_that_cannot_be_handed_over_is_as_if_never_asked(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        with pytest.raises(DevboxGone, match="lost"):
            await yard.run(devbox, "true", id="one")
        assert await yard.host.executions(devbox) == []

    on_host(test, fail_exec="lost")


def test_events_come_after_the_state(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        state = await yard.host.exec(devbox, yard.request("exit 1"))
        event = await asyncio.wait_for(anext(yard.host.events()), 30)
        assert event == ExecutionEnded(devbox, state.id)
        assert (await yard.host.execution(devbox, state.id)).exit_status == 1

    on_host(test)


def test_a_devbox_over_its_disk_limit_is_ended(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox(limits=DevboxLimits(disk_bytes=1_000_000))
        state = await yard.host.exec(
            devbox,
            yard.request("for i in 1 2 3 4; do head -c 500000 /dev/zero > f$i; done; cat", attach_stdin=True),
        )
        async for event in yard.host.events():
            if isinstance(event, DevboxEnded):
                break
        assert isinstance(event, DevboxEnded)
        assert (event.devbox_id, event.reason) == (devbox, "out_of_disk")
        assert yard.host.running() == set()
        ended = await yard.host.execution(devbox, state.id)
        assert ended.exit_status == 137
        assert ended.hint is not None
        assert "larger" in ended.hint
        with pytest.raises(DevboxGone, match=r"does not run \(the disk holds \d+ bytes, more than"):
            await yard.host.exec(devbox, yard.request("true"))

    on_host(test)


def test_a_snapshot_is_an_image_to_start_from(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        await yard.text(devbox, "echo one > file")
        assert await yard.host.snapshot(devbox, f"snp_{yard.folder.name}") > 0
        await yard.text(devbox, "echo two > file")
        size = await yard.host.snapshot(devbox, f"snp_{yard.folder.name}")
        await yard.host.stop(devbox, keep_disk=True)
        stopped = await yard.host.snapshot(devbox, f"later_{yard.folder.name}")
        assert min(size, stopped) > 0
        for snapshot, content in (("snp", "one"), ("later", "two")):
            name = f"from_{snapshot}"
            await yard.host.start(StartRequest(id=name, image=f"{snapshot}_{yard.folder.name}"))
            assert await yard.text(name, "cat file") == f"{content}\n"
        await yard.host.stop(devbox, keep_disk=False)
        with pytest.raises(Conflict):
            await yard.host.snapshot(devbox, "gone")

    on_host(test)


def test_a_terminal_without_a_command_is_an_interactive_shell(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        state = await yard.host.exec(devbox, yard.request("", pty=(80, 24)))
        await yard.host.control(
            devbox, state.id, Stdin(b"case $- in *i*) echo inter''active;; esac; exit 5\n")
        )
        assert (await yard.host.wait(devbox, state.id, 30)).exit_status == 5
        assert b"interactive" in await yard.output(devbox, state.id)

    on_host(test)


def test_signals_and_kills_reach_commands(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        devbox = await yard.devbox()
        script = "trap 'exit 9' INT; echo up; while :; do sleep 0.05; done"
        state = await yard.host.exec(devbox, yard.request(script))
        await anext(yard.host.output(devbox, state.id, "stdout"))
        assert await yard.host.control(devbox, state.id, Signal(2))
        assert (await yard.host.wait(devbox, state.id, 30)).exit_status == 9
        other = await yard.host.exec(devbox, yard.request(f"sleep 1234.{os.getpid()}"))
        assert await yard.host.control(devbox, other.id, Kill())
        assert (await yard.host.wait(devbox, other.id, 30)).exit_status == 137
        await eventually(lambda: not processes_with(f"1234.{os.getpid()}"), "its end")

    on_host(test)


def test_the_hosts_folder_is_closed_to_others(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        await yard.devbox()
        for folder in ("host/devboxes", "host/devboxes/dbx_1"):
            assert stat.S_IMODE((yard.folder / folder).stat().st_mode) == 0o700

    on_host(test)


def test_running_out_of_memory_is_reported(on_host: OnHost) -> None:
    async def test(yard: HostYard) -> None:
        if Capability.LIMIT_MEMORY not in yard.driver.capabilities:
            pytest.skip("memory cannot be limited here")
        devbox = await yard.devbox(limits=DevboxLimits(memory_bytes=64 * 1024**2))
        state = await yard.run(devbox, "head -c 300000000 /dev/zero | tail -c 300000000 > /dev/null")
        assert state.exit_status == 137
        assert state.hint is not None
        assert "out of memory" in state.hint
        assert (await yard.run(devbox, "exit 1")).hint is None

    on_host(test, name="native")
