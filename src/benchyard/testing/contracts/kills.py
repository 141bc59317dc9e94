"""Duties of every driver in ending things: no process of it is left, and no other is touched."""

import os
from pathlib import Path
from typing import Any

from benchyard.devboxes.base import Command, Kill, Stdin
from benchyard.testing.contracts.driver_fixture import (
    DriverFixture,
    DriverSuite,
    contract,
    eventually,
    processes_with,
)
from benchyard.testing.contracts.kill_tricks import TRICKS

_SOURCE = Path(__file__).with_name("kill_tricks.py")
_SOME = ("zombie_leader", "rolling_zombies", "rolling_fork")
"""Tricks that are tried all at once; more would keep each other from getting under way."""
_LIMIT_SECONDS = 6.0
"""Enough time for all of them to get under way on a busy machine."""
_LEFT = "{0} >/dev/null 2>&1 &"


class _Trick:
    """A program that tries to outlive its end, and the pipe that shows whether it has."""

    def __init__(self, yard: DriverFixture, name: str) -> None:
        self.name = name
        self._path = yard.folder / f"sign-{yard.marker()}"
        os.mkfifo(self._path)
        self._reader = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_under_way = False
        self.command: Command

    @property
    def extra_files(self) -> tuple[tuple[Path, str], ...]:
        return ((self._path, "w"),)

    def is_left(self) -> bool:
        """Tell whether any process of it still holds the pipe."""
        while True:
            try:
                read = os.read(self._reader, 4096)
            except BlockingIOError:
                return True
            if not read:
                return False
            self._is_under_way = True

    def is_under_way(self) -> bool:
        return self.is_left() and self._is_under_way

    def close(self) -> None:
        os.close(self._reader)


async def _begin(
    yard: DriverFixture, devbox: str, name: str, script: str = "{0} & sleep 600", **changes: Any
) -> _Trick:
    """Begin a trick in a devbox, and return when it is under way."""
    trick = _Trick(yard, name)
    command = script.format(f"python3 kill_tricks.py {name}")
    trick.command = await yard.begin(devbox, command, extra_files=trick.extra_files, **changes)
    await eventually(trick.is_under_way, f"{name} under way")
    return trick


async def _devbox(yard: DriverFixture) -> str:
    devbox = await yard.devbox()
    await yard.write(devbox, "~/kill_tricks.py", _SOURCE.read_bytes())
    return devbox


async def _all_ways(yard: DriverFixture, devbox: str) -> list[_Trick]:
    """Begin some tricks twice, all at once: below a running command, and left by one that ended normally."""
    tricks = []
    for name in _SOME:
        tricks.append(await _begin(yard, devbox, name))
        left = await _begin(yard, devbox, name, _LEFT)
        await yard.finish(left.command)
        assert left.is_left(), name
        tricks.append(left)
    return tricks


class KillContract(DriverSuite):
    """Time limits, kills and ends, against programs that try to outlive them."""

    @contract()
    async def test_nothing_outlives_a_time_limit(self, yard: DriverFixture) -> None:
        devbox = await _devbox(yard)
        tricks = [await _begin(yard, devbox, name, timeout_seconds=_LIMIT_SECONDS) for name in _SOME]
        for trick in tricks:
            status = (await yard.finish(trick.command)).status
            assert not trick.is_left(), trick.name
            assert (status.timed_out, status.exit_status, status.error) == (True, 137, None), trick.name
            trick.close()
        assert await yard.driver.inside.processes(devbox) == []

    @contract()
    async def test_nothing_outlives_a_kill_and_bystanders_go_on(self, yard: DriverFixture) -> None:
        devbox = await _devbox(yard)
        beside, left, resting = yard.marker(), yard.marker(), yard.marker()
        command = await yard.begin(devbox, f"while sleep 0.01; do echo on; done; : {beside}")
        quiet = ">/dev/null 2>&1 &"
        pid = await yard.text(devbox, f"sleep {left} {quiet} sleep {resting} {quiet} echo $!")
        await eventually(lambda: bool(processes_with(f"sleep\0{resting}")), "its start")
        await yard.text(devbox, f"kill -STOP {pid}")
        for name in TRICKS:
            trick = await _begin(yard, devbox, name)
            assert await yard.driver.control(devbox, trick.command.id, Kill())
            status = (await yard.finish(trick.command)).status
            assert not trick.is_left(), name
            assert (status.killed, status.exit_status, status.error) == (True, 137, None), name
            trick.close()
            for marker in (beside, left, resting):
                assert processes_with(marker), name
        (stopped,) = processes_with(f"sleep\0{resting}")
        assert _state(stopped) == "T"
        size = (command.folder / "stdout").stat().st_size
        await eventually(lambda: (command.folder / "stdout").stat().st_size > size, "a bystander's output")

    @contract()
    async def test_nothing_outlives_a_strict_command(self, yard: DriverFixture) -> None:
        devbox = await _devbox(yard)
        for name in TRICKS:
            script = "{0} & read _; exit 3"
            trick = await _begin(yard, devbox, name, script, strict=True, attach_stdin=True)
            await yard.close_input(devbox, trick.command)
            status = (await yard.finish(trick.command)).status
            assert not trick.is_left(), name
            assert (status.exit_status, status.error) == (3, None), name
            trick.close()

    @contract()
    async def test_nothing_outlives_the_end_of_everything(self, yard: DriverFixture) -> None:
        devbox = await _devbox(yard)
        tricks = await _all_ways(yard, devbox)
        await yard.driver.inside.kill_all(devbox)
        for trick in tricks:
            assert not trick.is_left(), trick.name
            trick.close()
        assert await yard.driver.inside.processes(devbox) == []
        assert await yard.text(devbox, "echo alive") == "alive"

    @contract()
    async def test_nothing_outlives_the_stop_of_its_devbox(self, yard: DriverFixture) -> None:
        devbox = await _devbox(yard)
        tricks = await _all_ways(yard, devbox)
        await yard.driver.stop(devbox)
        for trick in tricks:
            assert not trick.is_left(), trick.name
            trick.close()

    @contract()
    async def test_nothing_outlives_its_supervisor(self, yard: DriverFixture) -> None:
        devbox = await _devbox(yard)
        for name in TRICKS:
            script = "{0} & read _; kill -9 $PPID; sleep 600"
            trick = await _begin(yard, devbox, name, script, attach_stdin=True)
            # Without a check of its arrival: the process that would answer may be dead by then.
            await yard.driver.control(devbox, trick.command.id, Stdin(close=True))
            assert (await yard.finish(trick.command)).status.exit_status == 137, name
            await eventually(lambda trick=trick: not trick.is_left(), f"the end of {name}")  # type: ignore[misc]
            trick.close()

    @contract()
    async def test_nobody_hides_from_the_list_of_processes(self, yard: DriverFixture) -> None:
        devbox = await _devbox(yard)
        for name in TRICKS:
            trick = await _begin(yard, devbox, name, _LEFT)
            await yard.finish(trick.command)
            processes = await yard.driver.inside.processes(devbox)
            assert processes.total == len(processes) >= (251 if name == "crowd" else 1), name
            assert all("python" in process.command for process in processes), name
            if name in ("zombie_leader", "crowd"):
                assert all(process.command == f"python3 kill_tricks.py {name}" for process in processes), name
            await yard.driver.inside.kill_all(devbox)
            assert not trick.is_left(), name
            trick.close()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
