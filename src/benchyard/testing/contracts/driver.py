"""The driver contract as tests: the duties of every way of holding devboxes.

Subclass it in a test module, say how to make the driver, and pytest does the rest:

    class TestMyDriver(DriverContract):
        def make_driver(self, folder):
            return MyDriver(folder, {})

Tests of a capability that the driver does not claim are skipped, with the reason.
"""

from benchyard.testing.contracts.changes import AnswerContract, ChangeContract
from benchyard.testing.contracts.commands import CommandContract
from benchyard.testing.contracts.connections import ConnectContract, DoorContract, NetworkContract
from benchyard.testing.contracts.devbox import DevboxContract
from benchyard.testing.contracts.files import FileContract, MountContract
from benchyard.testing.contracts.inside import InsideContract
from benchyard.testing.contracts.kills import KillContract
from benchyard.testing.contracts.room import RoomContract, TracingContract


class DriverContract(
    AnswerContract,
    ChangeContract,
    CommandContract,
    ConnectContract,
    DevboxContract,
    DoorContract,
    FileContract,
    InsideContract,
    KillContract,
    MountContract,
    NetworkContract,
    RoomContract,
    TracingContract,
):
    """All tests a driver has to pass."""
