"""Which tests `make test` leaves to `make test-all`: those that repeat what others show.

The official client is tried whole as the blocking one, and as the asynchronous one where the two differ:
streams, long polls, pages, errors, context managers. The drivers' contract is tried whole with the native
driver's default mode, and in part with the others.
"""

import pytest

ASYNC_FILES = frozenset(
    f"tests/sdk/test_{name}.py"
    for name in ("account", "devboxes", "errors", "executions", "objects", "output", "pty", "restart")
)
"""Tests of the official client that are worth a second client."""
DRIVERS_FILE = "tests/contracts/test_drivers.py"
WHOLE_DRIVER = "native-root-idmap"
CORE_CONTRACTS = frozenset({"DevboxContract", "KillContract", "RoomContract", "TracingContract"})
"""What is tried of every driver and mode."""
SLOW_CONTAINERS = frozenset({"test_fifty_at_once"})
"""Of that, what takes minutes with containers and shows the engine's speed more than ours."""


def is_left_out(item: pytest.Function) -> bool:
    """Whether the test is one of those that repeat what others show."""
    path = item.nodeid.partition("::")[0]
    case = item.callspec.id if hasattr(item, "callspec") else ""
    if path.startswith("tests/sdk/"):
        return "async" in case.split("-") and path not in ASYNC_FILES
    if path == DRIVERS_FILE:
        assert item.cls is not None
        contract = next(each.__name__ for each in item.cls.__mro__ if item.originalname in vars(each))
        if case.startswith("container") and item.originalname in SLOW_CONTAINERS:
            return True
        return not case.startswith(WHOLE_DRIVER) and contract not in CORE_CONTRACTS
    return False
