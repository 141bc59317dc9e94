"""What trials may declare together."""

from pathlib import Path

from benchyard.engine.devboxes.sizes import GIB, Resources
from benchyard.engine.jobs.scheduler import Capacity
from benchyard.hosts.machine import MachineSize, this_machine
from benchyard.settings import Settings

SMALL, LARGE = Resources(1, 2, 4), Resources(8, 32, 16)


def capacity(cpus: float, memory_gb: int) -> Capacity:
    settings = Settings(data=Path("unused"), cpu_overcommit=2.0, memory_overcommit=1.5)
    return Capacity(MachineSize(cpus, memory_gb * GIB), settings)


def test_processors_bound_it() -> None:
    room = capacity(2, 100)
    for number in range(4):
        assert room.fits(SMALL)
        room.take(str(number), SMALL)
    assert not room.fits(SMALL)
    room.give_back("2")
    room.give_back("2")
    assert room.fits(SMALL)


def test_memory_bounds_it() -> None:
    room = capacity(100, 4)
    for number in range(3):
        assert room.fits(SMALL)
        room.take(str(number), SMALL)
    assert not room.fits(SMALL)


def test_trial_larger_than_the_machine_runs_alone() -> None:
    room = capacity(1, 1)
    assert room.fits(LARGE)
    room.take("large", LARGE)
    assert not room.fits(SMALL)
    room.give_back("large")
    room.take("small", SMALL)
    assert not room.fits(LARGE)


def test_this_machine_has_processors_and_memory() -> None:
    found = this_machine()
    assert found.cpus >= 1
    assert found.memory_bytes > GIB // 4
