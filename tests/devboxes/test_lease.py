"""Devboxes whose server stays away end by themselves; what a killed server left is cleared away."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from benchyard.devboxes.base import Capability, Driver, Rootfs, Stdin
from benchyard.devboxes.native.driver import NativeDriver
from benchyard.devboxes.process.driver import ProcessDriver
from benchyard.devboxes.shared.running_devbox import FirstProcess
from benchyard.errors import UsageError
from benchyard.images.store import ImageStore
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


def held_in(yard: DriverFixture, devbox: str) -> FirstProcess:
    held = FirstProcess.load(yard.specs[devbox].folder)
    assert held is not None
    return held


def wardens(folder: Path) -> list[int]:
    return processes_in(folder, "benchyard warden")


def processes_in(folder: Path, title: str) -> list[int]:
    return [pid for pid in processes_with(title) if _works_in(pid, folder)]


def _works_in(pid: int, folder: Path) -> bool:
    try:
        return Path(f"/proc/{pid}/cwd").readlink() == folder
    except OSError:
        return False


class Leased(DriverSuite):
    lease = "1"

    def make_driver(self, folder: Path) -> Driver:
        return NativeDriver(folder, {"lease": self.lease})

    async def make_rootfs(self, driver: Driver, folder: Path) -> Rootfs:
        store = ImageStore(folder / "images", driver.trees)
        await store.open()
        return store.rootfs(await store.get("host"))


class TestShortLease(Leased):
    @contract()
    async def test_a_devbox_ends_when_its_server_stays_away(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        marker = yard.marker()
        await yard.begin(devbox, f"sleep {marker}")
        await eventually(lambda: processes_with(marker) != [], "the command")
        held = held_in(yard, devbox)
        await yard.driver.__aexit__(None, None, None)
        assert lives(held)
        await eventually(lambda: not lives(held), "the devbox's end")
        await eventually(lambda: processes_with(marker) == [], "its command's end")
        await eventually(lambda: wardens(yard.folder / "driver") == [], "the warden's end")
        assert [group for group in held.groups if Path(group).exists()] == []
        await yard.driver.__aenter__()

    @contract()
    async def test_killed_zygotes_do_not_pile_up_wardens(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        folder = yard.folder / "driver"
        assert isinstance(yard.driver, NativeDriver)
        for _ in range(3):
            zygote = yard.driver._zygote._process
            assert zygote is not None
            zygote.kill()
            zygote.wait()
            await yard.devbox()
        await eventually(lambda: len(processes_in(folder, "benchyard waiting warden")) == 1, "one warden")
        assert await yard.text(devbox, "echo alive") == "alive"

    @contract()
    async def test_a_devbox_with_a_server_outlives_its_lease(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        assert await yard.text(devbox, "sleep 2.5; echo alive") == "alive"


class TestLongLease(Leased):
    lease = "3600"

    @contract()
    async def test_the_warden_goes_when_a_server_comes(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        folder = yard.folder / "driver"
        await yard.driver.__aexit__(None, None, None)
        await eventually(lambda: len(wardens(folder)) == 1, "the warden")
        yard.driver = self.make_driver(folder)
        await yard.driver.__aenter__()
        await eventually(lambda: wardens(folder) == [], "the warden's end")
        assert await yard.driver.find(yard.specs[devbox])
        assert await yard.text(devbox, "echo alive") == "alive"

    @contract(Capability.FREEZE)
    async def test_a_devbox_that_was_frozen_when_the_server_went_goes_on(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        command = await yard.begin(devbox, "read line; echo got $line", attach_stdin=True)
        await yard.driver.freeze(devbox)
        await yard.renew()
        assert await yard.driver.find(yard.specs[devbox])
        assert await yard.driver.control(devbox, command.id, Stdin(b"it\n"))
        assert (await yard.finish(command)).stdout == b"got it\n"

    @contract()
    async def test_a_devbox_the_server_had_no_time_to_note_is_ended_by_the_next(
        self, yard: DriverFixture
    ) -> None:
        devbox = await yard.devbox()
        held = held_in(yard, devbox)
        folder = yard.specs[devbox].folder
        await yard.driver.__aexit__(None, None, None)
        (folder / "box.json").unlink()
        yard.driver = self.make_driver(yard.folder / "driver")
        await yard.driver.__aenter__()
        await eventually(lambda: not lives(held), "its end")
        assert not await yard.driver.find(yard.specs[devbox])
        assert not (folder / "work").exists()
        assert [group for group in held.groups if Path(group).exists()] == []

    @contract()
    async def test_leftovers_of_a_dead_devbox_are_cleared_by_the_next_server(
        self, yard: DriverFixture
    ) -> None:
        devbox = await yard.devbox()
        held = held_in(yard, devbox)
        folder = yard.specs[devbox].folder
        await yard.driver.__aexit__(None, None, None)
        os.kill(held.pid, signal.SIGKILL)
        await yard.driver.__aenter__()
        assert {path.name for path in folder.iterdir()} <= {"changes", "root", "executions"}
        assert list((yard.folder / "driver/devboxes").iterdir()) == []
        assert [group for group in held.groups if Path(group).exists()] == []


class TestProcessLease(Leased):
    def make_driver(self, folder: Path) -> Driver:
        return ProcessDriver(folder, {"lease": self.lease})

    @contract()
    async def test_a_keeper_ends_with_all_its_commands(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        marker = yard.marker()
        await yard.begin(devbox, f"setsid sleep {marker} & sleep {marker}")
        await eventually(lambda: len(processes_with(f"sleep\0{marker}")) == 2, "the commands")
        await yard.driver.__aexit__(None, None, None)
        await eventually(lambda: processes_with(marker) == [], "their end")
        await yard.driver.__aenter__()


@pytest.mark.parametrize("lease", ["0", "-1", "soon", "inf", "nan"])
def test_an_invalid_lease_is_refused(tmp_path: Path, lease: str) -> None:
    async def enter() -> None:
        await NativeDriver(tmp_path / "driver", {"lease": lease}).__aenter__()

    with pytest.raises(UsageError, match="seconds"):
        asyncio.run(enter())
