"""The driver contract as tests: what every way of holding devboxes owes.

Subclass it in a test module, say how to make the driver, and pytest does the rest:

    class TestMyDriver(DriverContract):
        def make_driver(self, folder):
            return MyDriver(folder, {})

What needs a capability the driver does not claim is skipped, and says so.
"""

from benchyard.testing.answer_contract import AnswerContract
from benchyard.testing.change_contract import ChangeContract
from benchyard.testing.command_contract import CommandContract
from benchyard.testing.connect_contract import ConnectContract
from benchyard.testing.devbox_contract import DevboxContract
from benchyard.testing.door_contract import DoorContract
from benchyard.testing.file_contract import FileContract
from benchyard.testing.inside_contract import InsideContract
from benchyard.testing.kill_contract import KillContract
from benchyard.testing.mount_contract import MountContract
from benchyard.testing.network_contract import NetworkContract
from benchyard.testing.room_contract import RoomContract
from benchyard.testing.tracing_contract import TracingContract


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
    """Every test a driver has to pass."""
