"""Nothing outlives its end by whatever means a driver has for it: groups of version 1 or 2, or signals only.

The drivers' contract tries the means that this machine gives each driver; here are the others.
"""

from pathlib import Path

import pytest

from benchyard import registry
from benchyard.devboxes.base import Driver
from benchyard.devboxes.guest import landlock
from benchyard.devboxes.shared import cgroups
from benchyard.testing.contracts.kills import KillContract

MEANS = ("version 1", "version 2", "signals")


def _hierarchies(means: str) -> list[cgroups.Hierarchy]:
    """What groups by these means are made in; skips where this machine has none."""
    if means == "signals":
        return []
    lines = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    for _source, place, kind, options, *_rest in lines:
        folder = Path(place)
        if means == "version 2" and kind == "cgroup2":
            return [cgroups.Hierarchy(folder, 2, frozenset())]
        if means == "version 1" and kind == "cgroup" and "freezer" in options.split(","):
            return [cgroups.Hierarchy(folder, 1, frozenset({"freezer"}))]
    pytest.skip(f"control groups of {means} that can be frozen are not in sight here")


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize("name", ["native", "process"])
class TestKills(KillContract):
    name: str

    @pytest.fixture(autouse=True)
    def _chosen(self, name: str, means: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = name
        if (name, means) == ("process", "signals") and landlock.version() < landlock.SCOPES_SINCE:
            pytest.skip("this kernel cannot keep signals within a tree of processes")
        found = _hierarchies(means)

        def detect(owner: str, *, limiting: bool = True) -> cgroups.Cgroups:
            assert limiting is (name == "native")
            return cgroups.Cgroups(found, owner)

        monkeypatch.setattr(cgroups, "detect", detect)

    def make_driver(self, folder: Path) -> Driver:
        driver: Driver = registry.load("devboxes", self.name)(folder, {})
        return driver
