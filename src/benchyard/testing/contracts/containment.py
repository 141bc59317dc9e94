"""The containment suite: greedy code is held, ended in time, and given the reason.

Subclass it as the driver contract is subclassed. It is for drivers that claim isolation; others skip it.
Every test runs beside a second devbox, which has to go on answering.
"""

import asyncio
import contextlib
import itertools
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

from benchyard.devboxes.base import Capability, DevboxEnded, DevboxLimits, Kill
from benchyard.errors import BenchyardError
from benchyard.hosts.host import ExecRequest, ExecutionState, Host, StartRequest
from benchyard.images.store import ImageStore
from benchyard.store.vault import Vault
from benchyard.testing.contracts.driver_fixture import (
    DriverFixture,
    DriverSuite,
    contract,
    eventually,
    processes_with,
)

_PATIENCE_SECONDS = 60.0
_MEGABYTE = 1024**2
_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 60"
_DEAF = "trap '' TERM INT HUP QUIT USR1; "
_DAEMON = '(setsid setsid sh -c "{deaf} sleep {marker}; true" <&- >/dev/null 2>&1 &); '
_MANY_FILES = "import os\nfor n in range(6000): open(f'/opt/{n}', 'w').close()\nimport time; time.sleep(600)"
_SHARED = "while :; do head -c 60M /dev/zero > /dev/shm/file; done"
_LOUD = "printf out; touch /tmp/{name}; sleep {marker}"
_STOP_ALL = (
    "import os, signal, sys\nwhile not all(map(os.path.exists, sys.argv[1:])): pass\n"
    "while True: os.kill(-1, signal.SIGSTOP)"
)
_ON_FIRST_PROCESS = (
    "import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (4, 4))",
    "import os; os.setpriority(os.PRIO_PROCESS, 1, 19)",
    "import os; os.setpriority(os.PRIO_PGRP, 1, 19)",
    "import os; os.setpriority(os.PRIO_USER, 0, 19)",
    "import os; os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0))",
    "import os; os.sched_setaffinity(1, {0})",
)


class Neighbours:
    """A host with the devbox that misbehaves, and one beside it."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._numbers = itertools.count(1)

    async def start(self, limits: DevboxLimits) -> None:
        """Start both; only the first has the limits."""
        await self.host.start(StartRequest(id="hog", image="host", limits=limits, user="root"))
        await self.host.start(StartRequest(id="quiet", image="host", user="root"))

    async def begin(self, command: str, devbox: str = "hog", **changes: Any) -> ExecutionState:
        """Start a command."""
        request = ExecRequest(id=f"exec_{next(self._numbers)}", command=command, **changes)
        return await self.host.exec(devbox, request)

    async def run(self, command: str, devbox: str = "hog", **changes: Any) -> ExecutionState:
        """Run a command to its end, which has to come."""
        begun = await self.begin(command, devbox, **changes)
        state = await self.host.wait(devbox, begun.id, _PATIENCE_SECONDS)
        assert state.status == "completed", state
        return state

    async def answers(self, devbox: str = "quiet") -> bool:
        """Tell whether a devbox still runs commands."""
        return (await self.run("echo here", devbox)).exit_status == 0

    async def printed(self, execution_id: str) -> str:
        """Return the output of a command of the hog."""
        return (await self.host.tail("hog", execution_id, "stdout", 100))[0]

    async def end_of_hog(self) -> DevboxEnded:
        """Wait for the event that a devbox has ended."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            async for event in self.host.events():
                if isinstance(event, DevboxEnded):
                    break
        assert isinstance(event, DevboxEnded)
        assert event.devbox_id == "hog"
        return event


@contextlib.asynccontextmanager
async def neighbours(yard: DriverFixture, **limits: Any) -> AsyncIterator[Neighbours]:
    """Yield two devboxes on a host over the yard's driver, ended afterwards."""
    store = ImageStore(yard.shared / "images", yard.driver.trees)
    await store.open()
    async with Host(yard.folder / "host", yard.driver, store, Vault(yard.folder / "key")) as host:
        made = Neighbours(host)
        try:
            await made.start(DevboxLimits(**limits))
            yield made
        finally:
            for devbox in ("hog", "quiet"):
                await host.stop(devbox, keep_disk=False)


