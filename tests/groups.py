"""Which tests stay together on a worker, and which groups of them begin."""

import re

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

LONGEST = (
    "tests/contracts/test_drivers.py",
    "tests/faults/",
    "tests/e2e/",
    "tests/benchmarks/",
    "tests/integrity/",
    "tests/contracts/",
    "tests/api/",
    "tests/docs/",
    "tests/typescript/",
)
"""What the names of tests that take long begin with, in the order in which workers take them up."""
DIVIDED = {"tests/contracts/test_drivers.py": re.compile(r"\[([a-z]+(?:-[a-z]+)*)")}
"""Files that workers share: what the tests of one group have in common."""


def group_of(name: str) -> str:
    """Name the group of a test: its file, or a part of that."""
    path = name.partition("::")[0]
    pattern = DIVIDED.get(path)
    found = pattern.search(name) if pattern else None
    return f"{path} {found[1]}" if found else path


def turn_of(group: str) -> int:
    """Place of a group among those that take long; all others come after them."""
    return next((turn for turn, start in enumerate(LONGEST) if group.startswith(start)), len(LONGEST))


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives each group to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
