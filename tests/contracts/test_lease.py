"""A frozen devbox ends by its lease, however its server and the helpers of that ended, in every mode."""

import os
from pathlib import Path

import pytest

from benchyard.devboxes.base import Capability, Driver
from benchyard.devboxes.native.driver import NativeDriver
from benchyard.devboxes.shared.running_devbox import FirstProcess
from benchyard.testing.contracts.driver_fixture import (
    DriverFixture,
    DriverSuite,
    contract,
    eventually,
    processes_with,
)


def lives(held: FirstProcess) -> bool:
    descriptor = held.open()
    if descriptor is None:
        return False
    os.close(descriptor)
    return True


def helpers(folder: Path) -> list[int]:
    """The zygote and the warden, with whatever they have forked."""
    return [pid for pid in processes_with("benchyard") if _works_in(pid, folder)]


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder
    except OSError:
        return False


async def gone(yard: DriverFixture, held: FirstProcess) -> None:
    """Wait for the end of a devbox and of everything that looked after it."""
    await eventually(lambda: not lives(held), "the devbox's end")
    await eventually(lambda: helpers(yard.folder / "driver") == [], "the warden's end")
    assert [group for group in held.groups if Path(group).exists()] == []


@pytest.mark.parametrize("mode", NativeDriver.modes(), ids=lambda mode: f"native-{mode}")
class TestFrozenLease(DriverSuite):
    mode: str

    @pytest.fixture(autouse=True)
    def _chosen(self, mode: str) -> None:
        self.mode = mode

    def make_driver(self, folder: Path) -> Driver:
        return NativeDriver(folder, {"mode": self.mode, "lease": "1"})

    async def _frozen(self, yard: DriverFixture) -> FirstProcess:
        devbox = await yard.devbox()
        await yard.begin(devbox, "sleep 600")
        await yard.driver.freeze(devbox)
        held = FirstProcess.load(yard.specs[devbox].folder)
        assert held is not None
        return held

    @contract(Capability.FREEZE)
    async def test_when_the_server_goes(self, yard: DriverFixture) -> None:
        held = await self._frozen(yard)
        await yard.driver.__aexit__(None, None, None)
        await gone(yard, held)
        await yard.driver.__aenter__()

    @contract(Capability.FREEZE)
    async def test_when_server_and_zygote_are_killed(self, yard: DriverFixture) -> None:
        held = await self._frozen(yard)
        assert isinstance(yard.driver, NativeDriver)
        zygote = yard.driver._zygote._process
        assert zygote is not None
        zygote.kill()
        zygote.wait()
        # Of a server that is killed the kernel closes what it had open, and nobody says a word.
        yard.driver._roll.close()
        for running in yard.driver._running.values():
            running.close()
        await gone(yard, held)
        await yard.renew()
