"""Duties of every driver to a command: its bytes, its status, its end."""

import asyncio
import re
import signal

import pytest

from benchyard.devboxes.base import Capability, DevboxLimits, ExecutionEnded, Kill, Resize, Signal, Stdin
from benchyard.errors import DevboxGone
from benchyard.testing.contracts.driver_fixture import (
    DriverFixture,
    DriverSuite,
    contract,
    eventually,
    processes_with,
)

_EVERY_BYTE = bytes(range(256))
_DAEMON = "(setsid sh -c \"trap '' TERM INT HUP; sleep {0}; true\" >/dev/null 2>&1 </dev/null &) ; "


class CommandContract(DriverSuite):
    """Commands: how they start, their input and output, how they end."""

    @contract()
    async def test_exit_codes_come_back(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        for code in (0, 1, 42, 255):
            assert (await yard.run(devbox, f"exit {code}")).status.exit_status == code

    @contract()
    async def test_death_by_signal_is_128_and_its_number(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        for number in (signal.SIGTERM, signal.SIGKILL):
            result = await yard.run(devbox, f"kill -{int(number)} $$")
            assert result.status.exit_status == 128 + number
            assert not result.status.killed

    @contract()
    async def test_command_that_is_not_there_ends_with_127(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        for program in ("/no/such/program", "no-such-program"):
            assert (await yard.run(devbox, argv=(program,))).status.exit_status == 127

    @contract()
    async def test_file_that_is_not_executable_ends_with_126(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.write(devbox, "~/plain", b"text", mode=0o644)
        home = await yard.text(devbox, "pwd")
        assert (await yard.run(devbox, argv=(f"{home}/plain",))).status.exit_status == 126

    @contract()
    async def test_missing_working_directory_ends_with_126(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        assert (await yard.run(devbox, "true", cwd="/no/such/place")).status.exit_status == 126

    @contract()
    async def test_every_byte_goes_in_and_comes_out(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        sent = _EVERY_BYTE * (5 * 1024 * 1024 // 256)
        command = await yard.begin(devbox, "cat", attach_stdin=True)
        assert await yard.driver.control(devbox, command.id, Stdin(sent))
        assert await yard.driver.control(devbox, command.id, Stdin(_EVERY_BYTE, close=True))
        result = await yard.finish(command)
        assert result.stdout == sent + _EVERY_BYTE
        assert result.status.exit_status == 0

    @contract()
    async def test_stdout_and_stderr_stay_apart(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        result = await yard.run(devbox, r"printf 'a\0b'; printf 'c\377d' >&2")
        assert (result.stdout, result.stderr) == (b"a\0b", b"c\xffd")

    @contract()
    async def test_standard_input_is_empty_unless_attached(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        command = await yard.begin(devbox, "cat")
        result = await yard.finish(command)
        assert (result.stdout, result.status.exit_status) == (b"", 0)

    @contract()
    async def test_input_after_its_end_is_refused(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        command = await yard.begin(devbox, f"cat; echo done; sleep {yard.marker()}", attach_stdin=True)
        assert await yard.driver.control(devbox, command.id, Stdin(close=True))
        await yard.shows(command, b"done")
        assert not await yard.driver.control(devbox, command.id, Stdin(b"late"))

    @contract()
    async def test_environment_is_given_and_basics_are_there(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        strange = "a b\n'\"$HOME ü"
        script = 'printf "%s|" "$STRANGE" "${HOME:?}" "${USER:?}" "${PATH:?}" "${TERM:?}" "${LANG:?}"'
        result = await yard.run(devbox, script, env={"STRANGE": strange})
        assert result.status.exit_status == 0
        assert result.stdout.decode().startswith(f"{strange}|")

    @contract()
    async def test_the_servers_environment_stays_outside(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        assert "PYTEST_CURRENT_TEST" not in await yard.text(devbox, "env")

    @contract()
    async def test_large_environment_arrives(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        large = {f"V{number}": "x" * 4096 for number in range(100)}
        assert await yard.text(devbox, "env | grep -c '^V[0-9]*=x*$'", env=large) == "100"

    @contract()
    async def test_working_directory_is_home_or_as_told(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.write(devbox, "~/some where/file", b"")
        assert await yard.text(devbox, 'test "$PWD" = "$HOME" && ls') == "some where"
        assert await yard.text(devbox, "ls", cwd="~/some where") == "file"

    @contract()
    async def test_nothing_but_the_standard_descriptors_is_open(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        # The shell itself opens the directory that it lists, as 3.
        listed = (await yard.text(devbox, "echo /proc/$$/fd/*")).split()
        assert {int(path.rpartition("/")[2]) for path in listed} <= {0, 1, 2, 3}

    @contract()
    async def test_extra_files_are_descriptors_from_8(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        given, taken = yard.folder / "given", yard.folder / "taken"
        given.write_bytes(b"from outside")
        given.chmod(0o600)
        files = ((given, "r"), (taken, "w"))
        assert await yard.text(devbox, "cat <&8; echo back >&9", extra_files=files) == "from outside"
        assert taken.read_bytes() == b"back\n"

    @contract()
    async def test_a_child_in_the_background_does_not_hold_up_the_end(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        marker = yard.marker()
        assert await yard.text(devbox, f"sleep {marker} & echo hi") == "hi"
        assert processes_with(marker)
        await yard.driver.stop(devbox)
        assert not processes_with(marker)

    @contract()
    async def test_timeout_kills_daemonised_descendants_too(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        inner, outer = yard.marker(), yard.marker()
        result = await yard.run(devbox, _DAEMON.format(inner) + f"sleep {outer}", timeout_seconds=0.5)
        assert result.status.timed_out
        assert result.status.exit_status == 137
        await eventually(lambda: not processes_with(inner) + processes_with(outer), "their end")

    @contract()
    async def test_kill_reaches_every_descendant(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        inner, outer = yard.marker(), yard.marker()
        command = await yard.begin(devbox, _DAEMON.format(inner) + f"sleep {outer}")
        await eventually(lambda: bool(processes_with(inner) and processes_with(outer)), "their start")
        assert await yard.driver.control(devbox, command.id, Kill())
        result = await yard.finish(command)
        assert result.status.killed
        assert result.status.exit_status == 137
        await eventually(lambda: not processes_with(inner) + processes_with(outer), "their end")

    @contract()
    async def test_signals_reach_the_process_group(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        script = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done"
        command = await yard.begin(devbox, script)
        await yard.shows(command, b"ready")
        assert await yard.driver.control(devbox, command.id, Signal(signal.SIGINT))
        result = await yard.finish(command)
        assert (result.stdout, result.status.exit_status) == (b"ready\ncaught\n", 7)
        assert not result.status.killed

    @contract()
    async def test_signal_0_tells_whether_it_runs(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        command = await yard.begin(devbox, "cat", attach_stdin=True)
        assert await yard.driver.control(devbox, command.id, Signal(0))
        assert await yard.driver.control(devbox, command.id, Stdin(close=True))
        await yard.finish(command)
        assert not await yard.driver.control(devbox, command.id, Signal(0))
        assert not await yard.driver.control(devbox, "never-was", Kill())

    @contract()
    async def test_output_over_its_limit_is_cut_and_said_to_be(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox(limits=DevboxLimits(output_bytes=100_000))
        result = await yard.run(devbox, "head -c 1000000 /dev/zero; echo short >&2")
        assert result.stdout == bytes(100_000)
        assert result.stderr == b"short\n"
        assert result.status.exit_status == 0
        assert result.status.stdout_truncated
        assert not result.status.stderr_truncated

    @contract()
    async def test_output_cannot_be_rewritten_from_inside(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        script = (
            "echo one; (: > /proc/self/fd/1) 2>/dev/null; truncate -s 0 /dev/stdout 2>/dev/null; echo two"
        )
        assert await yard.text(devbox, script) == "one\ntwo"

    @contract()
    async def test_a_commands_end_is_an_event(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        command = await yard.begin(devbox, "true")
        events = yard.driver.events()
        assert await asyncio.wait_for(anext(events), 30) == ExecutionEnded(devbox, command.id)

    @contract()
    async def test_commands_run_side_by_side(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        commands = [await yard.begin(devbox, "cat", attach_stdin=True) for _ in range(20)]
        for number, command in enumerate(commands):
            await yard.driver.control(devbox, command.id, Stdin(str(number).encode(), close=True))
        results = [await yard.finish(command) for command in commands]
        assert [int(result.stdout) for result in results] == list(range(20))

    @contract()
    async def test_nothing_starts_in_a_devbox_that_does_not_run(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        await yard.driver.stop(devbox)
        with pytest.raises(DevboxGone):
            await yard.begin(devbox, "true")
        with pytest.raises(DevboxGone):
            await yard.driver.control(devbox, "never-was", Kill())

    @contract(Capability.PTY)
    async def test_terminal_has_its_size_and_can_be_resized(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        command = await yard.begin(devbox, "stty size; read _; stty size", pty=(101, 33))
        await yard.shows(command, b"33 101")
        assert await yard.driver.control(devbox, command.id, Resize(columns=80, rows=24))
        assert await yard.driver.control(devbox, command.id, Stdin(b"\n"))
        assert b"24 80" in (await yard.finish(command)).stdout

    @contract(Capability.PTY)
    async def test_terminal_turns_a_byte_into_an_interrupt(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        script = "trap 'echo caught; exit 3' INT; echo ready; tty; while :; do sleep 0.05; done"
        command = await yard.begin(devbox, script, pty=(80, 24))
        await eventually(
            lambda: re.search(rb"ready\s+/dev/", (command.folder / "stdout").read_bytes()) is not None,
            "a tty",
        )
        assert await yard.driver.control(devbox, command.id, Stdin(b"\x03"))
        result = await yard.finish(command)
        assert result.status.exit_status == 3
        assert b"caught" in result.stdout