class ContainmentContract(DriverSuite):
    """Containment: a devbox uses up its own resources only."""

    @contract(Capability.ISOLATION, Capability.LIMIT_PIDS)
    async def test_a_fork_bomb_is_held_and_ended_in_time(self, yard: DriverFixture) -> None:
        async with neighbours(yard, pids=80) as two:
            bomb = await two.begin(_BOMB, timeout_seconds=2)
            assert await two.answers()
            processes = (await two.host.usage("hog")).processes
            assert processes is not None
            assert processes <= 80
            ended = await two.host.wait("hog", bomb.id, _PATIENCE_SECONDS)
            assert ended.status == "completed"
            assert "time limit" in (ended.hint or "")
            assert await two.answers("hog")

    @contract(Capability.ISOLATION, Capability.LIMIT_MEMORY)
    async def test_a_memory_hog_is_killed_and_told_so(self, yard: DriverFixture) -> None:
        async with neighbours(yard, memory_bytes=96 * _MEGABYTE) as two:
            ended = await two.run("python3 -c 'x = bytearray(400_000_000)'")
            assert ended.exit_status == 137
            assert "out of memory" in (ended.hint or "")
            assert await two.answers("hog")
            assert await two.answers()

    @contract(Capability.ISOLATION, Capability.LIMIT_MEMORY)
    async def test_shared_memory_that_no_kill_frees_ends_the_devbox_with_its_reason(
        self, yard: DriverFixture
    ) -> None:
        async with neighbours(yard, memory_bytes=48 * _MEGABYTE) as two:
            writer = await two.begin(_SHARED)
            ending = asyncio.create_task(two.end_of_hog())
            while not (await asyncio.wait([ending], timeout=1.0))[0]:
                # The kernel may end the writer before the first process; the written data stays in memory.
                with contextlib.suppress(BenchyardError):
                    await two.begin(_SHARED)
            assert (await ending).reason == "out_of_memory"
            assert (await two.host.execution("hog", writer.id)).exit_status == 137
            assert await two.answers()

    @contract(Capability.ISOLATION, Capability.LIMIT_DISK)
    async def test_a_full_disk_ends_the_devbox_with_its_reason(self, yard: DriverFixture) -> None:
        async with neighbours(yard, disk_bytes=8 * _MEGABYTE) as two:
            script = "for i in 1 2 3 4; do head -c 4M /dev/urandom > /opt/$i; done; sleep 600"
            writer = await two.begin(script)
            ended = await two.end_of_hog()
            assert ended.reason == "out_of_disk"
            assert "bytes" in ended.detail
            assert (await two.host.execution("hog", writer.id)).exit_status == 137
            assert await two.answers()

    @contract(Capability.ISOLATION, Capability.LIMIT_DISK)
    async def test_too_many_files_end_the_devbox_with_its_reason(self, yard: DriverFixture) -> None:
        async with neighbours(yard, disk_entries=5000) as two:
            writer = await two.begin(f'python3 -c "{_MANY_FILES}"')
            ended = await two.end_of_hog()
            assert ended.reason == "out_of_disk"
            assert "5000" in ended.detail
            assert (await two.host.execution("hog", writer.id)).exit_status == 137
            assert await two.answers()

    @contract(Capability.ISOLATION)
    async def test_endless_output_is_cut_and_told_so(self, yard: DriverFixture) -> None:
        async with neighbours(yard, output_bytes=_MEGABYTE) as two:
            loud = await two.begin("head -c 200M /dev/zero; head -c 20M /dev/zero >&2; exit 5")
            assert await two.answers()
            ended = await two.host.wait("hog", loud.id, _PATIENCE_SECONDS)
            assert (ended.exit_status, ended.stdout_bytes, ended.stderr_bytes) == (5, _MEGABYTE, _MEGABYTE)
            assert ended.stdout_truncated
            assert ended.stderr_truncated
            assert "cut after" in (ended.hint or "")

    @contract(Capability.ISOLATION)
    async def test_output_without_an_end_is_ended_by_the_time_limit(self, yard: DriverFixture) -> None:
        async with neighbours(yard, output_bytes=_MEGABYTE) as two:
            ended = await two.run("yes", timeout_seconds=1)
            assert (ended.exit_status, ended.stdout_bytes) == (137, _MEGABYTE)
            assert "time limit" in (ended.hint or "")
            assert await two.answers()

    @contract(Capability.ISOLATION)
    async def test_closed_descriptors_do_not_hide_the_end(self, yard: DriverFixture) -> None:
        async with neighbours(yard) as two:
            assert (await two.run("exec 0<&- 1>&- 2>&-; sleep 0.3; exit 3")).exit_status == 3
            closed = "import os; os.closerange(0, 65536); os._exit(4)"
            assert (await two.run(f"exec python3 -c '{closed}'")).exit_status == 4

    @contract(Capability.ISOLATION)
    async def test_daemons_deaf_to_signals_end_with_their_command_or_devbox(
        self, yard: DriverFixture
    ) -> None:
        async with neighbours(yard) as two:
            first, second = yard.marker(), yard.marker()
            deaf = _DAEMON.format(deaf=_DEAF, marker=first) + f"{_DEAF} sleep 600 & {_DEAF} sleep 600"
            ended = await two.run(deaf, timeout_seconds=1)
            assert ended.exit_status == 137
            await eventually(lambda: not processes_with(first), "the end of a daemon after the time limit")
            await two.run(_DAEMON.format(deaf=_DEAF, marker=second))
            await eventually(lambda: bool(processes_with(second)), "a daemon")
            await two.host.stop("hog", keep_disk=True)
            assert not processes_with(second)
            assert await two.answers()

    @contract(Capability.ISOLATION)
    async def test_stopped_supervisors_save_nobody_from_the_time_limit_or_a_kill(
        self, yard: DriverFixture
    ) -> None:
        async with neighbours(yard) as two:
            first, second = yard.marker(), yard.marker()
            limited = await two.begin(_LOUD.format(name="first", marker=first), timeout_seconds=3)
            killed = await two.begin(_LOUD.format(name="second", marker=second))
            await two.begin(f'python3 -c "{_STOP_ALL}" /tmp/first /tmp/second')
            # Not their shells: those have it in their command line before they have printed anything.
            sleeping = [f"sleep\0{marker}" for marker in (first, second)]
            await eventually(lambda: all(map(processes_with, sleeping)), "both commands")
            async with asyncio.timeout(_PATIENCE_SECONDS):
                assert await two.host.control("hog", killed.id, Kill())
            for begun, error in ((limited, "time limit"), (killed, "")):
                ended = await two.host.wait("hog", begun.id, _PATIENCE_SECONDS)
                assert ended.exit_status == 137
                assert error in (ended.hint or "")
                assert await two.printed(begun.id) == "out"
            assert not processes_with(first)
            assert not processes_with(second)
            assert await two.answers()

    @contract(Capability.ISOLATION)
    async def test_a_command_that_stops_its_supervisor_once_ends_as_others_do(
        self, yard: DriverFixture
    ) -> None:
        async with neighbours(yard) as two:
            assert (await two.run("kill -STOP $PPID; exit 7")).exit_status == 7

    @contract(Capability.ISOLATION)
    async def test_what_a_killed_supervisor_leaves_ends_and_its_output_is_whole(
        self, yard: DriverFixture
    ) -> None:
        async with neighbours(yard) as two:
            marker = yard.marker()
            ended = await two.run(f"setsid sleep {marker} & printf out; kill -9 $PPID; sleep {marker}")
            assert ended.exit_status == 137
            assert await two.printed(ended.id) == "out"
            assert not processes_with(marker)
            assert await two.answers("hog")

    @contract(Capability.ISOLATION)
    async def test_a_supervisor_that_hangs_saves_nobody_from_the_time_limit_or_a_kill(
        self, yard: DriverFixture
    ) -> None:
        async with neighbours(yard) as two:
            # Looking up a user now waits for a writer of the pipe.
            await two.run("rm /etc/passwd; mkfifo /etc/passwd")
            limited = await two.begin("true", timeout_seconds=1)
            killed = await two.begin("true")
            async with asyncio.timeout(_PATIENCE_SECONDS):
                assert await two.host.control("hog", killed.id, Kill())
            for begun, error in ((limited, "time limit"), (killed, "")):
                ended = await two.host.wait("hog", begun.id, _PATIENCE_SECONDS)
                assert ended.exit_status == 137
                assert error in (ended.hint or "")

    @contract(Capability.ISOLATION)
    async def test_the_first_process_cannot_be_slowed_down_or_starved(self, yard: DriverFixture) -> None:
        async with neighbours(yard) as two:
            for script in _ON_FIRST_PROCESS:
                assert (await two.run(f"python3 -c '{script}'")).exit_status == 1, script
            own = "import resource; resource.prlimit(0, resource.RLIMIT_NOFILE, (64, 64))"
            assert (await two.run(f"nice -n 5 python3 -c '{own}'")).exit_status == 0

    @contract(Capability.ISOLATION)
    async def test_clock_and_names_stay_as_they_are(self, yard: DriverFixture) -> None:
        async with neighbours(yard) as two:
            name, began = socket.gethostname(), time.time()
            tries = ("date -s 2001-01-01", "hostname taken", "echo taken > /proc/sys/kernel/hostname")
            for script in tries:
                assert (await two.run(script)).exit_status != 0, script
            assert socket.gethostname() == name
            assert abs(time.time() - began) < 3600
            assert (await two.run('test "$(hostname)" = devbox', "quiet")).exit_status == 0
