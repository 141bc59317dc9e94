"""Groups around devboxes: all together are bounded, and version 2 hands its controllers down."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard.devboxes.base import DevboxLimits
from benchyard.devboxes.shared import cgroups


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[str]:
    name = cgroups.owner(tmp_path)
    yield name
    for folder in cgroups.find_groups(name):
        for inner in folder.iterdir():
            if inner.is_dir():
                inner.rmdir()
        folder.rmdir()


def test_all_devboxes_together_leave_something_for_the_machine(owner: str) -> None:
    groups = cgroups.detect(owner)
    if not groups.capabilities:
        pytest.skip("control groups are not writable here")
    # The group around them goes with the last devbox and comes with the next.
    groups.remove_empty()
    made = groups.create("dbx_1", DevboxLimits())
    try:
        found = {
            name: int(path.read_text())
            for folder in made
            for name in ("pids.max", "memory.limit_in_bytes", "memory.max")
            if (path := folder.parent / name).exists()
        }
        assert found
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        processes = int(Path("/proc/sys/kernel/pid_max").read_text())
        assert found.pop("pids.max", 1) < processes
        assert all(0 < value < whole for value in found.values())
    finally:
        groups.remove("dbx_1")
        groups.remove_empty()
    assert cgroups.find_groups(owner) == []


def test_version_2_hands_its_controllers_down_to_the_groups_of_devboxes(owner: str) -> None:
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    tops = [Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"]
    for top in tops:
        available = frozenset((top / "cgroup.controllers").read_text().split())
        handed = frozenset((top / "cgroup.subtree_control").read_text().split())
        # Only where it disturbs nobody: a group below the topmost would have to be emptied first.
        if available and not (top / "cgroup.type").exists():
            break
    else:
        pytest.skip("the topmost control group of version 2, with a controller, is not in sight here")
    chosen = min(available)
    hierarchy = cgroups.Hierarchy(top, 2, frozenset({chosen}))
    cgroups._delegate(hierarchy)
    try:
        groups = cgroups.Cgroups([hierarchy], owner)
        (made,) = groups.create("dbx_1", DevboxLimits())
        assert chosen in (made / "cgroup.controllers").read_text().split()
        groups.remove("dbx_1")
        groups.remove_empty()
    finally:
        if chosen not in handed:
            (top / "cgroup.subtree_control").write_text(f"-{chosen}")
