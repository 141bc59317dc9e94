"""Nothing gets out of a devbox that a container engine holds, and none takes more than it may."""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchyard.devboxes.base import Driver
from benchyard.devboxes.container.driver import ContainerDriver
from benchyard.testing.container_engine import RunningEngine, missing
from benchyard.testing.contracts.containment import ContainmentContract
from benchyard.testing.escapes.suite import EscapeContract


@pytest.fixture(scope="module")
def engine() -> Iterator[RunningEngine]:
    if reason := missing("podman"):
        pytest.skip(reason)
    with RunningEngine(Path(f"/var/tmp/engine-{secrets.token_hex(4)}")) as running:
        yield running


HARMLESS = {
    "write to proc": "root inside is uid 0 and may open these; none takes anything; /proc/sys is read-only",
    "write to control groups": "engines show a container its own groups, read-only",
    "find devices of the host": "mqueue and our read-only folder lie in a /dev of the container's own",
    "change the hosts devices": "the nodes are the container's own",
    "find mounts with devices": "nodes cannot be made without CAP_MKNOD, and the engine's device rules hold",
    "use up the machines terminals": "the engine's devpts has no limit of its own; the machine's holds",
}


class TestEscapes(EscapeContract):
    harmless = HARMLESS
    engine: RunningEngine

    @pytest.fixture(autouse=True)
    def _chosen(self, engine: RunningEngine) -> None:
        self.engine = engine

    def make_driver(self, folder: Path) -> Driver:
        return ContainerDriver(folder, {"socket": str(self.engine.socket), "image": "small-system"})


class TestContainment(ContainmentContract):
    engine: RunningEngine

    @pytest.fixture(autouse=True)
    def _chosen(self, engine: RunningEngine) -> None:
        self.engine = engine

    def make_driver(self, folder: Path) -> Driver:
        return ContainerDriver(folder, {"socket": str(self.engine.socket), "image": "small-system"})
