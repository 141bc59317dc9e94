"""`many`: what hundreds of idle devboxes cost, and how fast they come and go."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchyard.testing.server import RunningServer
from perf import machine
from perf.driver import AT_ONCE, Direct
from perf.fleet import CLIENTS, Fleet
from perf.options import Options
from perf.page import heading, table

_REST_SECONDS = 5.0
"""For the kernel to free what it frees later, and for the spare processes of the last devboxes."""


@dataclass(frozen=True)
class _Cost:
    """Of so many devboxes: bytes, as `_cost` reads them, and seconds, for all of them."""

    count: int
    memory: list[int]
    fill: float
    empty: float

    def rows(self) -> tuple[str, ...]:
        """The figures for one devbox, as they stand in the table."""
        each = [f"{value / self.count / machine.MB:.2f} MB" for value in self.memory]
        return (str(self.count), *each, f"{self.count / self.fill:.0f}", f"{self.count / self.empty:.0f}")


_NAMES = (
    ("alive at once", "500"),
    ("memory of the machine per devbox (MemAvailable)", "under 3 MB"),
    ("... what its memory group accounts for, with the kernel's share", ""),
    ("... its processes (proportional set size)", ""),
    ("... what whoever holds it grew by", ""),
    ("created per second", ""),
    ("ended per second, until nothing is left", ""),
)


def measure(folder: Path, options: Options) -> list[str]:
    """Fill and empty twice, through the API and through the driver."""
    through_api = _api(folder / "data", options.devboxes)
    through_driver = _driver(folder, options.devboxes)
    lines = [heading(f"{CLIENTS} clients at once, {AT_ONCE} starts at once through the driver.")]
    figures = zip(_NAMES, through_api.rows(), through_driver.rows(), strict=True)
    rows = [(name, api, driver, target) for (name, target), api, driver in figures]
    return [*lines, *table(("idle devboxes", "through the API", "through the driver", "target"), rows)]


def _api(data: Path, count: int) -> _Cost:
    with RunningServer(data, ["--driver", "native"]) as server:
        fleet = Fleet(server)
        fleet.fill(1)
        fleet.empty()
        return _cost(fleet, data / "driver", server.pid, count)


def _driver(folder: Path, count: int) -> _Cost:
    direct = Direct(folder)
    try:
        direct.cycle()
        return _cost(direct, direct.place, os.getpid(), count)
    finally:
        direct.close()


def _cost(held: Fleet | Direct, driver: Path, holder: int, count: int) -> _Cost:
    readings: tuple[Callable[[], int], ...] = (
        lambda: -machine.available(),
        lambda: machine.group_memory(driver),
        lambda: machine.share(machine.members(driver)),
        lambda: machine.resident(holder),
    )
    machine.drop_caches()
    before = [read() for read in readings]
    fill = held.fill(count)
    time.sleep(_REST_SECONDS)
    machine.drop_caches()
    grown = [read() - earlier for read, earlier in zip(readings, before, strict=True)]
    alive = len(machine.members(driver))
    if alive < count:
        raise RuntimeError(f"only {alive} processes are there, of {count} devboxes")
    return _Cost(count, grown, fill, held.empty())
