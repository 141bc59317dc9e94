"""Folders shown in devboxes: noted by the host, and there again whenever a devbox is."""

from pathlib import Path

import pytest

from benchyard.devboxes.base import HostFolder
from benchyard.errors import NotSupported
from tests.hosts.conftest import OnHost
from tests.hosts.yard import HostYard


def _kit(folder: Path) -> Path:
    kit = folder / "kit"
    kit.mkdir()
    (kit / "file").write_text("shown")
    return kit


def test_mounts_are_recorded_and_outlive_the_server(on_host: OnHost, tmp_path: Path) -> None:
    async def test(yard: HostYard) -> None:
        shown = (HostFolder(_kit(tmp_path), "/opt/kit"),)
        devbox = await yard.devbox(mounts=shown)
        await yard.restart()
        assert await yard.text(devbox, "cat /opt/kit/file") == "shown"
        await yard.host.stop(devbox, keep_disk=True)
        await yard.restart()
        assert await yard.devbox(mounts=shown) == devbox
        assert await yard.text(devbox, "cat /opt/kit/file") == "shown"

    on_host(test, name="native")


def test_a_driver_that_cannot_show_folders_leaves_nothing(on_host: OnHost, tmp_path: Path) -> None:
    async def test(yard: HostYard) -> None:
        with pytest.raises(NotSupported):
            await yard.devbox(mounts=(HostFolder(_kit(tmp_path), "/opt/kit"),))
        assert yard.host.running() == set()
        await yard.restart()
        assert yard.host.running() == set()

    on_host(test)
