"""A server may be killed while a devbox stands still, for whatever reason: the next one finds none frozen.

To see or kill what runs in a devbox its first process freezes it, which needs no server to thaw it again. To
end a devbox, and to copy its disk, the server does so itself: whoever takes the devbox up thaws it.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard.devboxes.base import read_status
from benchyard.devboxes.shared import cgroups
from benchyard.testing.contracts.driver_fixture import eventually as soon
from benchyard.testing.contracts.driver_fixture import processes_with
from tests.api.devbox import eventually
from tests.devboxes.killed_server import DEVBOX, command_in, driver_in, spec_in
from tests.house.tree import ROOT

WAYS = [
    ("native", "listed"),
    ("native", "snapshot"),
    ("process", "listed"),
    ("process", "frozen"),
    ("process", "signalled"),
]
_GROUP_FILES = {1: ("freezer.state", "FROZEN"), 2: ("cgroup.events", "frozen 1")}


@pytest.fixture
def tidied(tmp_path: Path) -> Iterator[None]:
    """Ends what a test that fails leaves frozen."""
    yield
    for top in cgroups.find_groups(cgroups.owner(tmp_path / "driver")):
        groups = cgroups.Cgroups([cgroups.Hierarchy(top.parent, 1, frozenset({"freezer"}))], top.name)
        groups.remove(DEVBOX)
        groups.remove_empty()


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("name", "way"), WAYS)
def test_no_devbox_stays_frozen(
    tmp_path: Path, name: str, way: str, version: int, monkeypatch: pytest.MonkeyPatch, tidied: None
) -> None:
    if not _has_groups(version):
        pytest.skip(f"control groups of version {version} that can be frozen are not in sight here")
    marker = f"4321.{os.getpid()}{time.monotonic_ns() % 10**9}"
    given = [str(tmp_path), name, str(version), way, marker]
    command = [sys.executable, "-m", "tests.devboxes.killed_server", *given]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        if way == "listed":
            eventually(lambda: _is_frozen(tmp_path, version), "a frozen group")
            server.kill()
        assert server.wait(60) == -signal.SIGKILL
    if way != "listed":
        assert _is_frozen(tmp_path, version)
    # What a server of its own does for good is undone here.
    monkeypatch.setattr(cgroups, "detect", cgroups.detect)
    asyncio.run(_take_up(tmp_path, name, version))
    assert processes_with(marker) == []
    assert cgroups.find_groups(cgroups.owner(tmp_path / "driver")) == []


async def _take_up(folder: Path, name: str, version: int) -> None:
    """See that a new server either has the devbox, and it runs on, or has none and nothing is left."""
    async with driver_in(folder, name, version) as driver:
        spec = await spec_in(folder, driver)
        if await driver.find(spec):
            assert not _is_frozen(folder, version)
            after = command_in(spec, "after", "echo goes on")
            await driver.exec(DEVBOX, after)
            await soon(lambda: read_status(after.folder) is not None, "a command after the freeze")
            assert (after.folder / "stdout").read_bytes() == b"goes on\n"
        await driver.stop(DEVBOX)
        await driver.trees.remove(folder / "devboxes")


def _has_groups(version: int) -> bool:
    kinds = [line.split()[2:4] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return any(
        kind == ("cgroup" if version == 1 else "cgroup2")
        and (version == 2 or "freezer" in options.split(","))
        for kind, options in kinds
    )


def _is_frozen(folder: Path, version: int) -> bool:
    file, sign = _GROUP_FILES[version]
    found = [
        path for top in cgroups.find_groups(cgroups.owner(folder / "driver")) for path in top.rglob(file)
    ]
    try:
        return any(sign in path.read_text().splitlines() for path in found)
    except OSError:
        return False
