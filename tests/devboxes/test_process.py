"""The process driver: what Landlock keeps, where paths lie, and that it says what it does not do."""

import asyncio
import logging
import os
import signal
from pathlib import Path

import pytest

from benchyard.devboxes.base import DevboxEnded, Driver, Rootfs
from benchyard.devboxes.guest import landlock
from benchyard.devboxes.process.driver import ProcessDriver
from benchyard.devboxes.shared.running_devbox import FirstProcess
from benchyard.errors import NotFound, StartFailed
from benchyard.testing.contracts.driver_fixture import (
    DriverFixture,
    DriverSuite,
    contract,
    eventually,
    processes_with,
)


class TestProcessDriver(DriverSuite):
    def make_driver(self, folder: Path) -> Driver:
        return ProcessDriver(folder, {})

    async def make_rootfs(self, driver: Driver, folder: Path) -> Rootfs:
        return Rootfs((), ("usr",))

    @contract()
    async def test_files_outside_the_folder_cannot_be_changed_or_read(self, yard: DriverFixture) -> None:
        if not landlock.version():
            pytest.skip("this kernel has no Landlock")
        devbox = await yard.devbox()
        outside = yard.folder / "outside"
        outside.write_text("secret")
        for script in (
            f"cat {outside}",
            f"echo changed > {outside}",
            f"ls {yard.folder}",
            f"rm {outside}",
            "touch /usr/x",
            "cat /etc/shadow",
            "echo x > /proc/sys/kernel/core_pattern",
            f"cat /proc/{os.getpid()}/environ",
        ):
            assert (await yard.run(devbox, script)).status.exit_status != 0, script
        assert outside.read_text() == "secret"
        assert await yard.text(devbox, "ls /usr >/dev/null && cat /etc/passwd | wc -l") != "0"
        assert await yard.text(devbox, "mktemp | xargs dirname") == f"{yard.specs[devbox].changes}/tmp"

    @contract()
    async def test_output_files_cannot_be_reached_through_who_holds_them(self, yard: DriverFixture) -> None:
        if not landlock.version():
            pytest.skip("this kernel has no Landlock")
        devbox = await yard.devbox()
        script = 'echo one; for f in /proc/$PPID/fd/*; do (: > "$f") 2>/dev/null && echo reached $f; done'
        assert (await yard.run(devbox, script)).stdout == b"one\n"

    @contract()
    async def test_paths_lie_in_the_folder_and_the_system_below_it(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        changes = yard.specs[devbox].changes
        await yard.write(devbox, "/srv/data/file", b"x")
        assert (changes / "srv/data/file").read_bytes() == b"x"
        assert await yard.text(devbox, "pwd; ls", cwd="/srv/data") == f"{changes}/srv/data\nfile"
        assert await yard.read(devbox, f"{changes}/srv/data/file") == b"x"
        assert await yard.text(devbox, "pwd", cwd="/usr/bin") == "/usr/bin"
        assert (await yard.read(devbox, "/bin/sh"))[:4] == b"\x7fELF"
        for closed in ("/etc/shadow", str(Path(__file__)), "/var/log/dpkg.log"):
            with pytest.raises(NotFound):
                await yard.read(devbox, closed)
        assert await yard.text(devbox, "echo $HOME", user="user") == f"{changes}/home/user"

    @contract()
    async def test_other_images_are_refused_with_a_way_out(self, yard: DriverFixture) -> None:
        layers = (yard.folder / "one", yard.folder / "two")
        for rootfs in (Rootfs(layers[:1]), Rootfs(layers, ("usr",))):
            spec = yard.spec(rootfs=rootfs)
            with pytest.raises(StartFailed, match="native"):
                await yard.driver.start(spec)
            assert not list(spec.folder.iterdir())

    @contract()
    async def test_a_killed_keeper_is_reported_and_its_processes_are_ended(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        marker = yard.marker()
        await yard.begin(devbox, f"setsid sleep {marker}")
        await eventually(lambda: bool(processes_with(marker)), "its start")
        held = FirstProcess.load(yard.specs[devbox].folder)
        assert held is not None
        os.kill(held.pid, signal.SIGKILL)
        async for event in yard.driver.events():
            if isinstance(event, DevboxEnded):
                break
        assert not await yard.driver.find(yard.specs[devbox])
        await yard.driver.stop(devbox)
        assert not processes_with(marker)
        await yard.driver.start(yard.specs[devbox])
        assert await yard.text(devbox, "echo again") == "again"

    @contract()
    async def test_a_supervisor_that_is_killed_leaves_a_status(self, yard: DriverFixture) -> None:
        devbox = await yard.devbox()
        result = await yard.run(devbox, "kill -9 $PPID; sleep 60")
        assert result.status.exit_status == 137
        assert result.status.error is not None


def test_it_says_loudly_that_it_isolates_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def enter() -> None:
        async with ProcessDriver(tmp_path, {}):
            pass

    with caplog.at_level(logging.WARNING):
        asyncio.run(enter())
    assert "isolates nothing" in caplog.text
    assert "isolates nothing" in ProcessDriver.notice()
