"""The fake driver: fails when it is asked to."""

import asyncio
import time
from pathlib import Path

import pytest

from benchyard.devboxes.base import Capability, Command, DevboxSpec, Rootfs
from benchyard.devboxes.fake import FakeDriver
from benchyard.errors import DevboxGone, StartFailed


def _spec(folder: Path) -> DevboxSpec:
    (folder / "devbox").mkdir()
    return DevboxSpec("dbx_1", folder / "devbox", Rootfs((), ("usr",)))


def test_a_start_fails_on_request(tmp_path: Path) -> None:
    async def start() -> None:
        async with FakeDriver(tmp_path, {"fail_start": "out of luck"}) as driver:
            with pytest.raises(StartFailed, match="out of luck"):
                await driver.start(_spec(tmp_path))

    asyncio.run(start())


def test_a_command_or_a_search_fails_on_request(tmp_path: Path) -> None:
    async def run() -> None:
        spec = _spec(tmp_path)
        async with FakeDriver(tmp_path, {"fail_exec": "gone"}) as driver:
            await driver.start(spec)
            try:
                with pytest.raises(DevboxGone, match="gone"):
                    await driver.exec("dbx_1", Command("one", ("true",), tmp_path))
                async with FakeDriver(tmp_path, {"fail_find": "yes"}) as other:
                    assert not await other.find(spec)
            finally:
                await driver.stop("dbx_1")

    asyncio.run(run())


def test_a_start_takes_as_long_as_requested(tmp_path: Path) -> None:
    async def start() -> float:
        async with FakeDriver(tmp_path, {"start_delay": "0.1"}) as driver:
            began = time.monotonic()
            await driver.start(_spec(tmp_path))
            took = time.monotonic() - began
            await driver.stop("dbx_1")
            return took

    assert asyncio.run(start()) >= 0.1


def test_capabilities_can_be_taken_away(tmp_path: Path) -> None:
    driver = FakeDriver(tmp_path, {"without": "snapshots,pty"})
    assert Capability.SNAPSHOTS not in driver.capabilities
    assert Capability.PTY not in driver.capabilities
    assert Capability.FREEZE in driver.capabilities
