"""What the trials of all jobs may take of the machine together: the sizes their devboxes declare."""

from dataclasses import dataclass

from benchyard.engine.sizes import GIB, Resources
from benchyard.hosts.machine import Machine
from benchyard.settings import Settings


@dataclass(frozen=True)
class Room:
    """So much can be declared at the same time."""

    cpus: float
    memory_gb: float


class Capacity:
    """Counts what is declared. A trial that is larger than the machine runs alone."""

    def __init__(self, machine: Machine, settings: Settings) -> None:
        self._room = Room(
            machine.cpus * settings.cpu_overcommit,
            machine.memory_bytes / GIB * settings.memory_overcommit,
        )
        self._taken: dict[str, Resources] = {}

    def fits(self, wanted: Resources) -> bool:
        """Whether there is room for one more of this size."""
        if not self._taken:
            return True
        cpus = sum(each.cpus for each in self._taken.values()) + wanted.cpus
        memory = sum(each.memory_gb for each in self._taken.values()) + wanted.memory_gb
        return cpus <= self._room.cpus and memory <= self._room.memory_gb

    def take(self, trial_id: str, wanted: Resources) -> None:
        """Count a trial; one that is counted is counted anew."""
        self._taken[trial_id] = wanted

    def give_back(self, trial_id: str) -> None:
        """A trial has ended."""
        self._taken.pop(trial_id, None)
