"""The driver contract as tests: what every way of holding devboxes owes.

Subclass it in a test module, say how to make the driver, and pytest does the rest:

    class TestMyDriver(DriverContract):
        def make_driver(self, folder):
            return MyDriver(folder, {})

What needs a capability the driver does not claim is skipped, and says so.
"""

from benchyard.testing.command_contract import CommandContract
from benchyard.testing.devbox_contract import DevboxContract
from benchyard.testing.file_contract import FileContract


class DriverContract(CommandContract, DevboxContract, FileContract):
    """Every test a driver has to pass."""
