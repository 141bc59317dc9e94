"""A server that is killed while a devbox stands still, run as a program: see `test_killed_servers`.

Its arguments are a folder, the driver, the version of its groups, the way, and how long a command sleeps. The
ways: `listed`, whose devbox's first process freezes it again and again until somebody kills the server;
`frozen` and `signalled`, which kill themselves when they have frozen the devbox's group to end it, before or
after the signals to all that is in it; `snapshot`, which does so when it has frozen the devbox to copy it.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from benchyard import registry
from benchyard.devboxes.base import Command, DevboxSpec, Driver
from benchyard.devboxes.shared import cgroups
from benchyard.testing.contracts.driver_fixture import DriverSuite

DEVBOX = "dbx_1"


def driver_in(folder: Path, name: str, version: int) -> Driver:
    """A driver whose groups are of this version."""
    kinds = {1: "cgroup", 2: "cgroup2"}
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    controllers = frozenset({"freezer"} if version == 1 else ())
    found = [
        cgroups.Hierarchy(Path(place), version, controllers)
        for _source, place, kind, options, *_rest in lines
        if kind == kinds[version] and (version == 2 or "freezer" in options.split(","))
    ]

    def detect(owner: str, *, limiting: bool = True) -> cgroups.Cgroups:
        return cgroups.Cgroups(found[:1], owner)

    setattr(cgroups, "detect", detect)  # noqa: B010  a module's function is not for assignment
    driver: Driver = registry.load("devboxes", name)(folder / "driver", {})
    return driver


async def spec_in(folder: Path, driver: Driver) -> DevboxSpec:
    """The devbox that is tried."""
    place = folder / "devboxes" / DEVBOX
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return DevboxSpec(DEVBOX, place, await DriverSuite().make_rootfs(driver, folder / "shared"))


def command_in(spec: DevboxSpec, name: str, script: str) -> Command:
    """A command of a shell in the devbox."""
    place = spec.folder / "executions" / name
    place.mkdir(parents=True)
    return Command(id=name, argv=("/bin/sh", "-c", script), folder=place)


def _die(*_given: object) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed process goes on")


async def _serve(folder: Path, name: str, version: int, way: str) -> None:
    driver = driver_in(folder, name, version)
    await driver.__aenter__()
    spec = await spec_in(folder, driver)
    await driver.start(spec)
    await driver.exec(DEVBOX, command_in(spec, "before", f"sleep {sys.argv[5]}"))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while way == "listed":
        await driver.inside.processes(DEVBOX)
    if way == "snapshot":
        await driver.freeze(DEVBOX)
        _die()
    # What comes next in `end_members`, after the group stands still.
    setattr(cgroups, "_thaw" if way == "signalled" else "_words", _die)
    await driver.stop(DEVBOX)


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
